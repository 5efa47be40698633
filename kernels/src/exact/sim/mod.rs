//! The exact search's kernels for the simulator: CPU references with the same bounds, and bit-identical lists.

mod candidates;
mod filter;
mod prepare;
mod rescore;
mod scores;
mod thresholds;

use super::tiles::Format;
use cuda_um_sim::register_kernel;
use filter::filter;
use half::f16;
use prepare::{prepare, tile_bounds};
use rescore::{gather, rescore};
use thresholds::{sample, thresholds, tighten};

#[allow(
    unsafe_code,
    reason = "guarantees that the references match their kernels"
)]
// Only one copy, so that each reference has one address.
#[inline(never)]
pub(crate) fn register() {
    // SAFETY: each reference reads and writes the same memory as its kernel, with the same parameters.
    unsafe {
        register_kernel("exact_prepare_f32_bf16", |l| {
            prepare::<f32>(l, Format::Bf16)
        });
        register_kernel("exact_prepare_f32_f16", |l| prepare::<f32>(l, Format::F16));
        register_kernel("exact_prepare_f16_bf16", |l| {
            prepare::<f16>(l, Format::Bf16)
        });
        register_kernel("exact_prepare_f16_f16", |l| prepare::<f16>(l, Format::F16));
        register_kernel("exact_tile_bounds", tile_bounds);
        register_kernel("exact_sample_bf16", |l| sample(l, Format::Bf16));
        register_kernel("exact_sample_f16", |l| sample(l, Format::F16));
        register_kernel("exact_filter_bf16", |l| filter(l, Format::Bf16));
        register_kernel("exact_filter_f16", |l| filter(l, Format::F16));
        register_kernel("exact_thresholds", thresholds);
        register_kernel("exact_tighten", tighten);
        register_kernel("exact_rescore_f32", rescore::<f32>);
        register_kernel("exact_rescore_f16", rescore::<f16>);
        register_kernel("exact_gather", gather);
    }
}
