//! Products of rows of 8-bit integers. The sums are exact, so that all kernels have the same results.

use crate::exact::modules::FilterKernels;

/// Targets of a panel, whose elements are beside each other.
pub(super) const PANEL: usize = 64;
/// Elements that an instruction multiplies and adds for each target.
pub(super) const STEP: usize = 4;
/// Lines of a panel for each step.
pub(super) const LINES: usize = PANEL / 16;

/// Four elements of 16 targets, each element as an unsigned number that is larger by 128.
#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line(pub [u32; 16]);

/// The kernels for this processor. The portable kernel is slower than products in single precision.
pub(super) fn best_kernels() -> FilterKernels {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            return FilterKernels::Avx512Vnni;
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("avxvnni") {
            return FilterKernels::AvxVnni;
        }
    }
    FilterKernels::Portable
}

/// `sums[q][t]` = Σ (element of query q) · (element of target t + 128). Four elements of a query are one number of `queries`, a
/// query has `steps` of them, and a panel `LINES * steps` lines.
#[allow(unsafe_code, reason = "calls functions for this processor")]
pub(super) fn products(
    kernels: FilterKernels,
    queries: &[i32],
    panels: &[Line],
    steps: usize,
    sums: &mut [i32],
) {
    let columns = panels.len() / steps * (PANEL / LINES);
    assert_eq!(queries.len() / steps * columns, sums.len());
    #[cfg(target_arch = "x86_64")]
    match kernels {
        FilterKernels::Avx512Vnni if best_kernels() == kernels => {
            // SAFETY: the processor has the instructions.
            return unsafe { avx512_vnni(queries, panels, steps, sums) };
        }
        FilterKernels::AvxVnni if is_x86_feature_detected!("avxvnni") => {
            // SAFETY: as above.
            return unsafe { avx_vnni(queries, panels, steps, sums) };
        }
        _ => {}
    }
    portable(queries, panels, steps, sums);
}

fn portable(queries: &[i32], panels: &[Line], steps: usize, sums: &mut [i32]) {
    let columns = panels.len() / steps * (PANEL / LINES);
    let rows = queries.chunks_exact(steps);
    for (query, sums) in rows.zip(sums.chunks_exact_mut(columns)) {
        for (panel, sums) in panels
            .chunks_exact(LINES * steps)
            .zip(sums.chunks_exact_mut(PANEL))
        {
            sums.fill(0);
            for (query, lines) in query.iter().zip(panel.chunks_exact(LINES)) {
                let query = query.to_le_bytes().map(|byte| i32::from(byte as i8));
                let targets = lines.iter().flat_map(|line| line.0);
                for (sum, target) in sums.iter_mut().zip(targets) {
                    let pairs = query.into_iter().zip(target.to_le_bytes());
                    *sum += pairs.map(|(q, t)| q * i32::from(t)).sum::<i32>();
                }
            }
        }
    }
}

/// The products of blocks of queries with each panel: the sums of a block are in registers.
#[cfg(target_arch = "x86_64")]
macro_rules! blocked {
    ($name:ident, $feature:literal, rows $rows:literal, $vector:ident, $zero:ident, $all:ident, $dot:ident) => {
        #[target_feature(enable = $feature)]
        #[allow(unsafe_code, reason = "reads and writes numbers as vectors")]
        fn $name(queries: &[i32], panels: &[Line], steps: usize, sums: &mut [i32]) {
            use std::arch::x86_64::{$all, $dot, $vector, $zero};
            /// Vectors of a block: four.
            const WIDTH: usize = 4 * size_of::<$vector>();
            const PARTS: usize = size_of::<Line>() * LINES / WIDTH;
            let (count, columns) = (
                queries.len() / steps,
                panels.len() / steps * (PANEL / LINES),
            );
            for (at, panel) in panels.chunks_exact(LINES * steps).enumerate() {
                for (first, part) in (0..count)
                    .step_by($rows)
                    .flat_map(|first| (0..PARTS).map(move |part| (first, part)))
                {
                    // If there are fewer queries, the last is repeated.
                    let rows: [&[i32]; $rows] = std::array::from_fn(|row| {
                        &queries[(first + row).min(count - 1) * steps..][..steps]
                    });
                    let mut block = [[$zero(); 4]; $rows];
                    for step in 0..steps {
                        let lines: &[u8] = bytemuck::cast_slice(&panel[step * LINES..][..LINES]);
                        let from = lines[part * WIDTH..][..WIDTH]
                            .as_ptr()
                            .cast::<[$vector; 4]>();
                        // SAFETY: the slice has the size of four vectors, which may have any bits.
                        let targets = unsafe { from.read_unaligned() };
                        for (sums, row) in block.iter_mut().zip(rows) {
                            let query = $all(row[step]);
                            for (sum, targets) in sums.iter_mut().zip(targets) {
                                *sum = $dot(*sum, targets, query);
                            }
                        }
                    }
                    for (row, found) in block.into_iter().take(count - first).enumerate() {
                        let begin = (first + row) * columns + at * PANEL + part * (WIDTH / 4);
                        let to = &mut sums[begin..][..WIDTH / 4];
                        // SAFETY: the slice has the size of four vectors.
                        unsafe {
                            to.as_mut_ptr()
                                .cast::<[$vector; 4]>()
                                .write_unaligned(found)
                        };
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
blocked!(avx512_vnni, "avx512f,avx512vnni", rows 6, __m512i, _mm512_setzero_si512, _mm512_set1_epi32, _mm512_dpbusd_epi32);
#[cfg(target_arch = "x86_64")]
blocked!(avx_vnni, "avx2,avxvnni", rows 2, __m256i, _mm256_setzero_si256, _mm256_set1_epi32, _mm256_dpbusd_avx_epi32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kernels_have_the_same_sums() {
        let mut state = 1u32;
        let mut next = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.rotate_left(11)
        };
        for (count, panels, steps) in [(1, 1, 4), (6, 2, 8), (7, 1, 192), (13, 8, 20)] {
            let queries: Vec<i32> = (0..count * steps).map(|_| next() as i32).collect();
            let panels: Vec<Line> = (0..panels * steps * LINES)
                .map(|_| Line(std::array::from_fn(|_| next())))
                .collect();
            let room = count * panels.len() / steps * (PANEL / LINES);
            let [expected, mut found] = [vec![0; room], vec![7; room]];
            let mut expected = expected;
            portable(&queries, &panels, steps, &mut expected);
            for kernels in [
                FilterKernels::Avx512Vnni,
                FilterKernels::AvxVnni,
                FilterKernels::Portable,
            ] {
                found.fill(7);
                products(kernels, &queries, &panels, steps, &mut found);
                assert!(found == expected, "{kernels:?}");
            }
            // The first pair by hand.
            let one = |step: usize| {
                let query = queries[step]
                    .to_le_bytes()
                    .map(|byte| i32::from(byte as i8));
                let target = panels[step * LINES].0[0].to_le_bytes().map(i32::from);
                query.iter().zip(target).map(|(q, t)| q * t).sum::<i32>()
            };
            assert_eq!(expected[0], (0..steps).map(one).sum::<i32>());
        }
    }
}
