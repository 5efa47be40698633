//! The number of rounds of a test.

/// `cases`, or a 5000th of it under Miri, which is about a thousand times slower.
pub(crate) const fn cases(cases: u32) -> u32 {
    if cfg!(miri) {
        cases.div_ceil(5000)
    } else {
        cases
    }
}
