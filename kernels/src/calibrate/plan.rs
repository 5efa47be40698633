//! The amount of measuring.

/// The amount of measuring.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The size of a piece of work that shows rates, in bytes. At most two pieces exist at a time.
    pub large: usize,
    /// The samples of large work.
    pub rounds: usize,
    /// The samples of small work.
    pub small_rounds: usize,
}

impl Plan {
    /// Pieces of 16 MiB, and medians of 5 or 11 samples: less than a second, and less than 64 MiB of each kind of memory.
    pub const MACHINE: Plan = Plan::of(16 << 20, 5, 11);

    /// Pieces of 128 MiB, and medians of 9 or 31 samples: some seconds.
    pub const FULL: Plan = Plan::of(128 << 20, 9, 31);

    /// A plan for pieces of `large` bytes, with this number of samples of large and of small work.
    #[must_use]
    pub const fn of(large: usize, rounds: usize, small_rounds: usize) -> Self {
        Self {
            large,
            rounds,
            small_rounds,
        }
    }
}
