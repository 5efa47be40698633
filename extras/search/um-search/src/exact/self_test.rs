//! A test of the tensor cores when the filter's kernels are loaded: their sums must be as exact as the bound assumes.

use super::bound::tensor_cores;
use super::modules::Modules;
use super::tiles::{BLOCK, Format, TILE, place, room};
use crate::error::Result;
use cuda_um::{Device, DeviceBuffer, LaunchConfig, kernel::Arguments};

/// Queries of the test, each with a whole block of targets.
const QUERIES: usize = 16;
/// Elements of a row.
const DIM: usize = 256;
/// The places of the largest products: in the first and the last block of products that tensor cores add, and between.
const PLACES: [usize; 8] = [0, 1, 7, 8, 15, 16, 100, DIM - 1];
const SCALE: f32 = 1.0 + 1.0 / 128.0;

/// The reason, if the sums of a format have larger errors than the bound assumes.
pub(super) fn failure(device: &Device, modules: &Modules) -> Result<Option<String>> {
    for format in [Format::Bf16, Format::F16, Format::Int8] {
        let queries: Vec<Vec<f32>> = (0..QUERIES).map(|i| query(i, format)).collect();
        let targets: Vec<Vec<f32>> = (0..BLOCK).map(|i| target(i, format)).collect();
        let found = scores(device, modules, format, &queries, &targets)?;
        for (query, found) in queries.iter().zip(found.chunks(BLOCK)) {
            for (target, score) in targets.iter().zip(found) {
                let (right, most) = expected(query, target, format);
                let error = (f64::from(*score) - right).abs();
                // A missing score is not a number.
                if error.is_nan() || error > most {
                    return Ok(Some(format!(
                        "its tensor cores failed the test of sums in {}: {score:e} instead of {right:e} ± {most:.1e}",
                        format.name()
                    )));
                }
            }
        }
    }
    Ok(None)
}

/// A row with one large element, of which the products with a target's are the largest, and small ones.
fn query(i: usize, format: Format) -> Vec<f32> {
    if format == Format::Int8 {
        return integers(i);
    }
    let small = if i < PLACES.len() { 64.0 } else { 4096.0 };
    let mut row = vec![255.0 / 128.0 / small; DIM];
    row[PLACES[i % PLACES.len()]] = 1.0;
    row
}

/// The same with both signs, and with small elements so that products are just below each power of two.
fn target(i: usize, format: Format) -> Vec<f32> {
    if format == Format::Int8 {
        return integers(QUERIES + i);
    }
    let exponent = i / PLACES.len() / 2;
    if exponent > 13 {
        return integers(i).into_iter().map(|value| value / 128.0).collect();
    }
    let mut row = vec![0.5f32.powi(exponent as i32); DIM];
    row[PLACES[i % PLACES.len()]] = 1.0 - 2.0 * (i / PLACES.len() % 2) as f32;
    row
}

/// Integers from −127 to 127; some rows have only the largest ones.
fn integers(row: usize) -> Vec<f32> {
    let mut state = row as u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        match row % 5 {
            0 => 127.0,
            1 => (state >> 31) as f32 * 254.0 - 127.0,
            _ => ((state >> 16) % 255) as f32 - 127.0,
        }
    };
    (0..DIM).map(|_| next()).collect()
}

/// The exact sum, and the largest difference to it. Sums of integers are exact; they are converted, and scaled twice.
fn expected(query: &[f32], target: &[f32], format: Format) -> (f64, f64) {
    let products = query.iter().zip(target);
    let products = products.map(|(q, t)| f64::from(*q) * f64::from(*t));
    let (sum, size) = products.fold((0.0, 0.0), |(sum, size), product| {
        (sum + product, size + product.abs())
    });
    match format {
        Format::Bf16 | Format::F16 => (sum, tensor_cores(DIM as f64) * size),
        Format::Int8 => (f64::from(sum as f32 * SCALE * SCALE), 0.0),
    }
}

/// Rows of numbers that the format represents, in tiles.
fn tiles(rows: &[Vec<f32>], padded: usize, format: Format) -> Vec<u16> {
    let mut tiles = vec![0u16; room(padded, DIM, format)];
    let blocks = DIM.div_ceil(format.tile_elements());
    for (row, elements) in rows.iter().enumerate() {
        for (element, value) in elements.iter().enumerate() {
            let at = place(row, element, blocks, format);
            match format {
                Format::Bf16 | Format::F16 => tiles[at] = format.narrow(*value),
                Format::Int8 => bytemuck::cast_slice_mut(&mut tiles)[at] = *value as i8,
            }
        }
    }
    tiles
}

