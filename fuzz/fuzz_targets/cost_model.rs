//! `um_fuzz::cost_model` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| um_fuzz::cost_model(bytes));
