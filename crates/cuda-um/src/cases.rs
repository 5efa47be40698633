//! The number of cases of a property test.

/// `cases`, or a 500th of it under Miri, which is about a thousand times slower.
pub(crate) const fn cases(cases: u32) -> u32 {
    if cfg!(miri) { cases / 500 } else { cases }
}
