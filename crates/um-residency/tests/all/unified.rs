//! Unified buffers as homes: together they are larger than the arena.

use crate::support::{MIB, Machine, SLOT, each_machine};
use um_backend::Buffer;
use um_backend::cuda_um::{
    Advice, Location, Oversubscription, Placement, UnifiedBuffer, UnifiedOptions,
};
use um_backend::kernels::Saxpy;
use um_backend::sim::Gpu;
use um_residency::{Error, Homed, InOut, Input, Role, working_set};

/// The sums of all layers, in an arena with place for three of them and the sum, whatever memory the unified buffers have.
#[test]
fn unified_buffers_larger_than_the_budget_take_turns() {
    each_machine(|machine| {
        for placement in [Placement::Managed, Placement::Mapped] {
            let (arena, stream) = (machine.arena(4), &machine.stream);
            let below = &machine.device;
            let options = UnifiedOptions::default().placement(placement);
            let can = below.capabilities();
            if placement == Placement::Managed && !can.concurrent_managed_access {
                let home = UnifiedBuffer::from_slice_with(below, &[1.0; 9], options).unwrap();
                let refused = Homed::from_unified(&arena, home, Role::ReadOnly).unwrap_err();
                let words = refused.to_string();
                assert!(words.contains("ConcurrentManagedAccess"), "{words}");
                continue;
            }
            let made = |value: f32, role| {
                let home = UnifiedBuffer::from_slice_with(below, &vec![value; SLOT], options);
                Homed::from_unified(&arena, home.unwrap(), role).unwrap()
            };
            let layers = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|value| made(value, Role::ReadOnly));
            let mut sum = made(0.0, Role::ReadWrite);
            let Ok(saxpy) = Saxpy::load(below) else {
                return;
            };
            for layer in &layers {
                let (layer, mut sum) = working_set(stream, (Input(layer), InOut(&sum))).unwrap();
                saxpy.launch(stream, 1.0, &layer, &mut sum).unwrap();
            }
            assert_eq!(sum.to_vec().unwrap(), vec![21.0; SLOT]);
            assert_eq!(arena.stats().peak_bytes, arena.budget_bytes());
            sum.copy_from_host_at(3, &[7.0]).unwrap();
            assert!(!sum.is_resident());
            let found = working_set(stream, Input(&sum)).unwrap().to_vec();
            assert_eq!(found.unwrap()[2..5], [21.0, 7.0, 21.0]);
        }
    });
}

/// Copies to the arena and back leave the pages on the host, so the device has no more memory in use than the arena.
#[test]
fn the_pages_stay_on_the_host() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(1), &machine.stream);
    let below = &machine.device;
    let free = || machine.device.memory_info().unwrap().free_bytes;
    let before = free();
    // Not of a pool, whose memory keeps its pages.
    let options = UnifiedOptions::default().oversubscription(Oversubscription::Allowed);
    let mut home = UnifiedBuffer::zeroed_with(below, SLOT, options).unwrap();
    home.advise(Advice::SetReadMostly).unwrap();
    home.prefetch_on(Location::Device(0), stream).unwrap();
    home.fill_on(5u32, stream).unwrap();
    assert!(machine.sim.is_none() || free() < before);
    let buffer = Homed::from_unified(&arena, home, Role::ReadWrite).unwrap();
    assert!(machine.sim.is_none() || free() == before);
    for value in [5, 6, 7] {
        let mut guard = working_set(stream, InOut(&buffer)).unwrap();
        assert_eq!(guard.to_vec().unwrap(), vec![value; SLOT]);
        guard.view_mut().fill_on(value + 1, stream).unwrap();
        drop(guard);
        buffer.write_back().unwrap();
        assert_eq!(buffer.read_one(9).unwrap(), value + 1);
    }
    // Other programs use a GPU, too.
    assert!(machine.sim.is_none() || free() == before);
    assert_eq!(arena.stats().out_bytes, 6 * MIB);
}

#[test]
fn a_unified_home_has_the_limits_of_other_homes() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(1), &machine.stream);
    let below = &machine.device;
    let home = UnifiedBuffer::from_slice(below, &[1u32; 9]).unwrap();
    let buffer = Homed::from_unified(&arena, home, Role::ReadOnly).unwrap();
    let refused = working_set(stream, InOut(&buffer)).unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
    if machine.sim.is_some() {
        let other = Machine::new(Gpu::H200);
        let home = UnifiedBuffer::from_slice(&other.device, &[1u32; 9]).unwrap();
        let refused = Homed::from_unified(&arena, home, Role::ReadOnly).unwrap_err();
        let words = "another runtime";
        assert!(matches!(refused, _), "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
    }
}
