//! A program from a profiler's trace of a pass.

use crate::{Access, BufferSpec, PlanError, Program, Repeat, Role, Step, Use};
use cuda_um_trace::{KernelRun, Operation, OperationKind, Trace};
use std::collections::HashMap;
use std::ops::{RangeBounds, RangeInclusive};

impl Program {
    /// The program of a pass in a profiler's trace. `pass` are the ids of its operations, `..` for all of them. Each launch, copy, fill and
    /// discard on a stream that uses buffers is a step, in the order of the calls. The program is cyclic, as for a loop of passes; set [`Program::repeat`] for a single one.
    ///
    /// | the program has | from the trace |
    /// |---|---|
    /// | buffers | those that steps use, with their names and whole sizes |
    /// | the time of a launch | that of its kernel on the device |
    /// | the access of a use | `Read`; `Write` if a copy, fill or discard writes the whole buffer; otherwise `ReadWrite` |
    /// | roles | `ReadOnly` for buffers without a writing use; `Scratch` for those that were allocated, written first and dropped in the pass; otherwise `ReadWrite` |
    ///
    /// A trace does not have everything that [`um-residency`](https://docs.rs/um-residency)'s `Arena::record` knows:
    ///
    /// - Whether a launch overwrites a whole buffer without reading it. Such a use is `ReadWrite` here, so a plan transfers contents
    ///   that are not needed.
    /// - The time of copies, fills and discards on the device. It is zero here.
    /// - The time of a kernel without its page faults: trace a pass with prefetches, or with buffers that are on the device.
    /// - Work of several streams at the same time: steps follow each other.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] for a trace that is not complete (dropped operations, a launch without its kernel), for work of the host with
    /// a buffer between two steps that use it, for two devices, and for a program that [`Program::check`] refuses.
    pub fn from_trace(trace: &Trace, pass: impl RangeBounds<u64>) -> Result<Self, PlanError> {
        if trace.dropped_operations > 0 {
            let entry = "dropped_operations of the trace".to_owned();
            let allowed = "0: trace a shorter time";
            return Err(PlanError::invalid(entry, trace.dropped_operations, allowed));
        }
        let mut reader = Reader::of(trace);
        let mut operations = trace.operations.iter();
        let begin = operations.find(|one| pass.contains(&one.id));
        let mut end = None;
        for operation in begin.into_iter().chain(operations) {
            if !pass.contains(&operation.id) {
                end = Some(operation.start);
                break;
            }
            reader.operation(operation)?;
        }
        let time = begin.map_or(0, |one| one.start)..=end.unwrap_or(u64::MAX);
        let program = reader.program(&time);
        program.check()?;
        Ok(program)
    }
}

/// The program so far.
struct Reader<'a> {
    trace: &'a Trace,
    /// Indexes of the trace's buffers by id, and kernels by launch.
    places: HashMap<u64, usize>,
    runs: HashMap<u64, &'a KernelRun>,
    device: Option<u32>,
    /// The trace's buffers that steps use, in the order of their first use, and whether the host used them since.
    buffers: Vec<(usize, bool)>,
    index: HashMap<usize, usize>,
    steps: Vec<Step>,
}

impl<'a> Reader<'a> {
    fn of(trace: &'a Trace) -> Self {
        let buffers = trace.buffers.iter().enumerate();
        let runs = trace.kernels.iter();
        Self {
            trace,
            places: buffers.map(|(place, one)| (one.id, place)).collect(),
            runs: runs.filter_map(|run| Some((run.operation?, run))).collect(),
            device: None,
            buffers: Vec::new(),
            index: HashMap::new(),
            steps: Vec::new(),
        }
    }

