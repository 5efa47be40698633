//! Records a step of a pass, or moves what its plan says.

use std::sync::Arc;

use cuda_um_plan::{Access, Repeat, Resident, Role, Transfer, TransferKind};
use um_backend::cuda_um::{Event, Stream};

use crate::entries::Id;
use crate::entry::{Contents, Memory, Residence};
use crate::error::Result;
use crate::pass::{Course, Cursor, Divergence, Kind, Pass, Runner};
use crate::set::{Guards, InPlace, List, Loads, load_all};
use crate::state::{Guarded, Shared, State};
use crate::stats::Change;
use crate::transfer::{bring_in, evict, flush, flush_one, make_room, write_back};

/// Before a working set of the thread of a pass: the transfers that its plan has until then. Returns what the plan has it read in place.
pub(crate) fn begin(shared: &Arc<Shared>, stream: &Stream, list: &List) -> Result<InPlace> {
    shared.check_process("working_set")?;
    let mut loads = Loads::new();
    let mut state = shared.state.lock();
    let Some(mut pass) = take(&mut state) else {
        return Ok(InPlace::new());
    };
    let begun = begin_of(shared, &mut state, &mut pass, stream, list, &mut loads);
    state.pass = Some(pass);
    drop(state);
    let (begun, in_place) = match begun {
        Ok(in_place) => (Ok(()), in_place),
        Err(error) => (Err(error), InPlace::new()),
    };
    load_all(shared, begun, loads, |_, _| ())?;
    Ok(in_place)
}

fn begin_of(
    shared: &Shared,
    state: &mut Guarded<'_>,
    pass: &mut Pass,
    stream: &Stream,
    list: &List,
    loads: &mut Loads,
) -> Result<InPlace> {
    if let Some(clock) = &mut pass.clock {
        clock.begins = Some(Event::timed(stream)?);
    }
    let Kind::Planned(runner) = &mut pass.kind else {
        return Ok(InPlace::new());
    };
    if runner.is_on_plan() && !runner.expects(list) {
        let found = in_words(state, list);
        diverge(state, runner, found);
    }
    if !runner.is_on_plan() {
        return Ok(InPlace::new());
    }
    proceed(shared, state, runner, loads)?;
    begin_scratch(shared, state, runner)?;
    read_in_place(shared, state, runner)
}

/// Begins the life of scratch buffers that the next step is the first to use, without writing all of them: the slots that the plan took for
/// them get zeros, so that no bytes of another buffer are read.
fn begin_scratch(shared: &Shared, state: &mut State, runner: &Runner) -> Result<()> {
    for one in &runner.program.steps[runner.step].uses {
        let is_first = runner.uses[one.buffer][0].0 == runner.step;
        let is_scratch = runner.program.buffers[one.buffer].role == Role::Scratch;
        if !is_first || !is_scratch || one.access == Access::Write {
            continue;
        }
        let entry = state.entry(runner.ids[one.buffer]);
        if entry.dropped_after().is_some() {
            entry.contents = Contents::Clean;
        }
        if let Residence::Blank(Memory::Slots(memory)) = &mut entry.memory
            && let Some(zeros) = Arc::get_mut(memory)
        {
            shared.zeros.enqueue(|stream| zeros.fill_on(0, stream))?;
            let memory = Memory::Slots(Arc::clone(memory));
            (entry.memory, entry.contents) = (Residence::Here(memory), Contents::Dirty);
        }
    }
    Ok(())
}

/// The buffers that the next step reads in place. Those in the arena leave it: the plan has their slots for others.
fn read_in_place(shared: &Shared, state: &mut State, runner: &Runner) -> Result<InPlace> {
    let mut in_place = InPlace::new();
    let planned = &runner.plan.steps()[runner.step].before;
    let kind = TransferKind::ReadInPlace;
    for one in planned.iter().filter(|one| one.kind == kind) {
        let id = runner.ids[one.buffer];
        let entry = state.entry(id);
        if !entry.is_away() && !entry.stays() {
            evict(shared, state, id)?;
        }
        let entry = state.entry(id);
        let home = entry.home.read().to_read_in_place();
        // After a write of the host that failed, the home may have a part of it.
        if let Ok(home) = home
            && entry.read_once
            && !entry.is_dirty()
        {
            in_place.push((id, home));
        }
    }
    Ok(in_place)
}

