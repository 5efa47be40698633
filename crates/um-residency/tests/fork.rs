//! Children made by `fork`: every call is refused or does nothing, and no lock of the parent holds them up.
#![cfg(unix)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use cuda_um_testkit::child::{Over, in_child};
use support::{Machine, SLOT};
use um_backend::cuda_um::{PinnedBuffer, UnifiedBuffer};
use um_backend::sim::Gpu;
use um_backend::{Buffer, CudaError};
use um_residency::{Arena, Budget, Error, Homed, InOut, Input, Role, Stats, working_set};

/// What the parent made.
struct Inherited {
    arena: Arena,
    buffer: Homed<u32>,
    pinned: Option<PinnedBuffer<u32>>,
    unified: Option<UnifiedBuffer<u32>>,
    /// Dropped last, because it checks for leaks.
    machine: Machine,
}

impl Inherited {
    fn new() -> Self {
        let machine = Machine::new(Gpu::H200);
        let (arena, stream) = (machine.arena(2), &machine.stream);
        let buffer = Homed::from_slice(&arena, &vec![1; SLOT], Role::ReadWrite).unwrap();
        for _ in 0..3 {
            drop(working_set(stream, InOut(&buffer)).unwrap());
        }
        let below = &machine.device;
        let pinned = Some(PinnedBuffer::zeroed(below, 4).unwrap());
        let unified = Some(UnifiedBuffer::zeroed(below, 4).unwrap());
        Self {
            machine,
            arena,
            buffer,
            pinned,
            unified,
        }
    }

    /// 0 if everything is refused, otherwise the number of the first call that is not.
    fn all_refused(&mut self) -> i32 {
        let (arena, stream) = (&self.arena, &self.machine.stream);
        let of = |result: Result<(), CudaError>| result.map_err(Error::from);
        let file = || tempfile::tempfile().unwrap();
        let pinned = self.pinned.take().unwrap();
        let unified = self.unified.take().unwrap();
        let mut pinned = Homed::from_pinned(arena, pinned, Role::ReadWrite).unwrap();
        pinned.set_name("pinned");
        let results = [
            Arena::new(&self.machine.device, Budget::Bytes(2 << 20)).map(drop),
            of(Homed::<u32>::zeroed(arena, 4, Role::Scratch).map(drop)),
            of(Homed::<u32>::zeroed(arena, 4, Role::ReadOnly).map(drop)),
            of(Homed::from_slice(arena, &[1], Role::ReadOnly).map(drop)),
            of(Homed::from_vec(arena, vec![1], Role::ReadOnly).map(drop)),
            of(Homed::<u32>::from_file(arena, file(), (0, 0), Role::ReadOnly).map(drop)),
            working_set(stream, Input(&self.buffer)).map(drop),
            of(self.buffer.write_back()),
            of(self.buffer.to_vec().map(drop)),
            of(self.buffer.copy_from_host_at(0, &[1])),
            of(self.buffer.fill(1)),
            of(Homed::from_unified(arena, unified, Role::ReadOnly).map(drop)),
            of(pinned.to_vec().map(drop)),
            working_set(stream, InOut(&pinned)).map(drop),
        ];
        let is_refusal = |result: &Result<(), Error>| match result {
            Err(error) => error.to_string().contains("made by fork"),
            Ok(()) => false,
        };
        self.buffer.set_name("child's");
        assert!(!self.buffer.is_resident());
        assert_eq!(arena.stats(), Stats::default());
        let found = results.iter().position(|result| !is_refusal(result));
        found.map_or(0, |at| at as i32 + 1)
    }
}

#[test]
fn a_child_is_refused_every_call() {
    let mut inherited = Inherited::new();
    let code = in_child(|| inherited.all_refused());
    assert_eq!(code, 0, "the call with this number was not refused");
    assert_eq!(inherited.buffer.to_vec().unwrap(), vec![1; SLOT]);
}

/// Drops of everything, also of guards, take no lock.
#[test]
fn a_child_drops_what_it_inherits() {
    let inherited = Inherited::new();
    let guard = working_set(&inherited.machine.stream, Input(&inherited.buffer)).unwrap();
    let mut guard = Some(guard);
    let code = in_child(|| {
        drop(guard.take());
        0
    });
    assert_eq!(code, 0);
    drop(guard);
    let mut inherited = Some(inherited);
    let code = in_child(|| {
        let Some(Inherited {
            arena,
            buffer,
            pinned,
            machine,
            ..
        }) = inherited.take()
        else {
            return 1;
        };
        drop((buffer, arena, pinned));
        // It checks for leaks, and the child has the parent's memory.
        std::mem::forget(machine);
        0
    });
    assert_eq!(code, 0);
}

/// A child made while another thread has the arena's lock.
#[test]
fn locks_of_other_threads_hold_no_child_up() {
    let mut inherited = Inherited::new();
    let is_over = AtomicBool::new(false);
    let (arena, stream) = (inherited.arena.clone(), inherited.machine.stream.clone());
    thread::scope(|scope| {
        scope.spawn(|| {
            let own = Homed::from_slice(&arena, &[1u32], Role::ReadWrite).unwrap();
            while !is_over.load(Ordering::Relaxed) {
                drop(working_set(&stream, InOut(&own)).unwrap());
                let _ = arena.stats();
            }
        });
        let _over = Over(&is_over);
        for round in 0..30 {
            let pinned = PinnedBuffer::zeroed(arena.device(), 4).unwrap();
            inherited.pinned = Some(pinned);
            let code = in_child(|| inherited.all_refused());
            assert_eq!(code, 0, "round {round}");
        }
    });
}
