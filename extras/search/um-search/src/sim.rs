//! The CPU references as kernels of the simulator.
#![allow(
    unsafe_code,
    reason = "guarantees that the references match their kernels"
)]

use crate::cosine_top_k::sim as cosine_top_k;
use crate::reference::Module;
use cuda_um_sim::register_module;
use half::{bf16, f16};
use std::sync::Once;

/// Registers all references with every simulator of this process, for the modules of this crate: kernels of other modules with the same
/// names keep their references. The launchers do this when they are loaded; repeated calls have no effect.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (ptx, references) in MODULES.into_iter().chain(crate::exact::sim::MODULES) {
            // SAFETY: each reference reads and writes the same memory as its kernel, with the same parameters.
            unsafe { register_module(ptx, references) };
        }
    });
}

const MODULES: [Module; 4] = [
    (
        include_str!("../ptx/cosine_top_k.ptx"),
        &[
            ("row_inverse_norms_f32", cosine_top_k::norms::<f32>),
            ("row_inverse_norms_f16", cosine_top_k::norms::<f16>),
            ("row_inverse_norms_bf16", cosine_top_k::norms::<bf16>),
            ("scale_f32", cosine_top_k::scale::<f32>),
            ("scale_f16", cosine_top_k::scale::<f16>),
            ("scale_bf16", cosine_top_k::scale::<bf16>),
            ("cosine_top_k_partial_f32", cosine_top_k::partial::<f32>),
            ("cosine_top_k_partial_f16", cosine_top_k::partial::<f16>),
            ("cosine_top_k_partial_bf16", cosine_top_k::partial::<bf16>),
            ("cosine_top_k_merge", cosine_top_k::merge),
        ],
    ),
    (
        include_str!("../ptx/cosine_top_k_some.ptx"),
        &[
            (
                "cosine_top_k_partial_some_f32",
                cosine_top_k::partial_some::<f32>,
            ),
            (
                "cosine_top_k_partial_some_f16",
                cosine_top_k::partial_some::<f16>,
            ),
            (
                "cosine_top_k_partial_some_bf16",
                cosine_top_k::partial_some::<bf16>,
            ),
            ("cosine_top_k_merge_some", cosine_top_k::merge_some),
        ],
    ),
    (
        include_str!("../ptx/cosine_top_k_few.ptx"),
        &[
            ("cosine_top_k_few_4_f32", cosine_top_k::few::<f32>),
            ("cosine_top_k_few_4_f16", cosine_top_k::few::<f16>),
            ("cosine_top_k_few_4_bf16", cosine_top_k::few::<bf16>),
            ("cosine_top_k_few_12_f32", cosine_top_k::few::<f32>),
            ("cosine_top_k_few_12_f16", cosine_top_k::few::<f16>),
            ("cosine_top_k_few_12_bf16", cosine_top_k::few::<bf16>),
        ],
    ),
    (
        include_str!("../ptx/cosine_top_k_few_80.ptx"),
        &[
            ("cosine_top_k_few_80_begin", cosine_top_k::few_80_begin),
            ("cosine_top_k_few_80_f32", cosine_top_k::few_80::<f32>),
            ("cosine_top_k_few_80_f16", cosine_top_k::few_80::<f16>),
            ("cosine_top_k_few_80_bf16", cosine_top_k::few_80::<bf16>),
        ],
    ),
];
