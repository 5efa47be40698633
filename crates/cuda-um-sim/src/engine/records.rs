//! Records of the work that the simulated machine did: counters, and activity for CUPTI.

use super::activity::Activity;
use crate::counters::Counters;

/// Counters and activity records.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) counters: Counters,
    pub(crate) activity: Activity,
}
