//! The cache never reports a location that is uncertain: random steps are compared with a `world` that simulates the order of all work.

mod step;
mod world;

use crate::resource::cache::extent::BLOCK;
use crate::resource::cache::properties::step::{Step, steps};
use crate::resource::cache::properties::world::{BUFFERS, PLACES, World};
use proptest::prelude::*;

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases: crate::cases::cases(cases),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(10_000))]

    /// Uses several streams of two devices, long-lived host guards, and late answers of the driver.
    #[test]
    fn what_is_said_to_be_there_is_there(steps in steps(40)) {
        let mut world = World::default();
        for (number, step) in steps.iter().enumerate() {
            world.run(step);
            for buffer in 0..BUFFERS {
                let extent = world.extent(buffer);
                for (block, place) in extent.blocks().zip(world.cache(buffer).locations(&extent)) {
                    let Some(place) = place else { continue };
                    let sure = world.is_sure(buffer, block, place);
                    prop_assert!(sure, "step {}: buffer {} in block {} at {:?}", number, buffer, block, place);
                }
            }
        }
    }

    /// A prefetch moves every part that is not known to be at the place, and nothing outside the requested range, once and in order.
    #[test]
    fn what_is_missing_is_what_is_not_known(
        steps in steps(12),
        buffer in 0..BUFFERS,
        (one, other) in (0..4 * BLOCK, 0..4 * BLOCK),
        place in 0..PLACES.len(),
    ) {
        let mut world = World::default();
        steps.iter().for_each(|step| world.run(step));
        let (extent, place) = (world.extent(buffer), PLACES[place]);
        let all = extent.addresses.clone();
        let start = all.start + one.min(other) % all.len();
        let asked = start..(start + one.abs_diff(other) + 1).min(all.end);
        let missing = world.cache(buffer).missing(&extent, asked.clone(), place);
        for pair in missing.windows(2) {
            prop_assert!(pair[0].end < pair[1].start, "{:?}", missing);
        }
        for part in &missing {
            prop_assert!(asked.start <= part.start && part.start < part.end && part.end <= asked.end, "{:?}", missing);
        }
        for (block, at) in extent.blocks().zip(world.cache(buffer).locations(&extent)) {
            let part = extent.part(block);
            let part = part.start.max(asked.start)..part.end.min(asked.end);
            if part.is_empty() {
                continue;
            }
            let named = missing.iter().any(|named| named.start <= part.start && part.end <= named.end);
            let touched = missing.iter().any(|named| named.start < part.end && part.start < named.end);
            prop_assert_eq!(named, touched, "half of {:?} is named", part);
            prop_assert!(named || at == Some(place), "{:?} is not named", part);
        }
        // A prefetch of the whole buffer is elided exactly if every block is known to be at the place.
        let in_vain = world.cache(buffer).missing(&extent, all, place);
        let known = world.cache(buffer).locations(&extent);
        prop_assert_eq!(in_vain.is_empty(), known.iter().all(|at| *at == Some(place)));
    }

    /// With one stream and no live guard, repeating a prefetch is elided, except for shared blocks.
    #[test]
    fn what_was_just_moved_is_known(steps in prop::collection::vec(step::on_one_stream(), 1..30)) {
        let mut world = World::default();
        for step in &steps {
            world.run(step);
            if let Step::Prefetch { buffer, place, blocks: None, .. } = step {
                let extent = world.extent(*buffer);
                let missing = world.cache(*buffer).missing(&extent, extent.addresses.clone(), PLACES[*place]);
                let is_shared = |part: &std::ops::Range<usize>| part.start / BLOCK == 3 && part.end <= 4 * BLOCK;
                prop_assert!(missing.iter().all(is_shared), "{:?}", missing);
            }
        }
    }
}
