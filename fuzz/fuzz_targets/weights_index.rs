//! `um_fuzz::weights_index` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| um_fuzz::weights_index(bytes));
