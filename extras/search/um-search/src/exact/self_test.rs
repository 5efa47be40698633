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
