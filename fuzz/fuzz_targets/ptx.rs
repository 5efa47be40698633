//! `um_fuzz::ptx` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| um_fuzz::ptx(bytes));
