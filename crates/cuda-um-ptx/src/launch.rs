//! What a launch takes and gives: memory, geometry, checks, limits; a report or a failure.

#![expect(unsafe_code, reason = "the memory of kernels is the caller's")]

use std::fmt;
use std::time::Duration;

use thiserror::Error;

/// A piece of memory that a kernel may use: an allocation.
#[derive(Debug, Clone, Copy)]
pub struct Region {
    /// The device address of the first byte.
    pub base: u64,
    /// Its size.
    pub bytes: u64,
    /// Where the first byte is in this process.
    pub host: *mut u8,
    /// The caller's name for it; two regions of one launch have different ones.
    pub id: u64,
    /// Whether kernels may write.
    pub writable: bool,
    /// The size of a page, a power of two, if first touches are to be told; otherwise 0.
    pub page_bytes: u64,
    /// One bit for each byte, the lowest first, that is set where the byte has been written; null if the region has no such bits.
    /// With [`Checks::unwritten`] the machine reads and sets them.
    pub written: *mut u8,
}

// SAFETY: a region is a description. `Memory`'s contract says that threads may use what it points to.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

/// Why a kernel has no access to an address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Nothing is there. The text may name what is near: "64 bytes past the end of `x`".
    Unmapped(String),
    /// The memory was freed; the text says which.
    Freed(String),
    /// The memory belongs to a device without peer access, or is not accessible for another reason, which the text says.
    Denied(String),
}

/// The first access of a launch to a page, for reading or for writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    /// [`Region::id`].
    pub region: u64,
    /// The address of the page.
    pub page: u64,
    /// The address that was accessed first, by the lowest lane.
    pub address: u64,
    /// Whether the access writes. A page that is first read and later written has two touches.
    pub write: bool,
    /// The block that did it.
    pub block: [u32; 3],
}

/// The device memory of a launch.
///
/// # Safety
/// - The host memory of a [`Region`] that [`region`](Memory::region) returned is valid for reads, and for writes if it is writable,
///   until [`Program::run`](crate::Program::run) returns; so are its bits of [`Region::written`].
/// - Nothing in this process holds a reference to that memory meanwhile. Other threads may access it with atomic operations.
/// - Regions do not overlap, and lie below 2^56.
pub unsafe trait Memory: Sync {
    /// The allocation that contains `address`. Answers hold for the launch.
    ///
    /// # Errors
    /// Why the kernel has no access.
    fn region(&self, address: u64) -> Result<Region, Refusal>;

    /// Is told before the first access to a page of a region with [`Region::page_bytes`]. Threads of one launch call it concurrently, also for
    /// the same page: no thread accesses a page before one of these calls has returned.
    fn touch(&self, touch: Touch) {
        let _ = touch;
    }

    /// Takes what `printf` in a kernel prints.
    fn print(&self, text: &str) {
        print!("{text}");
    }

    /// `cudaGraphSetConditional`: sets the condition of a graph. False if there is none with this handle.
    fn set_conditional(&self, handle: u64, value: u32) -> bool {
        let _ = (handle, value);
        false
    }

    /// `%globaltimer`. By default, the time of the host's clock since 1970.
    fn now(&self) -> Duration {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default()
    }

    /// Whether the launch is to end with [`Failure::Cancelled`]; asked every few thousand instructions.
    fn cancelled(&self) -> bool {
        false
    }
}

/// The bytes that an argument gives access to. With extents, an access to an allocation that has some must lie in one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// The first address.
    pub base: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Whether the kernel may write there: not if the argument is a shared reference.
    pub writable: bool,
    /// The parameter's index.
    pub parameter: usize,
}

/// What is checked while a kernel runs. What a check finds is the launch's error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// Accesses outside of allocations, freed memory, memory of other devices. Without: such a read gives 0, a write does nothing.
    pub bounds: bool,
    /// Addresses that are no multiple of the access's size.
    pub alignment: bool,
    /// Accesses outside of [`Launch::extents`], and writes to those that are read-only.
    pub arguments: bool,
    /// Reads of shared memory that no thread has written, and of device memory where [`Region::written`] says so.
    pub unwritten: bool,
    /// Two threads access a word of shared or global memory, one of them writes, and nothing orders them.
    pub races: bool,
    /// Barriers that a thread of the block never reaches, or that lanes of a warp reach at different places.
    pub barriers: bool,
}

impl Default for Checks {
    /// Bounds, alignment, arguments and barriers: those that cost little.
    fn default() -> Self {
        Self {
            unwritten: false,
            races: false,
            ..Self::ALL
        }
    }
}

impl Checks {
    /// All of them.
    pub const ALL: Self = Self::each(true);
    /// None of them.
    pub const NONE: Self = Self::each(false);

    const fn each(on: bool) -> Self {
        Self {
            bounds: on,
            alignment: on,
            arguments: on,
            unwritten: on,
            races: on,
            barriers: on,
        }
    }
}

