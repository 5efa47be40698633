//! The transfers of a pass in two lists, before a plan is made of them.

use crate::{PlannedStep, Transfer, TransferKind};

/// Transfers of the steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct List {
    /// In any order.
    pub all: Vec<Transfer>,
    /// The indexes of all transfers in the order of their steps.
    order: Vec<usize>,
    /// For each step: the number of transfers up to its end.
    ends: Vec<usize>,
}

/// The transfers before and after each step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transfers {
    pub before: List,
    pub after: List,
}

impl List {
    /// `key` is the step of a transfer, and whether it comes after the others of this step.
    pub(crate) fn of(
        steps: usize,
        all: Vec<Transfer>,
        key: impl Fn(&Transfer) -> (usize, bool),
    ) -> Self {
        let keys = || {
            all.iter()
                .map(&key)
                .map(|(step, last)| 2 * step + usize::from(last))
        };
        // The next place of each key in the order.
        let mut next = vec![0; 2 * steps + 1];
        keys().for_each(|key| next[key + 1] += 1);
        for key in 0..2 * steps {
            next[key + 1] += next[key];
        }
        let mut order = vec![0; all.len()];
        for (index, key) in keys().enumerate() {
            order[next[key]] = index;
            next[key] += 1;
        }
        let ends = (0..steps).map(|step| next[2 * step + 1]).collect();
        Self { all, order, ends }
    }

    /// The transfers of a step, in order.
    pub(crate) fn of_step(&self, step: usize) -> impl Iterator<Item = &Transfer> {
        let begin = step.checked_sub(1).map_or(0, |before| self.ends[before]);
        let indexes = self.order[begin..self.ends[step]].iter();
        indexes.map(|&index| &self.all[index])
    }

    /// The transfers of all steps, in order.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = &Transfer> {
        self.order.iter().map(|&index| &self.all[index])
    }

    fn collect<'a>(steps: impl Iterator<Item = &'a Vec<Transfer>>) -> Self {
        let mut list = Self::default();
        for step in steps {
            list.all.extend_from_slice(step);
            list.ends.push(list.all.len());
        }
        list.order = (0..list.all.len()).collect();
        list
    }

    /// The indexes of the transfers from the device, in order.
    pub(crate) fn outs(&self) -> Vec<usize> {
        let order = self.order.iter().copied();
        let is_out = |&index: &usize| self.all[index].kind == TransferKind::Out;
        order.filter(is_out).collect()
    }
}

impl Transfers {
    pub(crate) fn of(steps: &[PlannedStep]) -> Self {
        Self {
            before: List::collect(steps.iter().map(|step| &step.before)),
            after: List::collect(steps.iter().map(|step| &step.after)),
        }
    }

    pub(crate) fn steps(&self) -> usize {
        self.before.ends.len()
    }

    /// The lists of the plan.
    pub(crate) fn planned(&self) -> Vec<PlannedStep> {
        let steps = 0..self.steps();
        let planned = steps.map(|step| PlannedStep {
            before: self.before.of_step(step).copied().collect(),
            after: self.after.of_step(step).copied().collect(),
        });
        planned.collect()
    }
}