/// After a working set was granted.
pub(crate) fn granted(
    shared: &Shared,
    stream: &Stream,
    list: &List,
    held: &mut Guards,
) -> Result<()> {
    let mut state = shared.state.lock();
    let Some(mut pass) = take(&mut state) else {
        return Ok(());
    };
    let measured = measure(&mut pass, stream, list, held);
    // A set that fails is no step: the caller may ask for it again.
    if measured.is_ok() {
        match &mut pass.kind {
            Kind::Recorded(recorder) => recorder.step(list),
            Kind::Planned(runner) => runner.step += 1,
        }
        note_in_place(&mut state, list, held);
        state.counters.step += 1;
    }
    state.pass = Some(pass);
    measured
}

fn note_in_place(state: &mut State, list: &List, held: &Guards) {
    let State {
        entries, counters, ..
    } = state;
    for (at, (&(id, _), one)) in list.iter().zip(held).enumerate() {
        let is_first = list[..at].iter().all(|&(other, _)| other != id);
        if one.is_in_place()
            && is_first
            && let Some(entry) = entries.get(id)
        {
            counters.note(Change::InPlace, entry);
        }
    }
}

/// Notes the time at which the stream has everything that the step uses.
fn measure(pass: &mut Pass, stream: &Stream, list: &List, held: &mut Guards) -> Result<()> {
    let Some(clock) = &mut pass.clock else {
        return Ok(());
    };
    for (held, (_, access)) in held.iter_mut().zip(list) {
        // The kernel itself transfers what it reads in place.
        let view = held.view()?;
        if view.is_empty() || held.is_in_place() {
            continue;
        }
        stream.copy(&view.slice(..1)?, &mut clock.probe)?;
        if *access == Access::Write {
            // After the last work in the slots, too. The byte stays what it is: the set may fail yet.
            stream.copy(&clock.probe, &mut held.view_mut()?.slice_mut(..1)?)?;
        }
    }
    if let Some(begins) = clock.begins.take() {
        let ready = Event::timed(stream)?;
        clock.steps.push(crate::pass::StepEvents { begins, ready });
    }
    Ok(())
}

/// The pass of this thread.
fn take(state: &mut State) -> Option<Box<Pass>> {
    state.pass.take_if(|pass| pass.is_of_this_thread())
}

/// Brings the arena to the beginning of a pass of the plan.
pub(crate) fn enter(shared: &Arc<Shared>, runner: &mut Runner) -> Result<()> {
    let mut state = shared.state.lock();
    let mut loads = Loads::new();
    let entered = enter_of(shared, &mut state, runner, &mut loads);
    drop(state);
    load_all(shared, entered, loads, |_, _| ())
}

fn enter_of(
    shared: &Shared,
    state: &mut Guarded<'_>,
    runner: &mut Runner,
    loads: &mut Loads,
) -> Result<()> {
    (runner.step, runner.ended) = (0, 0);
    if !runner.is_on_plan() {
        runner.course = Course::Lost;
        state.forget_announced();
        runner.next = Cursor::default();
        runner.advance(0);
        for &id in &runner.ids {
            // Contents that the plan may drop, because in its passes the home has them.
            go_home(shared, state, id)?;
        }
        let plan = Arc::clone(&runner.plan);
        for &Resident { buffer, slots, .. } in plan.resident() {
            let access = match runner.program.buffers[buffer].role {
                Role::Scratch => Access::Write,
                Role::ReadOnly | Role::ReadWrite => Access::Read,
            };
            let (id, first) = (runner.ids[buffer], slots.first as usize);
            put(shared, state, id, first, access, loads)?;
        }
        runner.course = Course::OnPlan;
    } else {
        runner.next.pass = 0;
        runner.advance(0);
    }
    proceed(shared, state, runner, loads)
}

/// Ends a pass: the transfers after its last step, and those ahead of the next pass.
pub(crate) fn leave(shared: &Arc<Shared>, runner: &mut Runner) -> Result<()> {
    let mut state = shared.state.lock();
    if runner.is_on_plan() && runner.step < runner.program.steps.len() {
        diverge(&mut state, runner, String::new());
    }
    let mut loads = Loads::new();
    let left = match runner.is_on_plan() {
        true => proceed(shared, &mut state, runner, &mut loads),
        false => Ok(()),
    };
    drop(state);
    // A guard that the caller kept may have been in the way of a transfer.
    let is_over = runner.next.pass == 0 || runner.program.repeat == Repeat::Once;
    if runner.is_on_plan() && is_over {
        runner.course = Course::Lost;
    }
    load_all(shared, left, loads, |_, _| ())
}

