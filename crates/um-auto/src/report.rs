//! What automatic prefetch did.

use std::fmt;
use std::time::Duration;

/// What a scope of automatic prefetch did: [`AutoPrefetch::stop`](crate::AutoPrefetch::stop).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AutoPrefetchReport {
    /// Launches, fills and host guards of the scope that were seen.
    pub events: u64,
    /// Rounds that were recorded before each plan, in sum.
    pub rounds_recorded: u64,
    /// Rounds that ran with a plan.
    pub rounds_planned: u64,
    /// Plans that were made: one for each loop, and one more after a divergence.
    pub plans: u64,
    /// Operations that did not follow the plan, each of which ended it.
    pub divergences: u64,
    /// Prefetches that were issued: calls of CUDA.
    pub prefetches: u64,
    /// Bytes that they moved to a device.
    pub bytes_to_device: u64,
    /// Bytes that they moved to the host.
    pub bytes_to_host: u64,
    /// Buffers that were advised for the time of a plan: as read-mostly, or to stay on the host.
    pub advised: u64,
    /// Page faults that did not happen, as the cost model estimates.
    pub faults_avoided: u64,
    /// The time of a round before the last plan, if the host waits for the device in each round.
    pub round_without: Option<Duration>,
    /// The median time of the last rounds with it.
    pub round_with: Option<Duration>,
    /// The reason, if the scope stopped before its end.
    pub stopped: Option<AutoPrefetchStop>,
}

/// The reason for which a scope of automatic prefetch stopped before its end.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AutoPrefetchStop {
    /// The device has no concurrent managed access, so it takes no prefetches.
    NotSupported,
    /// All memory was in place.
    NothingToGain,
    /// The operations have no period, or no prefetch pays.
    NoPlan,
    /// Rounds with a plan took longer than rounds without.
    Slower {
        /// The median time of rounds with the plan.
        with: Duration,
        /// The median time of rounds without.
        without: Duration,
    },
    /// A call failed; the text of the error.
    Failed(String),
}

impl fmt::Display for AutoPrefetchStop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSupported => write!(f, "the device has no concurrent managed access"),
            Self::NothingToGain => write!(f, "all memory was in place"),
            Self::NoPlan => write!(f, "no period of the operations in which a prefetch pays"),
            Self::Slower { with, without } => {
                write!(
                    f,
                    "a round took {with:.1?} with the plan, and {without:.1?} without"
                )
            }
            Self::Failed(error) => write!(f, "a call failed: {error}"),
        }
    }
}

impl fmt::Display for AutoPrefetchReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        write!(
            f,
            "auto-prefetch: {} events; {} rounds recorded, {} planned ({} plans, {} divergences); {} prefetches ({:.1} MiB to devices, \
             {:.1} MiB to the host), {} buffers advised, about {} faults avoided",
            self.events,
            self.rounds_recorded,
            self.rounds_planned,
            self.plans,
            self.divergences,
            self.prefetches,
            mib(self.bytes_to_device),
            mib(self.bytes_to_host),
            self.advised,
            self.faults_avoided,
        )?;
        if let (Some(with), Some(without)) = (self.round_with, self.round_without) {
            write!(f, "; a round {with:.1?}, {without:.1?} without")?;
        }
        match &self.stopped {
            Some(stopped) => write!(f, "; stopped: {stopped}"),
            None => Ok(()),
        }
    }
}
