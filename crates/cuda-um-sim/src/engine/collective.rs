//! Collective operations, as NCCL has them: communicators, groups of calls, and meetings of ranks.
//!
//! The n-th collective call of each rank of a clique is one meeting. The work of a rank on its stream first arrives there, and then waits for the end of
//! the meeting; the last rank to arrive moves the bytes of all. A clique that has failed meets no more: what waits for it ends.

mod call;
mod meeting;
mod reduce;

pub(crate) use call::{Call, Kind, Raw};

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::core::Core;
use super::misuse_log::MisuseLog;
use super::state::State;
use super::status::Code;
use super::stream::Completion;
use super::thread::this_thread;
use crate::misuse::Misuse;
use call::Key;
use meeting::Meeting;

/// NCCL's results.
pub(crate) const UNHANDLED_CUDA_ERROR: Code = Code(1);
pub(crate) const SYSTEM_ERROR: Code = Code(2);
const INTERNAL_ERROR: Code = Code(3);
pub(crate) const INVALID_ARGUMENT: Code = Code(4);
pub(crate) const INVALID_USAGE: Code = Code(5);
pub(crate) const REMOTE_ERROR: Code = Code(6);
pub(crate) const IN_PROGRESS: Code = Code(7);

/// The most ranks of a clique: more than there can be devices.
const MOST_RANKS: usize = 1 << 16;

/// What the ranks of a clique have in common.
pub(crate) type Id = [u8; 128];

/// One rank's handle.
#[derive(Clone, Copy)]
pub(crate) struct Communicator {
    pub(crate) clique: Id,
    pub(crate) rank: usize,
    pub(crate) device: usize,
    pub(crate) blocking: bool,
}

/// The ranks that meet.
#[derive(Default)]
struct Clique {
    /// The device of each rank that has joined.
    joined: Vec<Option<usize>>,
    failed: Option<Code>,
    /// The number of calls of each rank that meet the same ranks.
    calls: HashMap<(usize, Key), usize>,
    meetings: BTreeMap<(Key, usize), Meeting>,
    /// The last work of each rank on each stream.
    ends: HashMap<(usize, usize), Arc<Completion>>,
}

/// The calls of a thread between `ncclGroupStart` and `ncclGroupEnd`.
#[derive(Default)]
struct Group {
    depth: usize,
    failed: Option<Code>,
    joined: Vec<usize>,
    calls: Vec<Call>,
}

/// All communicators of one simulator.
#[derive(Default)]
pub(crate) struct Collectives {
    misuse: MisuseLog,
    communicators: HashMap<usize, Communicator>,
    cliques: HashMap<Id, Clique>,
    groups: HashMap<u64, Group>,
    ids: u64,
}

impl Collectives {
    pub(super) fn new(misuse: MisuseLog) -> Collectives {
        let none = Collectives::default();
        Collectives { misuse, ..none }
    }

    /// The number of communicators that were made and not released.
    pub(crate) fn len(&self) -> usize {
        self.communicators.len()
    }