/// Leaves the plan. The rest of the pass is announced.
fn diverge(state: &mut State, runner: &mut Runner, found: String) {
    runner.course = Course::Diverged(Divergence {
        step: runner.step,
        expected: runner.expected(),
        found,
    });
    for step in runner.program.steps.iter().skip(runner.step) {
        let uses = step.uses.iter();
        let list: Vec<_> = uses
            .map(|one| (runner.ids[one.buffer], one.access))
            // The pass may have dropped some.
            .filter(|(id, _)| state.entries.get(*id).is_some())
            .collect();
        state.announce(&list);
    }
}

/// The transfers whose earliest point is over, in the order of the plan: first from the device, then to it.
fn proceed(
    shared: &Shared,
    state: &mut Guarded<'_>,
    runner: &mut Runner,
    loads: &mut Loads,
) -> Result<()> {
    let plan = Arc::clone(&runner.plan);
    while runner.ended < runner.step {
        for one in &plan.steps()[runner.ended].after {
            finish(shared, state, runner, one)?;
        }
        runner.ended += 1;
    }
    while let Some(one) = runner.due() {
        let (id, first) = (runner.ids[one.buffer], one.slots.first as usize);
        let access = match one.kind {
            TransferKind::In => Access::Read,
            _ => Access::Write,
        };
        let is_placed =
            one.kind == TransferKind::ReadInPlace || put(shared, state, id, first, access, loads)?;
        if !is_placed {
            break;
        }
        runner.advance(1);
    }
    Ok(())
}

/// A transfer after a step.
fn finish(shared: &Shared, state: &mut Guarded<'_>, runner: &Runner, one: &Transfer) -> Result<()> {
    let id = runner.ids[one.buffer];
    if one.kind == TransferKind::Out {
        return go_home(shared, state, id);
    }
    let is_dead = runner.is_dead(one.buffer, runner.ended);
    if !is_dead {
        go_home(shared, state, id)?;
    }
    // The pass may have dropped the buffer.
    let Some(entry) = state.entries.get_mut(id) else {
        return Ok(());
    };
    let is_changed = entry.needs_flush() && !is_dead;
    if entry.is_away() || entry.stays() || is_changed {
        return Ok(());
    }
    if entry.is_dirty() && is_dead {
        let after_step = runner.ended;
        entry.contents = Contents::Dropped { after_step };
    }
    evict(shared, state, id)
}

/// Makes the home as new as the arena, if the buffer is not in use. Another thread may change the state meanwhile.
fn go_home(shared: &Shared, state: &mut Guarded<'_>, id: Id) -> Result<()> {
    match state.entries.get(id) {
        Some(entry) if entry.in_file && entry.is_dirty() && entry.pins == 0 => {
            flush(shared, state, id)
        }
        _ => write_back(shared, state, id),
    }
}

/// Places a buffer as planned, and brings its contents in if the access needs them. Returns false if a guard is in the way.
fn put(
    shared: &Shared,
    state: &mut Guarded<'_>,
    id: Id,
    first: usize,
    access: Access,
    loads: &mut Loads,
) -> Result<bool> {
    loop {
        // The pass may have dropped the buffer.
        let Some(entry) = state.entries.get(id) else {
            return Ok(true);
        };
        let slots = first..first + entry.slot_count();
        let is_there = !entry.is_away() && entry.first == first;
        if is_there || entry.stays() {
            return Ok(is_there);
        }
        if state.is_lost(&slots) {
            return Ok(false);
        }
        let is_away = entry.is_away();
        let in_slots = state.in_slots(&slots);
        if in_slots.iter().any(|&other| state.entry(other).stays()) {
            return Ok(false);
        }
        if state.entry(id).needs_flush() {
            flush(shared, state, id)?;
            // The state may be another one.
            continue;
        }
        if flush_one(shared, state, &slots)? {
            continue;
        }
        if !is_away {
            evict(shared, state, id)?;
        }
        make_room(shared, state, &slots)?;
        loads.extend(bring_in(shared, state, id, first, access)?);
        return Ok(true);
    }
}

fn in_words(state: &State, list: &List) -> String {
    let one = |(id, access): &(Id, Access)| {
        let entry = state.entries.get(*id);
        format!("{access:?} {}", entry.map_or("?", |entry| &entry.name))
    };
    list.iter().map(one).collect::<Vec<_>>().join(", ")
}
