//! The tests of the kernels and of the calibration.

#[cfg(feature = "calibrate")]
mod calibrate;
#[cfg(feature = "calibrate")]
mod calibrate_cache;
mod cosine_top_k;
mod kernels;
