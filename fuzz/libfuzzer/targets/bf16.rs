//! `um_fuzz::bf16` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| um_fuzz::bf16(bytes));