    /// An id that no other clique has, in any process.
    pub(crate) fn unique_id(&mut self, core: u64) -> Id {
        self.ids += 1;
        let mut id = [0; 128];
        let numbers = [u64::from(std::process::id()), core, self.ids];
        for (bytes, number) in id.chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_ne_bytes());
        }
        id
    }

    /// A rank joins its clique. Returns whether this thread has a group, whose end waits for the others.
    pub(crate) fn join(
        &mut self,
        handle: usize,
        ranks: usize,
        new: Communicator,
    ) -> Result<bool, Code> {
        if new.rank >= ranks || ranks > MOST_RANKS {
            return Err(INVALID_ARGUMENT);
        }
        let clique = self.cliques.entry(new.clique).or_default();
        if clique.joined.is_empty() {
            clique.joined = vec![None; ranks];
        }
        let joined = &mut clique.joined;
        let is_known = joined.contains(&Some(new.device));
        if joined.len() != ranks || joined[new.rank].is_some() || is_known {
            let text = format!(
                "rank {} of {ranks} on device {} cannot join ranks on the devices {joined:?}",
                new.rank, new.device
            );
            return Err(self.blame(&new.clique, text, INVALID_USAGE));
        }
        joined[new.rank] = Some(new.device);
        self.communicators.insert(handle, new);
        let group = self.groups.get_mut(&this_thread());
        Ok(group.map(|group| group.joined.push(handle)).is_some())
    }

    pub(crate) fn get(&self, handle: usize) -> Result<Communicator, Code> {
        let found = self.communicators.get(&handle);
        found.copied().ok_or(INVALID_ARGUMENT)
    }

    fn find(&self, handle: usize) -> Result<(Communicator, &Clique), Code> {
        let found = self.get(handle)?;
        Ok((found, &self.cliques[&found.clique]))
    }

    /// Whether a communicator can be used.
    pub(crate) fn check(&self, handle: usize) -> Result<(), Code> {
        let (_, clique) = self.find(handle)?;
        match clique.failed {
            Some(code) => Err(code),
            None if clique.joined.contains(&None) => Err(IN_PROGRESS),
            None => Ok(()),
        }
    }

    /// Releases a communicator. With an error, its clique fails.
    pub(crate) fn release(&mut self, handle: usize, error: Option<Code>) -> Result<(), Code> {
        let id = self.get(handle)?.clique;
        self.communicators.remove(&handle);
        if let Some(code) = error {
            self.fail(&id, code);
        }
        if !self.communicators.values().any(|other| other.clique == id) {
            self.cliques.remove(&id);
        }
        Ok(())
    }

    /// The ends of the work of a communicator.
    pub(crate) fn ends(&self, handle: usize) -> Result<Vec<Arc<Completion>>, Code> {
        let (communicator, clique) = self.find(handle)?;
        let ends = clique.ends.iter();
        let own = ends.filter(|((rank, _), _)| *rank == communicator.rank);
        Ok(own.map(|(_, end)| end.clone()).collect())
    }

    /// Reports a misuse, for which the clique fails.
    pub(crate) fn blame(&mut self, id: &Id, text: String, code: Code) -> Code {
        self.misuse.report(Misuse::Collective { text });
        self.fail(id, code);
        code
    }

    /// Fails a clique: what waits for its meetings ends.
    fn fail(&mut self, id: &Id, code: Code) {
        if let Some(clique) = self.cliques.get_mut(id) {
            clique.failed.get_or_insert(code);
            let meetings = std::mem::take(&mut clique.meetings);
            meetings.into_values().for_each(Meeting::cancel);
        }
    }

    /// Fails the cliques that wait for further calls, when no thread can make one.
    pub(super) fn give_up(&mut self) {
        let waits = |clique: &Clique| !clique.meetings.values().all(Meeting::is_complete);
        let ids = self.cliques.iter().filter(|(_, clique)| waits(clique));
        let ids: Vec<_> = ids.map(|(id, _)| *id).collect();
        ids.iter().for_each(|id| self.fail(id, REMOTE_ERROR));
    }

    pub(crate) fn start_group(&mut self) {
        self.groups.entry(this_thread()).or_default().depth += 1;
    }

    /// A call of this thread has returned. A failure within a group makes the whole group fail.
    pub(crate) fn returned(&mut self, call: &str, code: Code) {
        let failed = !matches!(code, Code::SUCCESS | IN_PROGRESS);
        if failed && call == "ncclGroupEnd" {
            self.groups.remove(&this_thread());
        } else if failed && let Some(group) = self.groups.get_mut(&this_thread()) {
            group.failed = Some(code);
        }
    }

    /// Ends a group of this thread. If it is the outermost one, returns the communicators that were made in it, and its calls.
    pub(crate) fn end_group(&mut self) -> Result<(Vec<usize>, Vec<Call>), Code> {
        let thread = this_thread();
        let group = self.groups.get_mut(&thread).ok_or(INVALID_USAGE)?;
        group.depth -= 1;
        if group.depth > 0 {
            return Ok((Vec::new(), Vec::new()));
        }
        let group = self.groups.remove(&thread).unwrap_or_default();
        group.failed.map_or(Ok((group.joined, group.calls)), Err)
    }

    /// Adds a call to the group of this thread; returns it if there is none.
    pub(crate) fn add_to_group(&mut self, call: Call) -> Vec<Call> {
        match self.groups.get_mut(&this_thread()) {
            Some(group) => group.calls.push(call),
            None => return vec![call],
        }
        Vec::new()
    }

    /// Finds the meeting of a rank's next call. The first rank that calls decides what the others must call.
    fn register(&mut self, call: Call) -> Result<((Key, usize), Arc<Completion>), Code> {
        let (id, rank) = (call.of.clique, call.of.rank);
        let clique = self.cliques.get_mut(&id).ok_or(INVALID_ARGUMENT)?;
        if clique.failed.is_some() || clique.joined.contains(&None) {
            return Err(INVALID_USAGE);
        }
        let key = call.key();
        let number = clique.calls.entry((rank, key)).or_default();
        *number += 1;
        let (place, ranks) = ((key, *number), clique.joined.len());
        let meeting = clique.meetings.entry(place);
        let meeting = meeting.or_insert_with(|| Meeting::new(key, ranks));
        match meeting.add(call) {
            Ok(done) => Ok((place, done)),
            Err(text) => Err(self.blame(&id, text, INVALID_USAGE)),
        }
    }

    /// A rank arrives at meetings; returns those at which it is the last one.
    fn arrive(&mut self, arrival: &Arrival, start: Duration) -> Vec<Meeting> {
        let Some(clique) = self.cliques.get_mut(&arrival.clique) else {
            return Vec::new();
        };
        let mut last = Vec::new();
        for place in &arrival.places {
            let meeting = clique.meetings.get_mut(place);
            if meeting.is_some_and(|meeting| meeting.arrive(arrival.rank, start)) {
                last.extend(clique.meetings.remove(place));
            }
        }
        self.end_mutual_wait(&arrival.clique, arrival.stream);
        last
    }

    /// Fails a clique if a stream waits for itself. A wait can begin when a rank arrives, and when a call is enqueued behind a rank that waits.
    fn end_mutual_wait(&mut self, clique: &Id, stream: usize) {
        if self.waits_for(stream, stream, &mut Vec::new()) {
            let text = "the streams of several ranks wait for each other: group their calls, or order them alike on all ranks".to_owned();
            self.blame(clique, text, INTERNAL_ERROR);
        }
    }

    /// Whether the stream waits for work that is enqueued on `target`, behind what `target` waits for.
    fn waits_for(&self, stream: usize, target: usize, seen: &mut Vec<usize>) -> bool {
        let cliques = self.cliques.values();
        let meetings = cliques.flat_map(|clique| clique.meetings.values());
        let mut awaited = meetings.flat_map(|meeting| meeting.awaited_by(stream));
        awaited.any(|other| {
            let is_new = !seen.contains(&other);
            seen.push(other);
            other == target || is_new && self.waits_for(other, target, seen)
        })
    }
}

