//! After any sequence of splits, returns and trims, the heap equals a simple list of blocks and gaps.

mod world;

use crate::context::runtime::Runtime;
use crate::resource::pool::heap_properties::world::World;
use cuda_um_sim::Sim;
use proptest::prelude::*;

/// One call of the heap. Numbers are taken modulo the current counts.
#[derive(Clone, Debug)]
enum Step {
    /// A slab of so many chunks.
    AddSlab(usize),
    AddWhole(usize),
    /// A run of a class.
    Carve(usize),
    /// A buffer takes a free block, or returns its block, which a stream has used.
    Take(usize),
    Give(usize, usize),
    TakeWhole(usize),
    /// Coalesces a part of the free blocks, as a pool would have it in its lists: all but each such one.
    Uncarve(usize),
    Trim,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (1..4_usize).prop_map(Step::AddSlab),
        1 => (1..5_usize).prop_map(Step::AddWhole),
        6 => any::<usize>().prop_map(Step::Carve),
        5 => any::<usize>().prop_map(Step::Take),
        8 => (any::<usize>(), 0..3_usize).prop_map(|(block, stream)| Step::Give(block, stream)),
        1 => (1..5_usize).prop_map(Step::TakeWhole),
        4 => prop_oneof![Just(usize::MAX), 1..5_usize].prop_map(Step::Uncarve),
        1 => Just(Step::Trim),
    ]
}

/// claims 3 and 5
#[test]
fn the_heap_is_what_a_list_of_blocks_says() {
    let sim = Sim::builder().build().unwrap();
    let device = Runtime::from_table(sim.table()).unwrap().device(0).unwrap();
    let streams = [(); 3].map(|()| device.create_stream().unwrap());
    let config = ProptestConfig {
        cases: crate::cases::cases(2_000),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(steps in prop::collection::vec(step(), 1..80))| {
        let mut world = World::new(&device, &streams);
        for step in &steps {
            world.run(step)?;
        }
        world.end()?;
    });
    drop((device, streams));
    assert!(sim.misuse().is_empty(), "{:?}", sim.misuse());
}
