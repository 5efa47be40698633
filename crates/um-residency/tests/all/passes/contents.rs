//! Contents that a plan drops, and buffers that are dropped.

use super::*;

/// The contents of a scratch buffer after the pass are gone, which is an error and not other contents.
#[test]
fn contents_that_a_plan_dropped_are_not_read() {
    let machine = Machine::new(Gpu::H200);
    let arena = machine.arena(2);
    let stream = &machine.stream;
    let made = |name: &str, role| {
        let mut buffer = Homed::<u32>::zeroed(&arena, SLOT, role).unwrap();
        buffer.set_name(name);
        buffer
    };
    let (mut scratch, one, two) = (
        made("s", Role::Scratch),
        made("1", Role::ReadWrite),
        made("2", Role::ReadWrite),
    );
    let pass = || {
        working_set(stream, Output(&scratch))?
            .view_mut()
            .fill_on(1, stream)?;
        drop(working_set(stream, (InOut(&one), InOut(&two)))?);
        Ok::<(), Error>(())
    };
    let (done, program) = arena.record(stream, pass).unwrap();
    done.unwrap();
    let plan = program.solve(arena.plan_budget(), Link::pcie5()).unwrap();
    let mut planned = Planned::new(&arena, program, plan).unwrap();
    planned.run(stream, pass).unwrap().unwrap();
    let refused = working_set(stream, Input(&scratch)).unwrap_err();
    assert!(
        matches!(refused, Error::ContentsGone { last_step: 0, .. }),
        "{refused}"
    );
    assert!(scratch.to_vec().unwrap_err().to_string().contains("gone"));
    drop(working_set(stream, Output(&scratch)).unwrap());
    drop(working_set(stream, Input(&scratch)).unwrap());
    planned.run(stream, pass).unwrap().unwrap();
    // A write of a part does not bring the rest back.
    let refused = scratch.copy_from_host_at(0, &[]).unwrap_err();
    assert!(refused.to_string().contains("gone"), "{refused}");
    scratch.fill(3).unwrap();
    assert_eq!(scratch.read_one(3).unwrap(), 3);
}

/// A pass that leaves its plan before it writes a scratch buffer reads neither the bytes of another buffer nor old ones.
#[test]
fn contents_that_a_plan_dropped_stay_gone_in_the_next_pass() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let (scratch, others) = scratch_beside_others(&arena);
    let pass = || {
        working_set(stream, Output(&scratch))?
            .view_mut()
            .fill_on(1, stream)?;
        drop(working_set(stream, Input(&scratch))?);
        others
            .iter()
            .try_for_each(|other| working_set(stream, Input(other)).map(drop))
    };
    let (done, program) = arena.record(stream, pass).unwrap();
    done.unwrap();
    let plan = program.solve(arena.plan_budget(), Link::pcie5()).unwrap();
    let mut planned = Planned::new(&arena, program, plan).unwrap();
    let is_gone = |found| matches!(found, Err(Error::ContentsGone { last_step: 1, .. }));
    for _ in 0..2 {
        planned.run(stream, pass).unwrap().unwrap();
        let read = || working_set(stream, Input(&scratch)).map(drop);
        assert!(is_gone(planned.run(stream, read).unwrap()));
        let update = || working_set(stream, InOut(&scratch)).map(drop);
        assert!(is_gone(planned.run(stream, update).unwrap()));
        assert!(scratch.to_vec().is_err());
    }
}

/// A planned pass may read a scratch buffer first, or write a part of it: the slots that the plan took have no bytes of another buffer.
#[test]
fn the_first_use_of_a_scratch_buffer_reads_no_other_buffer() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    for updates in [false, true] {
        let (scratch, others) = scratch_beside_others(&arena);
        let found = std::cell::RefCell::new(Vec::new());
        let pass = || {
            let read = match updates {
                true => working_set(stream, InOut(&scratch))?.to_vec()?,
                false => working_set(stream, Input(&scratch))?.to_vec()?,
            };
            found.borrow_mut().push(read);
            drop(working_set(stream, InOut(&scratch))?);
            others
                .iter()
                .try_for_each(|other| working_set(stream, Input(other)).map(drop))
        };
        let (done, program) = arena.record(stream, pass).unwrap();
        done.unwrap();
        let plan = program.solve(arena.plan_budget(), Link::pcie5()).unwrap();
        let mut planned = Planned::new(&arena, program, plan).unwrap();
        for _ in 0..3 {
            planned.run(stream, pass).unwrap().unwrap();
        }
        let report = planned.report().unwrap();
        assert!(report.passes.iter().all(|pass| pass.divergence.is_none()));
        for read in found.into_inner() {
            assert!(read.iter().all(|value| matches!(value, 0 | 42)));
        }
    }
}