/// One launch of a kernel. Set the fields that matter, and take the others from [`Launch::default`].
#[derive(Debug, Clone, Copy)]
pub struct Launch<'a> {
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z; at most 1024.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: usize,
    /// The parameter buffer: each parameter at its [`Parameter::offset`](crate::Parameter::offset), little-endian.
    pub parameters: &'a [u8],
    /// The addresses of the module's variables, in the order of [`Module::variables`](crate::Module::variables).
    pub variables: &'a [u64],
    /// The extents of arguments, if they are known.
    pub extents: &'a [Extent],
    /// Threads of the host that run blocks; 0: as many as the machine has. One is deterministic for every kernel; with several, a
    /// kernel whose result depends on the order of its blocks (sums of floats by atomics) may differ from run to run.
    pub threads: usize,
    /// 0: blocks and warps run in their order. Otherwise in an order that this number decides.
    pub seed: u64,
    /// All blocks take turns, as a cooperative launch promises (barriers of the grid). Without, a block that waits for another one
    /// gives way, too, but blocks that have not started may have to wait for a turn.
    pub cooperative: bool,
    /// The address of two words, of which the second is the barrier of the grid and is 0 at first: the high half is `%envreg1` and the
    /// low one `%envreg2`, where cooperative groups look for it. 0 without one.
    pub workspace: u64,
    /// How many instructions of warps the launch may execute.
    pub instructions: u64,
    /// What is checked.
    pub checks: Checks,
    /// Whether [`Report::lines`], sectors and bank conflicts are counted.
    pub profile: bool,
    /// `%nsmid`: the multiprocessors of the device.
    pub processors: u32,
}

impl Default for Launch<'_> {
    fn default() -> Self {
        Self {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
            parameters: &[],
            variables: &[],
            extents: &[],
            threads: 0,
            seed: 0,
            cooperative: false,
            workspace: 0,
            instructions: 1 << 40,
            checks: Checks::default(),
            profile: false,
            processors: 132,
        }
    }
}

/// Bytes that threads read and wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

/// What a launch did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Instructions of warps.
    pub instructions: u64,
    /// Instructions of threads: lanes whose guard held.
    pub thread_instructions: u64,
    /// Branches at which lanes of a warp parted.
    pub divergent_branches: u64,
    /// Device memory.
    pub global: Traffic,
    /// Shared memory.
    pub shared: Traffic,
    /// Local memory.
    pub local: Traffic,
    /// By line, in the order of the text, if [`Launch::profile`] was set.
    pub lines: Vec<LineReport>,
}

/// What one line of a kernel did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineReport {
    /// The line of the PTX, from 1.
    pub line: u32,
    /// File number and line of the source, from `.loc`; 0 if there is none.
    pub source: (u32, u32),
    /// Instructions of warps.
    pub instructions: u64,
    /// Instructions of threads.
    pub thread_instructions: u64,
    /// Branches at which lanes parted.
    pub divergent_branches: u64,
    /// Sectors of 32 bytes of device memory that accesses of warps touched.
    pub sectors: u64,
    /// Sectors that the same number of bytes without gaps would need.
    pub ideal_sectors: u64,
    /// Turns that accesses to shared memory took beyond the first, because lanes used the same bank (4 bytes, 32 banks).
    pub bank_conflicts: u64,
}

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// An access to an address where nothing is, or past the end of shared, local or parameter memory.
    OutOfBounds,
    /// An access within an allocation, but outside of what the kernel's arguments extend to.
    OutsideArgument,
    /// An address that is no multiple of the size of the access.
    Misaligned,
    /// An access to memory that was freed.
    Freed,
    /// An access to memory that the device has no access to.
    Denied,
    /// A write to read-only memory, or through an argument that is a shared reference.
    ReadOnly,
    /// A read of memory that nothing has written.
    Unwritten,
    /// Two threads access the same memory, at least one writes, and nothing orders them.
    Race,
    /// A barrier that not all threads reach.
    Barrier,
    /// All threads that are left wait for each other.
    Deadlock,
    /// `trap`.
    Trap,
    /// `assert` in the kernel failed.
    Assert,
}

/// A mistake of a kernel, at the place where it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What kind.
    pub kind: FindingKind,
    /// The kernel's name.
    pub kernel: String,
    /// The line of the PTX, from 1.
    pub line: u32,
    /// The text of that line.
    pub instruction: String,
    /// File and line of the source, if the PTX has `.loc`.
    pub source: Option<(String, u32)>,
    /// The block.
    pub block: [u32; 3],
    /// The thread in its block.
    pub thread: [u32; 3],
    /// The address, in an access to memory.
    pub address: Option<u64>,
    /// The size of the access; 0 if it is none.
    pub bytes: u32,
    /// [`Region::id`] of the allocation, if it is one.
    pub region: Option<u64>,
    /// The index of the parameter to whose extent the address belongs or is nearest.
    pub parameter: Option<usize>,
    /// More, in words.
    pub detail: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([tx, ty, tz], [bx, by, bz]) = (self.thread, self.block);
        write!(
            f,
            "kernel `{}`, line {}: `{}`",
            self.kernel, self.line, self.instruction
        )?;
        if let Some((file, line)) = &self.source {
            write!(f, " ({file}:{line})")?;
        }
        write!(f, ": {}", self.detail)?;
        if let Some(address) = self.address {
            write!(f, ", {} bytes at {address:#x}", self.bytes)?;
        }
        if let Some(parameter) = self.parameter {
            write!(f, " (parameter {parameter})")?;
        }
        write!(f, ", thread ({tx}, {ty}, {tz}) of block ({bx}, {by}, {bz})")
    }
}

/// Why a launch did not end well. What it wrote before stays written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// A check found a mistake.
    #[error("{0}")]
    Finding(Box<Finding>),
    /// The launch is not possible.
    #[error("the launch is not possible: {0}")]
    Geometry(String),
    /// The launch executed as many instructions as it may. The line is where a warp was.
    #[error(
        "kernel `{kernel}`: {limit} instructions are executed, the limit; a warp is at line {line}"
    )]
    Limit {
        /// The kernel's name.
        kernel: String,
        /// [`Launch::instructions`].
        limit: u64,
        /// A line of the PTX.
        line: u32,
    },
    /// [`Memory::cancelled`] said so.
    #[error("kernel `{0}`: cancelled")]
    Cancelled(String),
}