    fn operation(&mut self, operation: &Operation) -> Result<(), PlanError> {
        let id = operation.id;
        let kind = &operation.kind;
        let is_launch = matches!(kind, OperationKind::Launch { .. });
        let is_work = is_launch
            || matches!(
                kind,
                OperationKind::Copy | OperationKind::Fill | OperationKind::Discard
            );
        if *kind == OperationKind::Host || (is_work && operation.stream.is_none()) {
            self.host(operation);
        }
        if !is_work || operation.stream.is_none() || operation.accesses.is_empty() {
            return Ok(());
        }
        let (name, seconds, whole) = match kind {
            OperationKind::Launch { kernel } => {
                let Some(run) = self.runs.get(&id) else {
                    let entry = format!("the kernel of launch {id} ({kernel:?})");
                    let allowed = "a kernel with this `operation`: a device that reports kernels (`CUPTI`), and a trace that ends after it";
                    return Err(PlanError::invalid(entry, "missing", allowed));
                };
                let seconds = run.end.saturating_sub(run.start) as f64 * 1e-9;
                (kernel.clone(), seconds, false)
            }
            OperationKind::Copy => ("copy".to_owned(), 0.0, true),
            OperationKind::Fill => ("fill".to_owned(), 0.0, true),
            _ => ("discard".to_owned(), 0.0, true),
        };
        let device = *self.device.get_or_insert(operation.device);
        if device != operation.device {
            let entry = format!("the device of operation {id}");
            let allowed = "one device for all operations of a pass";
            return Err(PlanError::invalid(entry, operation.device, allowed));
        }
        let uses = self.uses(operation, whole)?;
        self.steps.push(Step {
            name,
            uses,
            compute_seconds: seconds,
        });
        Ok(())
    }

    /// The host changes or reads the home, which a plan does not expect between two uses of a pass.
    fn host(&mut self, operation: &Operation) {
        for access in &operation.accesses {
            let place = self.places.get(&access.buffer);
            if let Some(&buffer) = place.and_then(|place| self.index.get(place)) {
                self.buffers[buffer].1 = true;
            }
        }
    }

    fn uses(&mut self, operation: &Operation, whole: bool) -> Result<Vec<Use>, PlanError> {
        let mut uses: Vec<Use> = Vec::new();
        for access in &operation.accesses {
            let Some(&place) = self.places.get(&access.buffer) else {
                let entry = format!("a buffer of operation {}", operation.id);
                let allowed = "a buffer of the trace";
                return Err(PlanError::invalid(entry, access.buffer, allowed));
            };
            let spec = &self.trace.buffers[place];
            let next = self.buffers.len();
            let buffer = *self.index.entry(place).or_insert(next);
            if buffer == next {
                self.buffers.push((place, false));
            } else if self.buffers[buffer].1 {
                let entry = format!("the use of {:?} by operation {}", spec.name, operation.id);
                let allowed =
                    "no work of the host with a buffer between two uses of it: trace one pass";
                return Err(PlanError::invalid(entry, "after the host's", allowed));
            }
            let all = access.offset == 0 && access.bytes >= spec.bytes;
            let access = match (access.write, whole && all) {
                (false, _) => Access::Read,
                (true, true) => Access::Write,
                (true, false) => Access::ReadWrite,
            };
            match uses.iter_mut().find(|one| one.buffer == buffer) {
                Some(one) if one.access != access => one.access = Access::ReadWrite,
                Some(_) => {}
                None => uses.push(Use { buffer, access }),
            }
        }
        Ok(uses)
    }

    fn program(self, time: &RangeInclusive<u64>) -> Program {
        let mut first: Vec<Option<Access>> = vec![None; self.buffers.len()];
        let mut writes = vec![false; self.buffers.len()];
        for one in self.steps.iter().flat_map(|step| &step.uses) {
            first[one.buffer].get_or_insert(one.access);
            writes[one.buffer] |= one.access.writes();
        }
        let buffers = self
            .buffers
            .iter()
            .enumerate()
            .map(|(index, &(place, host))| {
                let spec = &self.trace.buffers[place];
                let within = |moment: Option<u64>| moment.is_some_and(|at| time.contains(&at));
                let lives = within(spec.allocated) && within(spec.freed) && !host;
                let role = match (
                    writes[index],
                    lives && first[index].is_some_and(Access::writes),
                ) {
                    (false, _) => Role::ReadOnly,
                    (true, true) => Role::Scratch,
                    (true, false) => Role::ReadWrite,
                };
                BufferSpec {
                    name: spec.name.clone(),
                    bytes: spec.bytes,
                    role,
                    in_place: false,
                    in_file: false,
                }
            });
        Program {
            buffers: buffers.collect(),
            steps: self.steps,
            repeat: Repeat::Cyclic,
        }
    }
}
