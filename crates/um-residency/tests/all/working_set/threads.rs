//! Threads that wait for guards, and guards that are forgotten.

use super::*;

#[test]
fn a_thread_never_waits_for_itself() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let [a, b, c] = [1, 2, 3].map(|value| homed(&arena, value, 1, Role::ReadWrite));
    let (first, second) = (
        working_set(stream, Input(&a)).unwrap(),
        working_set(stream, InOut(&b)).unwrap(),
    );
    for refused in [
        working_set(stream, Input(&c)).map(drop),
        working_set(stream, InOut(&a)).map(drop),
    ] {
        let refused = refused.unwrap_err();
        assert!(
            matches!(refused, Error::WouldDeadlock { held: 2, .. }),
            "{refused}"
        );
    }
    assert!(matches!(
        b.to_vec().unwrap_err(),
        CudaError::WouldDeadlock { .. }
    ));
    assert_eq!(a.to_vec().unwrap(), vec![1; SLOT], "which is only read");
    drop(first);
    drop(working_set(stream, Input(&c)).unwrap());
    drop(second);
}

#[test]
fn a_thread_waits_for_the_guards_of_another() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let (a, b) = (
        homed(&arena, 1, 2, Role::ReadWrite),
        homed(&arena, 2, 1, Role::ReadWrite),
    );
    let (done, is_done) = mpsc::channel();
    let mut guard = working_set(stream, InOut(&a)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let guard = working_set(stream, Input(&b)).unwrap();
            done.send(guard.to_vec().unwrap()[0]).unwrap();
        });
        assert!(is_done.recv_timeout(Duration::from_millis(50)).is_err());
        guard.view_mut().fill_on(7, stream).unwrap();
        drop(guard);
        assert_eq!(is_done.recv().unwrap(), 2);
    });
    assert!(holds(&a, 7));
    assert_eq!(arena.stats().waits, 1);
}

/// Safe code can forget a guard: its slots are lost, and nothing else breaks.
#[test]
fn a_forgotten_guard_keeps_its_slots() {
    let _watchdog = watch();
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(3), machine.stream.clone());
    let stream = &stream;
    let (mut a, b) = (
        homed(&arena, 1, 1, Role::ReadWrite),
        homed(&arena, 2, 2, Role::ReadWrite),
    );
    std::mem::forget(working_set(stream, InOut(&a)).unwrap());
    assert!(matches!(a.fill(3).unwrap_err(), CudaError::Busy { .. }));
    let whole = homed(&arena, 5, 3, Role::ReadOnly);
    let refused = || {
        let refused = working_set(stream, Input(&whole)).map(drop).unwrap_err();
        assert!(
            matches!(refused, Error::OverBudget { needed_bytes, budget_bytes } if (needed_bytes, budget_bytes) == (6 * MIB, 4 * MIB)),
            "{refused}"
        );
    };
    thread::scope(|scope| {
        // Waits for the guard, until the slot is known to be lost.
        scope.spawn(refused);
        while arena.stats().waits == 0 {
            thread::yield_now();
        }
        drop(a);
    });
    refused();
    let small = homed(&arena, 6, 1, Role::ReadOnly);
    let guard = working_set(stream, Input(&small)).unwrap();
    // At once, although this thread has a guard.
    thread::scope(|scope| {
        scope.spawn(refused);
    });
    drop(guard);
    drop(working_set(stream, InOut(&b)).unwrap());
    thread::scope(|scope| {
        scope.spawn(|| drop(working_set(stream, InOut(&b)).unwrap()));
    });
    assert!(holds(&b, 2));
    // The guard keeps the arena, so the machine is never free of leaks.
    drop((b, whole, small, arena));
    std::mem::forget(machine);
}

/// Two threads with two arenas would wait for each other.
#[test]
fn a_thread_with_a_guard_does_not_wait_in_another_arena() {
    let machine = Machine::new(Gpu::H200);
    let (here, there) = (machine.arena(1), machine.arena(1));
    let (a, b) = (
        homed(&here, 1, 1, Role::ReadWrite),
        homed(&there, 2, 1, Role::ReadWrite),
    );
    let (first, is_first) = mpsc::channel();
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (b_there, stream) = (&b, &machine.stream);
        scope.spawn(move || {
            let guard = working_set(stream, InOut(b_there)).unwrap();
            first.send(()).unwrap();
            is_done.recv().unwrap();
            drop(guard);
        });
        is_first.recv().unwrap();
        let guard = working_set(&machine.stream, InOut(&a)).unwrap();
        let refused = working_set(&machine.stream, InOut(&b)).unwrap_err();
        assert!(
            matches!(refused, Error::WouldDeadlock { held: 1, .. }),
            "{refused}"
        );
        done.send(()).unwrap();
        drop(guard);
    });
}
