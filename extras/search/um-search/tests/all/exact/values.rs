//! Values and distances that are hard for a filter.

use super::*;

/// The change that a test makes to some rows, selected by their number.
type Change<'a> = &'a dyn Fn(usize, &mut [f32]);

#[test]
fn clusters_duplicates_and_sorted_rows() {
    let bench = bench();
    let (count, dim) = if is_large() {
        (100_000, 256)
    } else {
        (6000, 24)
    };
    let shape = shape(8, count, dim, 12);
    let q = rows(5, 8, dim);
    // Copies of the queries, each with a change of one ulp in one element.
    let mut clustered: Vec<f32> = q.iter().copied().cycle().take(count * dim).collect();
    for (row, elements) in clustered.chunks_mut(dim).enumerate() {
        let element = &mut elements[row * 7 % dim];
        *element = if row % 3 == 0 {
            element.next_up()
        } else {
            element.next_down()
        };
    }
    bench.check("clustered", shape, &q, &clustered);
    let one: Vec<f32> = rows(6, 1, dim);
    let same: Vec<f32> = one.iter().copied().cycle().take(count * dim).collect();
    let counts = bench.check("duplicates", shape, &q, &same);
    assert_eq!(counts.fallback_queries, 6 * 8, "more than can be kept");
    let mut sorted: Vec<Vec<f32>> = rows(7, count, dim)
        .chunks(dim)
        .map(<[f32]>::to_vec)
        .collect();
    let with_first = |row: &[f32]| row.iter().zip(&q).map(|(a, b)| a * b).sum::<f32>();
    sorted.sort_by(|a, b| with_first(a).total_cmp(&with_first(b)));
    bench.check("ascending", shape, &q, &sorted.concat());
    sorted.reverse();
    bench.check("descending", shape, &q, &sorted.concat());
}

#[test]
fn zeros_denormals_huge_and_nan() {
    let bench = bench();
    let (count, dim, k) = (900, 40, 20);
    let shape = shape(6, count, dim, k);
    let (q, t) = (rows(8, 6, dim), rows(9, count, dim));
    let with = |change: Change<'_>| {
        let (mut q, mut t) = (q.clone(), t.clone());
        q.chunks_mut(dim).enumerate().for_each(|(row, elements)| {
            if row % 3 == 1 {
                change(row, elements);
            }
        });
        t.chunks_mut(dim).enumerate().for_each(|(row, elements)| {
            if row % 11 == 3 {
                change(row, elements);
            }
        });
        (q, t)
    };
    let scale = |factor: f32| {
        move |_: usize, row: &mut [f32]| row.iter_mut().for_each(|value| *value *= factor)
    };
    let all = |value: f32| move |_: usize, row: &mut [f32]| row.fill(value);
    let at =
        |value: f32| move |row: usize, elements: &mut [f32]| elements[row % elements.len()] = value;
    let changes: [(&str, Change<'_>); 13] = [
        ("zero", &all(0.0)),
        ("negative zero", &all(-0.0)),
        ("denormal", &scale(1e-40)),
        ("tiny", &scale(1e-25)),
        ("small", &scale(1e-10)),
        ("large", &scale(1e4)),
        ("huge", &scale(1e15)),
        ("huge", &scale(1e25)),
        ("huge", &scale(3e38)),
        ("NaN", &at(f32::NAN)),
        ("all NaN", &all(f32::NAN)),
        ("infinite", &at(f32::INFINITY)),
        ("negative infinity", &at(f32::NEG_INFINITY)),
    ];
    for (what, change) in changes {
        let (q, t) = with(change);
        // Inner products of large rows also overflow in half precision.
        let what = if what == "large" { "huge" } else { what };
        bench.check(what, shape, &q, &t);
    }
    // The same value in all rows: lists with empty places.
    for value in [0.0, f32::NAN, 1e-42, 3e38, f32::INFINITY] {
        bench.check("huge", shape, &vec![value; 6 * dim], &t);
        bench.check("huge", shape, &q, &vec![value; count * dim]);
    }
}

