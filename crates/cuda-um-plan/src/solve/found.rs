//! Plans that are compared with each other.

use crate::transfers::Transfers;
use crate::{Plan, Prediction, Resident};

/// What differs between the plans of one program, budget and link.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub resident: Vec<Resident>,
    pub transfers: Transfers,
    pub prediction: Prediction,
}

impl Found {
    /// The plan. The rest of it is that of `empty`.
    pub(crate) fn plan(self, empty: Plan) -> Plan {
        Plan {
            resident: self.resident,
            steps: self.transfers.planned(),
            prediction: self.prediction,
            ..empty
        }
    }

    /// Times within a thousandth are the same: fewer bytes are better then.
    pub(crate) fn is_better_than(&self, other: Option<&Self>) -> bool {
        let Some(other) = other else {
            return true;
        };
        let (one, other) = (&self.prediction, &other.prediction);
        let bytes = |prediction: &Prediction| prediction.in_bytes + prediction.out_bytes;
        if one.seconds < other.seconds * 0.999 {
            return true;
        }
        one.seconds <= other.seconds * 1.001 && bytes(one) < bytes(other)
    }
}
