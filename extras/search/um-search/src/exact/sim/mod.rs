//! The exact search's kernels for the simulator: CPU references with the same bounds, and bit-identical lists.

mod candidates;
mod exact_scores;
mod filter;
mod merge;
mod prepare;
mod rescore;
mod scores;
mod thresholds;
mod tighten;

use super::tiles::Format;
use crate::reference::Module;
use cuda_um_sim::CpuReference;
use filter::filter;
use half::{bf16, f16};
use merge::merge;
use prepare::{prepare, tile_bounds};
use rescore::{gather, rescore};
use thresholds::{sample, thresholds};
use tighten::tighten;

const FILTERS: &[(&str, CpuReference)] = &[
    ("exact_sample_bf16", |l| sample(l, Format::Bf16)),
    ("exact_sample_f16", |l| sample(l, Format::F16)),
    ("exact_sample_int8", |l| sample(l, Format::Int8)),
    ("exact_filter_bf16", |l| filter(l, Format::Bf16)),
    ("exact_filter_f16", |l| filter(l, Format::F16)),
    ("exact_filter_int8", |l| filter(l, Format::Int8)),
];

/// The modules of the exact search.
pub(crate) const MODULES: [Module; 4] = [
    (include_str!("../../../ptx/exact_filter.ptx"), FILTERS),
    (include_str!("../../../ptx/exact_filter_90a.ptx"), FILTERS),
    (
        include_str!("../../../ptx/exact_prepare.ptx"),
        &[
            ("exact_prepare_f32_bf16", |l| {
                prepare::<f32>(l, Format::Bf16)
            }),
            ("exact_prepare_f32_f16", |l| prepare::<f32>(l, Format::F16)),
            ("exact_prepare_f32_int8", |l| {
                prepare::<f32>(l, Format::Int8)
            }),
            ("exact_prepare_f16_bf16", |l| {
                prepare::<f16>(l, Format::Bf16)
            }),
            ("exact_prepare_f16_f16", |l| prepare::<f16>(l, Format::F16)),
            ("exact_prepare_bf16_bf16", |l| {
                prepare::<bf16>(l, Format::Bf16)
            }),
            ("exact_prepare_bf16_f16", |l| {
                prepare::<bf16>(l, Format::F16)
            }),
            ("exact_prepare_bf16_int8", |l| {
                prepare::<bf16>(l, Format::Int8)
            }),
            ("exact_prepare_f16_int8", |l| {
                prepare::<f16>(l, Format::Int8)
            }),
            ("exact_tile_bounds", tile_bounds),
        ],
    ),
    (
        include_str!("../../../ptx/exact_top_k.ptx"),
        &[
            ("exact_thresholds_f32", thresholds::<f32>),
            ("exact_thresholds_f16", thresholds::<f16>),
            ("exact_thresholds_bf16", thresholds::<bf16>),
            ("exact_tighten_bf16", tighten::<bf16>),
            ("exact_tighten_f32", tighten::<f32>),
            ("exact_tighten_f16", tighten::<f16>),
            ("exact_rescore_f32", rescore::<f32>),
            ("exact_rescore_f16", rescore::<f16>),
            ("exact_rescore_bf16", rescore::<bf16>),
            ("exact_gather", gather),
            ("exact_merge", merge),
        ],
    ),
];
