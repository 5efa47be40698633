//! Groups of lanes of a warp that are at the same place, and which of them runs next.

use std::sync::Arc;

use super::barriers::Barriers;

/// Lanes that run together.
#[derive(Debug, Clone)]
pub(crate) struct Fragment {
    pub pc: u32,
    pub mask: u32,
    /// Where calls return to, the outermost first.
    pub frames: Vec<u32>,
    /// What recursive calls have saved.
    pub saves: Vec<Arc<Saved>>,
    pub state: State,
    /// When it ran last.
    pub turn: u64,
}

/// Registers and local memory of a warp.
#[derive(Debug)]
pub(crate) struct Saved {
    pub words: Vec<[u32; 32]>,
    pub longs: Vec<[u64; 32]>,
    pub preds: Vec<u32>,
    pub local: Vec<u8>,
}

impl Fragment {
    /// Lanes of this fragment that go on at another place.
    pub fn part(&self, pc: u32, mask: u32) -> Self {
        Self {
            pc,
            mask,
            state: State::Ready,
            turn: 0,
            ..self.clone()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// At an instruction that other lanes of the warp have to reach first; with a `bar.warp.sync` their mask.
    Lanes {
        barrier: Option<u32>,
    },
    /// Until the barrier's phase is another one.
    Barrier {
        id: u8,
        phase: u32,
        reduce: Option<u32>,
    },
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Fragments {
    pub all: Vec<Fragment>,
    clock: u64,
    /// Instructions executed while other fragments were ready.
    waited: u64,
}

/// Instructions of one fragment after which another one has a turn, even if it is at a later place: lanes that wait for each other
/// (spin locks) make progress, as on Volta and later devices.
pub(crate) const FAIR: u64 = 512;

impl Fragments {
    pub fn reset(&mut self, mask: u32) {
        self.all.clear();
        (self.clock, self.waited) = (0, 0);
        if mask != 0 {
            self.all.push(Fragment {
                pc: 0,
                mask,
                frames: Vec::new(),
                saves: Vec::new(),
                state: State::Ready,
                turn: 0,
            });
        }
    }

    /// The lanes that have not ended.
    pub fn alive(&self) -> u32 {
        self.all.iter().fold(0, |all, fragment| all | fragment.mask)
    }

    /// How often a fragment began to run.
    pub fn clock(&self) -> u64 {
        self.clock
    }

    pub fn executed(&mut self, instructions: u64) {
        self.waited += instructions;
    }

    /// Takes the next fragment to run, with the program counter at which it has to stop, and how many instructions it may execute.
    pub fn next(&mut self, barriers: &Barriers) -> Option<(Fragment, u32, u64)> {
        for fragment in &mut self.all {
            if let State::Barrier { id, phase, .. } = fragment.state
                && barriers.phase(id) != phase
            {
                // The result of a reduction is written when the fragment runs.
                if let State::Barrier { reduce: None, .. } = fragment.state {
                    fragment.state = State::Ready;
                }
            }
        }
        if self.all.len() > 1 {
            self.merge();
        }
        let ready = |fragment: &Fragment| match fragment.state {
            State::Ready => true,
            State::Barrier { id, phase, .. } => barriers.phase(id) != phase,
            State::Lanes { .. } => false,
        };
        let mut candidates = (0..self.all.len()).filter(|&index| ready(&self.all[index]));
        let mut chosen = candidates.next()?;
        let mut others = false;
        let fair = self.waited >= FAIR;
        for index in candidates {
            others = true;
            let (a, b) = (&self.all[index], &self.all[chosen]);
            if if fair { a.turn < b.turn } else { before(a, b) } {
                chosen = index;
            }
        }
        self.clock += 1;
        if fair || !others {
            self.waited = 0;
        }
        let mut fragment = self.all.swap_remove(chosen);
        fragment.turn = self.clock;
        let limit = self
            .all
            .iter()
            .filter_map(|other| meeting(&fragment, other))
            .min()
            .unwrap_or(u32::MAX);
        Some((fragment, limit, if others { FAIR } else { u64::MAX }))
    }

    /// Fragments at the same place become one.
    fn merge(&mut self) {
        let mut index = 0;
        while index < self.all.len() {
            let mut other = index + 1;
            while other < self.all.len() {
                let (a, b) = (&self.all[index], &self.all[other]);
                let waits = matches!(a.state, State::Barrier { .. })
                    || matches!(b.state, State::Barrier { .. });
                let saved = || {
                    a.saves
                        .iter()
                        .map(Arc::as_ptr)
                        .eq(b.saves.iter().map(Arc::as_ptr))
                };
                if a.pc == b.pc && !waits && a.frames == b.frames && saved() {
                    let b = self.all.swap_remove(other);
                    let a = &mut self.all[index];
                    a.mask |= b.mask;
                    a.state = State::Ready;
                } else {
                    other += 1;
                }
            }
            index += 1;
        }
        // `bar.warp.sync` at different places.
        let union = |barrier: u32| {
            let there = self.all.iter().filter(|fragment| {
                fragment.state
                    == State::Lanes {
                        barrier: Some(barrier),
                    }
            });
            there.fold(0, |all, fragment| all | fragment.mask)
        };
        let alive = self.alive();
        let complete: Vec<u32> = (self.all.iter())
            .filter_map(|fragment| {
                if let State::Lanes { barrier } = fragment.state {
                    barrier
                } else {
                    None
                }
            })
            .filter(|&barrier| barrier & alive & !union(barrier) == 0)
            .collect();
        for fragment in &mut self.all {
            if let State::Lanes {
                barrier: Some(barrier),
            } = fragment.state
                && complete.contains(&barrier)
            {
                fragment.state = State::Ready;
                fragment.pc += 1;
            }
        }
    }

    /// Lanes have ended: who waited for them looks again.
    pub fn ended(&mut self) {
        for fragment in &mut self.all {
            if let State::Lanes { .. } = fragment.state {
                fragment.state = State::Ready;
            }
        }
    }
}

/// Whether `a` is at an earlier place than `b`: of the outermost function in which they are at different places.
fn before(a: &Fragment, b: &Fragment) -> bool {
    let place = |fragment: &Fragment, depth: usize| {
        fragment.frames.get(depth).copied().unwrap_or(fragment.pc)
    };
    for depth in 0..=a.frames.len().min(b.frames.len()) {
        let (x, y) = (place(a, depth), place(b, depth));
        if x != y {
            return x < y;
        }
    }
    // One has just returned to where the other's call returns to.
    a.frames.len() > b.frames.len()
}

/// Where `runs` may meet `other` in its current function.
fn meeting(runs: &Fragment, other: &Fragment) -> Option<u32> {
    let depth = runs.frames.len();
    if other.frames.len() < depth || other.frames[..depth] != runs.frames[..] {
        return None;
    }
    let place = other.frames.get(depth).copied().unwrap_or(other.pc);
    (place > runs.pc).then_some(place)
}
