//! A program: its buffers, and the steps of a pass.

use crate::PlanError;
use crate::SLOT_BYTES;
use serde::{Deserialize, Serialize};
use std::hash::Hasher;

/// Limit of a buffer, and of all uses of a pass together, so that no sum overflows: 2^53 bytes.
const MOST_BYTES: u64 = 1 << 53;
/// The longest computation of a step.
const MOST_SECONDS: f64 = 1e9;

/// A pass of a program: its buffers, and its steps in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Program {
    /// The buffers. A [`Use`] names a buffer by its index in this list.
    pub buffers: Vec<BufferSpec>,
    /// The steps of a pass, in order.
    pub steps: Vec<Step>,
    /// The number of passes.
    pub repeat: Repeat,
}

/// The number of passes of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Repeat {
    /// One pass. It begins with an empty arena and ends when all results are in their homes.
    #[default]
    Once,
    /// Passes that follow each other. The arena is the same at the beginning of each pass.
    Cyclic,
}

/// A buffer, which has a home outside of the budget.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BufferSpec {
    /// A name for reports.
    pub name: String,
    /// The size in bytes. In device memory the buffer takes whole slots of [`SLOT_BYTES`].
    pub bytes: u64,
    /// The life of its contents.
    pub role: Role,
    /// A step may read the buffer in its home, over the link ([`TransferKind::ReadInPlace`](crate::TransferKind)).
    #[serde(default)]
    pub in_place: bool,
    /// The home is a file: transfers take the time of [`Link::file`](crate::Link::file).
    #[serde(default)]
    pub in_file: bool,
}

impl BufferSpec {
    /// A buffer in the memory of the host, which kernels do not read in place.
    pub fn new(name: impl Into<String>, bytes: u64, role: Role) -> Self {
        Self {
            name: name.into(),
            bytes,
            role,
            in_place: false,
            in_file: false,
        }
    }

    /// The number of slots of this buffer.
    pub fn slots(&self) -> u64 {
        self.bytes.div_ceil(SLOT_BYTES)
    }
}

/// The life of a buffer's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The home always has the contents, so the buffer is dropped without a transfer.
    ReadOnly,
    /// A write makes the home stale: the contents are written back before the buffer is dropped.
    ReadWrite,
    /// The contents live from the first use in a pass to the last one. A plan counts the first use as a write of all bytes, whatever its
    /// access is: a step that reads before has zeros or earlier contents of the same buffer. After the last use the contents are gone, until a
    /// write or the first use in the next pass. Between two uses they may be written to the home and read back.
    Scratch,
}

/// A step of a pass, for example a kernel launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Step {
    /// A name for reports.
    pub name: String,
    /// The buffers that must be in device memory during the step, each once.
    pub uses: Vec<Use>,
    /// The time of the step in seconds if all its buffers are in device memory.
    pub compute_seconds: f64,
}

/// The use of a buffer by a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Use {
    /// The index of the buffer in [`Program::buffers`].
    pub buffer: usize,
    /// Which contents the step needs and changes.
    pub access: Access,
}

/// Which contents a step needs and changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The step reads the buffer.
    Read,
    /// The step writes all bytes without reading any, so the old contents are not transferred.
    Write,
    /// The step reads and writes the buffer, or writes parts of it.
    ReadWrite,
}

impl Access {
    pub(crate) fn reads(self) -> bool {
        self != Self::Write
    }

    pub(crate) fn writes(self) -> bool {
        self != Self::Read
    }
}

impl Step {
    /// A step that uses these buffers, and computes for this time.
    pub fn new(name: impl Into<String>, uses: Vec<Use>, compute_seconds: f64) -> Self {
        Self {
            name: name.into(),
            uses,
            compute_seconds,
        }
    }
}

impl Program {
    /// A program of these buffers and steps.
    pub fn new(buffers: Vec<BufferSpec>, steps: Vec<Step>, repeat: Repeat) -> Self {
        Self {
            buffers,
            steps,
            repeat,
        }
    }

    /// Checks all values on which a plan relies.
    ///
    /// - A buffer has 1 to 2^53 bytes, and the sizes of all uses of a pass together are at most 2^53.
    /// - A use names a buffer of the list, a step uses a buffer at most once, and no step writes a read-only buffer.
    /// - The time of a step is finite, not negative, and at most 10^9 seconds.
    ///
    /// # Errors
    /// [`PlanError::Invalid`] with the first value that is not allowed.
    pub fn check(&self) -> Result<(), PlanError> {
        for (index, buffer) in self.buffers.iter().enumerate() {
            if !(1..=MOST_BYTES).contains(&buffer.bytes) {
                let entry = format!("buffers[{index}].bytes");
                return Err(PlanError::invalid(entry, buffer.bytes, "1 to 2^53"));
            }
        }
        let mut total = 0;
        let mut used_by = vec![usize::MAX; self.buffers.len()];
        for (index, step) in self.steps.iter().enumerate() {
            let seconds = step.compute_seconds;
            if !(0.0..=MOST_SECONDS).contains(&seconds) {
                let entry = format!("steps[{index}].compute_seconds");
                return Err(PlanError::invalid(entry, seconds, "0 to 1e9"));
            }
            for one in &step.uses {
                self.check_use(index, *one, &mut used_by)?;
                total += self.buffers[one.buffer].bytes;
                if total > MOST_BYTES {
                    let entry = format!("steps[..={index}].uses, in bytes");
                    return Err(PlanError::invalid(entry, total, "at most 2^53 in a pass"));
                }
            }
        }
        Ok(())
    }

    fn check_use(&self, step: usize, one: Use, used_by: &mut [usize]) -> Result<(), PlanError> {
        let entry = || format!("steps[{step}].uses");
        let Some(buffer) = self.buffers.get(one.buffer) else {
            let allowed = "the index of a buffer";
            return Err(PlanError::invalid(entry(), one.buffer, allowed));
        };
        if std::mem::replace(&mut used_by[one.buffer], step) == step {
            let allowed = "one use of each buffer: merge them into `ReadWrite`";
            return Err(PlanError::invalid(entry(), one.buffer, allowed));
        }
        if buffer.role == Role::ReadOnly && one.access.writes() {
            let allowed = "`Read` for a buffer with the role `ReadOnly`";
            return Err(PlanError::invalid(entry(), one.buffer, allowed));
        }
        Ok(())
    }

    /// A number that differs between programs with different contents. A saved plan has the number of its program.
    pub fn digest(&self) -> u64 {
        let mut hasher = fnv::FnvHasher::default();
        let mut add = |numbers: &[u64], text: &str| {
            numbers
                .iter()
                .for_each(|number| hasher.write(&number.to_le_bytes()));
            hasher.write(text.as_bytes());
        };
        let sizes = [self.buffers.len() as u64, self.steps.len() as u64];
        add(&[sizes[0], sizes[1], self.repeat as u64], "");
        for one in &self.buffers {
            let numbers = [
                one.bytes,
                one.role as u64,
                // A program without files has the number that earlier versions give it.
                u64::from(one.in_place) | u64::from(one.in_file) << 1,
                one.name.len() as u64,
            ];
            add(&numbers, &one.name);
        }
        for one in &self.steps {
            let numbers = [
                one.compute_seconds.to_bits(),
                one.uses.len() as u64,
                one.name.len() as u64,
            ];
            add(&numbers, &one.name);
            for one in &one.uses {
                add(&[one.buffer as u64, one.access as u64], "");
            }
        }
        hasher.finish()
    }
}
