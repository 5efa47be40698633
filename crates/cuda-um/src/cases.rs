//! How many cases a property test of this crate runs.

/// `cases`, or a few under Miri, which takes about a thousand times as long for each.
pub(crate) const fn cases(cases: u32) -> u32 {
    if cfg!(miri) { cases / 500 } else { cases }
}