/// Against float64; `check` compares the filters with the search without one bit by bit.
#[test]
fn all_filters_find_the_cosines_of_rows_of_every_finite_size() {
    let bench = bench();
    let (count, dim) = (2000, 40);
    let shape = shape(7, count, dim, 10);
    let sized = |seed: u64, rows_of: usize, every: usize| {
        let mut all = rows(seed, rows_of, dim);
        for (row, elements) in all.chunks_mut(dim).enumerate() {
            let factor = [1e20f32, 1e-22, 1e38, 1e-38, 2e-42][row / every % 5];
            if row % every == 0 {
                elements.iter_mut().for_each(|value| *value *= factor);
            }
        }
        all
    };
    // With few extreme targets, and with so many that nothing is filtered.
    for every in [50, 2] {
        let (q, t) = (sized(12, 7, 2), sized(13, count, every));
        let narrow: Vec<bf16> = t.iter().map(|value| bf16::from_f32(*value)).collect();
        bench.check("huge", shape, &q, &t);
        bench.check("huge", shape, &q, &narrow);
        let (queries, targets) = (bench.on_device(&q), bench.on_device(&t));
        let lists = bench.filtered(shape, Metric::Cosine, Filter::Int8, &queries, &targets);
        let wide = |row: &[f32]| {
            row.iter()
                .map(|value| f64::from(*value))
                .collect::<Vec<_>>()
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        for (place, (score, index)) in lists.scores.iter().zip(&lists.indices).enumerate() {
            let query = wide(&q[place / shape.k * dim..][..dim]);
            let row = wide(&t[*index as usize * dim..][..dim]);
            let right = dot(&query, &row) / (dot(&query, &query) * dot(&row, &row)).sqrt();
            let found = f64::from(f32::from_bits(*score));
            assert!(
                (found - right).abs() < 1e-5,
                "{index}: {found}, not {right}"
            );
        }
    }
}

#[test]
fn rows_of_very_different_sizes() {
    let bench = bench();
    let (count, dim) = (4000, 32);
    let shape = shape(9, count, dim, 15);
    let mut t = rows(10, count, dim);
    for (row, elements) in t.chunks_mut(dim).enumerate() {
        let factor = 2f32.powi((row * 31 % 40) as i32 - 30);
        elements.iter_mut().for_each(|value| *value *= factor);
    }
    bench.check("sizes", shape, &rows(11, 9, dim), &t);
}

/// Inner products with rows that have rounding errors in one direction: one target is slightly nearer than the others and
/// rounded down, and the others are rounded up. The difference is 1.74 times the bound, so only the full bound finds the
/// target.
#[test]
fn errors_as_large_as_the_bound() {
    let bench = bench();
    let (count, dim) = (3000, 768);
    let half_step = 1.0 / 256.0;
    let nudge = 1.0 / (1 << 20) as f32;
    let nearest = vec![1.5 + half_step - nudge; dim];
    let (low, high) = (1.5 - half_step + nudge, 1.5 + 3.0 * half_step + nudge);
    let mut t = Vec::with_capacity(count * dim);
    for row in 0..count {
        if row == 1777 {
            t.extend(&nearest);
        } else if row % 50 == 0 {
            t.extend((0..dim).map(|i| if i % 2 == 0 || i < 16 { low } else { high }));
        } else {
            t.extend(vec![1.0; dim]);
        }
    }
    bench.finds(1777, Filter::Bf16, &vec![1.0; dim], &t);
}

/// The same in 8 bits: the first element, which the queries do not use, makes a step of the rows 1.
#[test]
fn errors_in_8_bits_as_large_as_the_bound() {
    let bench = bench();
    let (count, dim) = (3000, 768);
    let nudge = 1.0 / 1024.0;
    let (low, high) = (9.5 + nudge, 11.5 + nudge);
    let mut t = Vec::with_capacity(count * dim);
    for row in 0..count {
        t.push(127.0);
        if row == 1777 {
            t.extend(vec![10.5 - nudge; dim - 1]);
        } else if row % 50 == 0 {
            t.extend((1..dim).map(|i| if i % 2 == 0 || i < 16 { low } else { high }));
        } else {
            t.extend(vec![1.0; dim - 1]);
        }
    }
    let mut query = vec![127.0; dim];
    query[0] = 0.0;
    bench.finds(1777, Filter::Int8, &query, &t);
}