/// The plan takes slots ahead for a step that writes all; a pass that reads first gets the contents of the home.
#[test]
fn slots_that_were_taken_ahead_have_no_contents() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let made = |name: &str, role| {
        let mut buffer = Homed::<u32>::zeroed(&arena, SLOT, role).unwrap();
        buffer.set_name(name);
        buffer
    };
    let result = made("result", Role::ReadWrite);
    let (one, two) = (made("1", Role::ReadOnly), made("2", Role::ReadOnly));
    let pass = || {
        working_set(stream, Output(&result))?
            .view_mut()
            .fill_on(7, stream)?;
        drop(working_set(stream, (Input(&one), Input(&two)))?);
        Ok::<(), Error>(())
    };
    let (done, program) = arena.record(stream, pass).unwrap();
    done.unwrap();
    let plan = program.solve(arena.plan_budget(), Link::pcie5()).unwrap();
    let mut planned = Planned::new(&arena, program, plan).unwrap();
    planned.run(stream, pass).unwrap().unwrap();
    planned.run(stream, pass).unwrap().unwrap();
    assert!(result.is_resident(), "the next pass has taken its slot");
    assert_eq!(result.read_one(3).unwrap(), 7);
    // It leaves again, and the slots are those of others.
    drop(working_set(stream, (Input(&one), Input(&two))).unwrap());
    for _ in 0..3 {
        let guard = working_set(stream, Input(&result)).unwrap();
        assert_eq!(guard.to_vec().unwrap(), vec![7; SLOT]);
    }
    planned.run(stream, pass).unwrap().unwrap();
    let read = || {
        working_set(stream, Input(&result))
            .unwrap()
            .to_vec()
            .unwrap()
    };
    assert_eq!(planned.run(stream, read).unwrap(), vec![7; SLOT]);
    planned.run(stream, pass).unwrap().unwrap();
    assert_eq!(result.read_one(3).unwrap(), 7);
}

#[test]
fn a_recorded_pass_keeps_its_buffers() {
    let machine = Machine::new(Gpu::H200);
    let arena = machine.arena(2);
    let pass = || {
        let buffer = Homed::<u32>::zeroed(&arena, SLOT, Role::ReadOnly).unwrap();
        drop(working_set(&machine.stream, Input(&buffer)).unwrap());
    };
    let refused = arena.record(&machine.stream, pass).unwrap_err();
    assert!(
        matches!(refused, Error::UnknownBuffer { found: 0, .. }),
        "{refused}"
    );
}

/// A new buffer with the name and the place of a dropped one is another buffer.
#[test]
fn a_plan_does_not_take_a_new_buffer_for_a_dropped_one() {
    let machine = Machine::new(Gpu::H200);
    let (arena, stream) = (machine.arena(2), &machine.stream);
    let made = |value| {
        let mut buffer = Homed::from_slice(&arena, &vec![value; SLOT], Role::ReadOnly).unwrap();
        buffer.set_name("weights");
        buffer
    };
    let first = made(1u32);
    let pass = || working_set(stream, Input(&first)).map(drop);
    let (done, program) = arena.record(stream, pass).unwrap();
    done.unwrap();
    let plan = program.solve(arena.plan_budget(), Link::pcie5()).unwrap();
    let mut planned = Planned::new(&arena, program, plan).unwrap();
    planned.run(stream, pass).unwrap().unwrap();
    drop(first);
    let second = made(2);
    let pass = || working_set(stream, Input(&second)).map(drop);
    let refused = planned.run(stream, pass).unwrap_err();
    assert!(
        matches!(refused, Error::UnknownBuffer { found: 0, .. }),
        "{refused}"
    );
}