/// The filter's scores of all pairs, row by row of the queries; NaN for a score that it does not return.
#[allow(unsafe_code, reason = "launches a kernel of this crate")]
fn scores(
    device: &Device,
    modules: &Modules,
    format: Format,
    queries: &[Vec<f32>],
    targets: &[Vec<f32>],
) -> Result<Vec<f32>> {
    let stream = device.default_stream()?;
    let support = modules.support;
    let query_tiles = DeviceBuffer::from_slice(device, &tiles(queries, TILE, format))?;
    let target_tiles = DeviceBuffer::from_slice(device, &tiles(targets, BLOCK, format))?;
    // With bounds of 0 and thresholds of −∞ all pairs are candidates.
    let query_bounds = DeviceBuffer::from_slice(device, &[[0.0f32; 2]; TILE])?;
    let tile_bounds = DeviceBuffer::from_slice(device, &[[0.0f32; 2]])?;
    let query_scales = DeviceBuffer::from_slice(device, &[SCALE; TILE])?;
    let target_scales = DeviceBuffer::from_slice(device, &[SCALE; BLOCK])?;
    let mut thresholds = DeviceBuffer::from_slice(device, &[f32::NEG_INFINITY; QUERIES])?;
    let mut counts = DeviceBuffer::<u32>::zeroed(device, QUERIES)?;
    let mut kept = DeviceBuffer::<[u32; 2]>::zeroed(device, QUERIES * BLOCK)?;
    let mut arguments = Arguments::new();
    arguments.push(&query_tiles);
    arguments.push(&target_tiles);
    arguments.push(&query_bounds);
    arguments.push(&tile_bounds);
    arguments.push(&query_scales);
    arguments.push(&target_scales);
    arguments.push(&mut thresholds);
    arguments.push(&mut counts);
    arguments.push(&mut kept);
    arguments.push(BLOCK as u32);
    arguments.push(QUERIES as u32);
    arguments.push(BLOCK as u32);
    arguments.push(1u32);
    arguments.push(0i32);
    arguments.push(DIM.div_ceil(format.tile_elements()) as u32);
    arguments.push(0.0f32);
    arguments.push(0.0f32);
    arguments.push(support.stages);
    let config = LaunchConfig {
        grid: [1, 1, 1],
        block: [support.threads, 1, 1],
        shared_bytes: support.filter_bytes(),
    };
    // SAFETY: the arguments are those of the kernel in cuda/exact_filter*.cu, for one block of targets and one of queries.
    unsafe { modules.filter[format as usize].launch(&stream, config, arguments)? };
    let mut candidates = vec![[0; 2]; QUERIES * BLOCK];
    kept.copy_to_host(&mut candidates)?;
    let mut counted = [0; QUERIES];
    counts.copy_to_host(&mut counted)?;
    let mut found = vec![f32::NAN; QUERIES * BLOCK];
    for (query, list) in candidates.chunks(BLOCK).enumerate() {
        for [target, bits] in &list[..BLOCK.min(counted[query] as usize)] {
            if let Some(score) = found.get_mut(query * BLOCK + *target as usize) {
                *score = f32::from_bits(*bits);
            }
        }
    }
    Ok(found)
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::exact::{ExactTopK, Filter, SearchBuffers, SearchPath};
    use crate::{Metric, SearchError, TopKShape};
    use cuda_um::{Runtime, Stream};
    use cuda_um_sim::{Builder, CpuReference, Gpu, LaunchContext, ReferenceError, Sim};

    /// A simulated device of the CUDA version that the environment selects.
    fn simulated_with(settings: impl FnOnce(Builder) -> Builder) -> (Sim, Device, Stream) {
        let builder = Builder::from_env().expect("CUDA_UM_SIM_* name a simulator");
        let sim = settings(builder.gpu(Gpu::default()).devices(1));
        let sim = sim.build().unwrap();
        let runtime = Runtime::from_table(sim.table()).unwrap();
        let device = runtime.device(0).unwrap();
        let stream = device.create_stream().unwrap();
        (sim, device, stream)
    }

    /// A filter whose tensor cores add blocks of 16 products to the sum, with `BITS` bits after the first of the largest term.
    fn coarse<const BITS: i32>(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
        let format = Format::F16;
        let blocks = DIM / format.tile_elements();
        let queries = launch.slice::<u16>(0, room(QUERIES, DIM, format))?;
        let targets = launch.slice::<u16>(1, room(BLOCK, DIM, format))?;
        let counts = launch.slice_mut::<u32>(7, QUERIES)?;
        let kept = launch.slice_mut::<[u32; 2]>(8, QUERIES * BLOCK)?;
        for (at, kept) in kept.iter_mut().enumerate() {
            let value = |tiles: &[u16], row, element| {
                f64::from(format.widen(tiles[place(row, element, blocks, format)]))
            };
            let mut sum = 0.0;
            for first in (0..DIM).step_by(16) {
                let mut terms = vec![sum];
                terms.extend((first..first + 16).map(|element| {
                    value(queries, at / BLOCK, element) * value(targets, at % BLOCK, element)
                }));
                let largest = terms.iter().fold(0.0f64, |most, term| most.max(term.abs()));
                let unit = 2f64.powi(largest.log2().floor() as i32 - BITS);
                sum = terms.iter().map(|term| (term / unit).trunc() * unit).sum();
            }
            *kept = [(at % BLOCK) as u32, (sum as f32).to_bits()];
        }
        counts.fill(BLOCK as u32);
        Ok(())
    }

    /// The failure with these tensor cores.
    #[allow(unsafe_code, reason = "the reference uses the kernel's memory")]
    fn with(reference: CpuReference) -> Option<String> {
        // SAFETY: the reference reads and writes memory that the kernel reads and writes.
        let (_sim, device, _) =
            simulated_with(|sim| unsafe { sim.kernel("exact_filter_f16", reference) });
        let search = ExactTopK::load(&device).unwrap();
        let support = *search.support.as_ref().unwrap();
        let modules = Modules::load(&device, support).unwrap();
        failure(&device, &modules).unwrap()
    }

    #[test]
    fn tensor_cores_as_the_bound_assumes_pass() {
        assert_eq!(with(coarse::<23>), None);
        assert_eq!(with(coarse::<26>), None);
    }

    #[test]
    fn worse_tensor_cores_fail() {
        for reference in [coarse::<22>, coarse::<20>, coarse::<13>] {
            let failure = with(reference).expect("sums are too coarse");
            assert!(failure.contains("f16"), "{failure}");
        }
    }

    #[test]
    #[allow(unsafe_code, reason = "the reference uses the kernel's memory")]
    fn a_failure_turns_the_filter_off() {
        // SAFETY: as above.
        let (_sim, device, stream) =
            simulated_with(|sim| unsafe { sim.kernel("exact_filter_f16", coarse::<20>) });
        let search = ExactTopK::load(&device).unwrap();
        assert!(search.kernels().is_ok(), "not tested yet");
        let shape = TopKShape {
            queries: 512,
            targets: 16 << 10,
            dim: 128,
            k: 2,
        };
        let rows = |count: usize| {
            let values: Vec<f32> = (0..count * shape.dim).map(|i| (i % 97) as f32).collect();
            DeviceBuffer::from_slice(&device, &values).unwrap()
        };
        let (queries, targets) = (rows(shape.queries), rows(shape.targets));
        let launch = |filter| {
            let results = shape.queries * shape.k;
            let mut scores = DeviceBuffer::<f32>::zeroed(&device, results).unwrap();
            let mut indices = DeviceBuffer::<u32>::zeroed(&device, results).unwrap();
            let buffers = SearchBuffers {
                queries: queries.view(..).unwrap(),
                targets: targets.view(..).unwrap(),
                scores: scores.view_mut(..).unwrap(),
                indices: indices.view_mut(..).unwrap(),
            };
            let path = search.launch(&stream, shape, Metric::Cosine, filter, buffers)?;
            let mut found = vec![0; results];
            indices.copy_to_host(&mut found)?;
            Ok::<(SearchPath, Vec<u32>), SearchError>((path, found))
        };
        let error = launch(Filter::Bf16).unwrap_err().to_string();
        assert!(error.contains("failed the test"), "{error}");
        let (path, found) = launch(Filter::Auto).unwrap();
        assert_eq!(path.filter, None);
        assert!(path.reason.contains("failed the test"), "{path:?}");
        assert_eq!(found, launch(Filter::Off).unwrap().1);
        assert!(search.kernels().unwrap_err().contains("failed the test"));
    }
}
