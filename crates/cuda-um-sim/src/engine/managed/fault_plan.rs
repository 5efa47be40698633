//! The faults of one block of 2 MiB: how many are raised, in which groups, and the pages that they bring. Pure rules.

/// The density rule brings in a part of a block if more than this share of it is resident or faulting.
const DENSITY_PERCENT: u32 = 51;
/// 64 KiB pages of a block on which a running kernel has faults open at the same time. Fitted, with [`GPU_FAULT_BLOCKS`], to a kernel
/// over 3 MiB that raised 15 faults in 5 groups, and to measured times from 1 to 256 MiB.
pub(crate) const GPU_FAULT_WIDTH: u32 = 2;
/// Blocks in which a running kernel has faults open at the same time; the driver serves them in one group.
pub(crate) const GPU_FAULT_BLOCKS: u32 = 4;
/// A host thread has one fault open at a time.
pub(crate) const CPU_FAULT_WIDTH: u32 = 1;

/// The faults of one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FaultPlan {
    /// Faults raised.
    pub(crate) faults: u32,
    /// Groups that the driver serves together.
    pub(crate) groups: u32,
    /// 64 KiB pages brought in, one bit each.
    pub(crate) bring: u32,
}

/// Plans the faults of one block of `leaves` 64 KiB pages: `need` are the pages that are touched and absent, `have` the pages that are
/// wholly resident. Faults are raised in address order, `width` at a time; after each group the density rule looks at the power-of-two
/// neighbourhoods of every faulting page.
pub(crate) fn plan_faults(
    need: u32,
    have: u32,
    leaves: u32,
    width: u32,
    density: bool,
) -> FaultPlan {
    plan_faults_with(need, have, leaves, width, density, |_, _| {})
}

/// As [`plan_faults`], and calls `on_group` for each group with the pages that faulted and the pages that it brought.
pub(crate) fn plan_faults_with(
    need: u32,
    have: u32,
    leaves: u32,
    width: u32,
    density: bool,
    mut on_group: impl FnMut(u32, u32),
) -> FaultPlan {
    let mut plan = FaultPlan::default();
    let mut have = have;
    let mut open = need;
    while open != 0 {
        let mut faulting = 0u32;
        for _ in 0..width {
            let lowest = open & open.wrapping_neg();
            faulting |= lowest;
            open &= !lowest;
        }
        plan.groups += 1;
        plan.faults += faulting.count_ones();
        let mut bring = faulting;
        if density {
            let occupied = have | faulting;
            for leaf in (0..leaves).filter(|leaf| faulting & (1 << leaf) != 0) {
                bring |= grow(occupied, leaf, leaves);
            }
        }
        plan.bring |= bring & !have;
        on_group(faulting, bring & !have);
        have |= bring;
        open &= !bring;
    }
    plan
}

/// The largest power-of-two neighbourhood of `leaf` that is dense enough to be brought as a whole.
fn grow(occupied: u32, leaf: u32, leaves: u32) -> u32 {
    let mut region = 1 << leaf;
    for level in 1..=5 {
        let size = 1u32 << level;
        let start = leaf / size * size;
        let end = (start + size).min(leaves);
        let mask = mask(start, end);
        if (occupied & mask).count_ones() * 100 > (end - start) * DENSITY_PERCENT {
            region = mask;
        }
    }
    region
}

/// Bits `start..end`.
pub(crate) fn mask(start: u32, end: u32) -> u32 {
    ((1u64 << end) - (1u64 << start)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_small_fault_brings_its_64_kib() {
        assert_eq!(
            plan_faults(1, 0, 32, 1, true),
            FaultPlan {
                faults: 1,
                groups: 1,
                bring: 1
            }
        );
    }

    #[test]
    fn a_thread_that_walks_a_block_faults_six_times() {
        // Pages 0, 1, 2, 4, 8 and 16 fault; the density rule brings the rest.
        let plan = plan_faults(u32::MAX, 0, 32, CPU_FAULT_WIDTH, true);
        assert_eq!((plan.faults, plan.bring), (6, u32::MAX));
        // Half a block, one fault less: 3 MiB take the 11 faults that were measured.
        assert_eq!(plan_faults(0xffff, 0, 16, CPU_FAULT_WIDTH, true).faults, 5);
    }

    #[test]
    fn a_kernel_faults_several_pages_at_once() {
        let plan = plan_faults(u32::MAX, 0, 32, GPU_FAULT_WIDTH, true);
        assert_eq!((plan.faults, plan.groups, plan.bring), (10, 5, u32::MAX));
    }

    #[test]
    fn without_density_only_what_faults_comes() {
        let plan = plan_faults(0b1011, 0, 32, 1, false);
        assert_eq!((plan.faults, plan.bring), (3, 0b1011));
    }

    #[test]
    fn a_dense_block_is_completed_by_one_fault() {
        let plan = plan_faults(1 << 20, 0x000f_ffff, 32, 1, true);
        assert_eq!(
            plan,
            FaultPlan {
                faults: 1,
                groups: 1,
                bring: 0xfff0_0000
            }
        );
    }

    #[test]
    fn sparse_touches_stay_sparse() {
        let plan = plan_faults(1 | 1 << 31, 0, 32, 1, true);
        assert_eq!((plan.faults, plan.bring), (2, 1 | 1 << 31));
    }
}