/// The arrival of one rank at its meetings of one group. If its work does not run, the clique fails.
struct Arrival {
    core: Arc<Core>,
    clique: Id,
    rank: usize,
    stream: usize,
    places: Vec<(Key, usize)>,
}

impl Arrival {
    fn run(mut self, start: Duration) -> Duration {
        let last = self.core.state.lock().collectives.arrive(&self, start);
        self.places.clear();
        last.into_iter().for_each(|meeting| meeting.run(&self.core));
        start
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        if !self.places.is_empty() {
            let mut state = self.core.state.lock();
            state.collectives.fail(&self.clique, REMOTE_ERROR);
        }
    }
}

impl State {
    /// Enqueues calls: those of one rank on one stream together.
    pub(crate) fn communicate(
        &mut self,
        core: &Arc<Core>,
        mut calls: Vec<Call>,
    ) -> Result<(), Code> {
        while let Some(first) = calls.first() {
            let (Communicator { clique, rank, .. }, stream) = (first.of, first.stream.clone());
            let is_beside = |call: &mut Call| {
                (call.of.clique, call.of.rank, call.stream.handle) == (clique, rank, stream.handle)
            };
            let (mut places, mut ends) = (Vec::new(), Vec::new());
            for call in calls.extract_if(.., is_beside) {
                let (place, end) = self.collectives.register(call)?;
                places.push(place);
                ends.push(end);
            }
            let arrival = Arrival {
                core: core.clone(),
                clique,
                rank,
                stream: stream.handle,
                places,
            };
            self.now += self.machine.cost.launch;
            let arrive = Box::new(move |start| arrival.run(start));
            self.enqueue_work(&stream, Vec::new(), true, arrive);
            let end = self.enqueue_work(&stream, ends, true, Box::new(|start| start));
            self.collectives.end_mutual_wait(&clique, stream.handle);
            if let Some(clique) = self.collectives.cliques.get_mut(&clique) {
                clique.ends.insert((rank, stream.handle), end);
            }
        }
        Ok(())
    }
}
