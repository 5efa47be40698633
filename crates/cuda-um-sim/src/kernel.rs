//! CPU twins of kernels, and what they see of a launch.
// Twins get slices of device memory, made here from checked ranges.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytemuck::Pod;
use parking_lot::RwLock;

use crate::engine::{Code, Core, Launch, LaunchShape, device_touches};

/// A CPU twin: does on slices what the kernel of that name does on a GPU.
///
/// It runs on its stream's thread. An error, or a panic, is a fault of the simulated kernel: the context is poisoned with a
/// sticky error.
pub type Twin = fn(&mut LaunchContext<'_>) -> Result<(), TwinError>;

/// Why a twin could not run. For the caller of the CUDA API the kernel has faulted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TwinError {
    /// The kernel has no parameter with this number.
    #[error("parameter {index}: the kernel has {count}")]
    NoParameter {
        /// The number asked for.
        index: usize,
        /// Parameters that the PTX declares.
        count: usize,
    },
    /// The parameter has another size.
    #[error("parameter {index} has {found} bytes, its twin expects {expected}")]
    ParameterSize {
        /// The parameter.
        index: usize,
        /// Bytes that the PTX declares.
        found: usize,
        /// Bytes that the twin expects.
        expected: usize,
    },
    /// The kernel touches memory that it may not touch.
    #[error("illegal access to {bytes} bytes at {address:#x} (parameter {index}): {why}")]
    IllegalAddress {
        /// The parameter.
        index: usize,
        /// First address.
        address: usize,
        /// Bytes from there.
        bytes: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The pointer is not aligned for the element.
    #[error("misaligned address {address:#x} (parameter {index})")]
    Misaligned {
        /// The parameter.
        index: usize,
        /// The address.
        address: usize,
    },
    /// Two slices of one launch overlap, and one of them is mutable.
    #[error(
        "parameter {index} overlaps a slice that the twin already holds, and one of them is mutable"
    )]
    Overlap {
        /// The parameter.
        index: usize,
    },
    /// The twin's own complaint: as a failed device-side assertion.
    #[error("{0}")]
    Failed(String),
}

impl TwinError {
    pub(crate) fn code(&self) -> Code {
        match self {
            TwinError::Misaligned { .. } => Code::MISALIGNED_ADDRESS,
            TwinError::Failed(_) => Code::ASSERT,
            _ => Code::ILLEGAL_ADDRESS,
        }
    }
}

static REGISTERED: LazyLock<RwLock<HashMap<String, Twin>>> = LazyLock::new(RwLock::default);

/// Registers a kernel's twin for every simulator of this process. Doing it again replaces the twin.
pub fn register_kernel(name: &str, twin: Twin) {
    REGISTERED.write().insert(name.to_owned(), twin);
}

pub(crate) fn registered(name: &str) -> Option<Twin> {
    REGISTERED.read().get(name).copied()
}

/// A launch, as the twin sees it.
///
/// Slices live as long as the launch. They are device memory: the host or other streams can write it at the same time if
/// the program under test is racy, as on a GPU.
pub struct LaunchContext<'a> {
    core: &'a Arc<Core>,
    launch: Launch,
    shape: LaunchShape,
    parameters: Vec<Vec<u8>>,
    held: RefCell<Vec<(Range<usize>, bool)>>,
    spent: RefCell<Spent>,
    slices: PhantomData<&'a mut [u8]>,
}

#[derive(Default)]
struct Spent {
    /// What its faults cost.
    cost: Duration,
    least: Duration,
    local_bytes: u64,
    /// Bytes of slices that were read over the link, and of those that were written.
    remote_bytes: [u64; 2],
}

impl<'a> LaunchContext<'a> {
    pub(crate) fn new(
        core: &'a Arc<Core>,
        launch: Launch,
        shape: LaunchShape,
        parameters: Vec<Vec<u8>>,
    ) -> LaunchContext<'a> {
        LaunchContext {
            core,
            launch,
            shape,
            parameters,
            held: RefCell::default(),
            spent: RefCell::default(),
            slices: PhantomData,
        }
    }

    /// Blocks of the grid.
    pub fn grid(&self) -> [u32; 3] {
        self.shape.grid
    }

    /// Threads of a block.
    pub fn block(&self) -> [u32; 3] {
        self.shape.block
    }

    /// Dynamic shared memory of a block.
    pub fn shared_bytes(&self) -> u32 {
        self.shape.shared_bytes
    }

    /// Parameters that the PTX declares.
    pub fn parameters(&self) -> usize {
        self.parameters.len()
    }

    /// Makes the kernel last at least so long, faults apart, where its memory accounts for less: its arithmetic takes time, too.
    pub fn lasts(&self, time: Duration) {
        let mut spent = self.spent.borrow_mut();
        spent.least = spent.least.max(time);
    }

    /// A parameter passed by value.
    ///
    /// # Errors
    /// There is no such parameter, or it has another size than `T`.
    pub fn value<T: Pod>(&self, index: usize) -> Result<T, TwinError> {
        let count = self.parameters.len();
        let bytes = self
            .parameters
            .get(index)
            .ok_or(TwinError::NoParameter { index, count })?;
        let expected = size_of::<T>();
        if bytes.len() != expected {
            return Err(TwinError::ParameterSize {
                index,
                found: bytes.len(),
                expected,
            });
        }
        Ok(bytemuck::pod_read_unaligned(bytes))
    }

    /// Reads `len` elements behind a pointer parameter; managed pages fault, migrate or duplicate as the kernel reads.
    ///
    /// # Errors
    /// The parameter is no pointer, the memory is not the kernel's to read, or it overlaps a mutable slice.
    pub fn slice<T: Pod>(&self, index: usize, len: usize) -> Result<&'a [T], TwinError> {
        let Some(view) = self.acquire::<T>(index, len, false)? else {
            return Ok(&[]);
        };
        // SAFETY: `acquire` checked that `len` aligned elements at `view` lie in one live allocation (or in memory that
        // the caller of the launch vouches for), whose device view is mapped for longer than this launch, and that no
        // mutable slice of this launch overlaps it. Any bytes are a valid `T: Pod`. Other writers during the launch are
        // the data race of the program under test, which it must not have on a GPU either.
        Ok(unsafe { std::slice::from_raw_parts(view as *const T, len) })
    }

    /// Reads and writes `len` elements behind a pointer parameter; managed pages fault, migrate or collapse as the kernel
    /// writes.
    ///
    /// # Errors
    /// The parameter is no pointer, the memory is not the kernel's to write, or it overlaps another slice of this launch.
    pub fn slice_mut<T: Pod>(&self, index: usize, len: usize) -> Result<&'a mut [T], TwinError> {
        let Some(view) = self.acquire::<T>(index, len, true)? else {
            return Ok(&mut []);
        };
        // SAFETY: as in `slice`; and `acquire` refuses every later slice of this launch that overlaps this one.
        Ok(unsafe { std::slice::from_raw_parts_mut(view as *mut T, len) })
    }

    fn acquire<T: Pod>(
        &self,
        index: usize,
        len: usize,
        write: bool,
    ) -> Result<Option<usize>, TwinError> {
        let address = self.value::<u64>(index)? as usize;
        let bytes = len
            .checked_mul(size_of::<T>())
            .filter(|bytes| address.checked_add(*bytes).is_some());
        let Some(bytes) = bytes else {
            return Err(TwinError::IllegalAddress {
                index,
                address,
                bytes: usize::MAX,
                why: "past the end of the address space",
            });
        };
        if bytes == 0 {
            return Ok(None);
        }
        if !address.is_multiple_of(align_of::<T>()) {
            return Err(TwinError::Misaligned { index, address });
        }
        let range = address..address + bytes;
        let overlaps = |(held, mutable): &(Range<usize>, bool)| {
            (write || *mutable) && held.start < range.end && range.start < held.end
        };
        if self.held.borrow().iter().any(overlaps) {
            return Err(TwinError::Overlap { index });
        }
        let launch = Launch {
            now: self.launch.now + self.spent.borrow().cost,
            ..self.launch
        };
        let access =
            self.core
                .state
                .lock()
                .kernel_access(&self.core.machine, launch, address, bytes, write);
        let access = access.map_err(|why| TwinError::IllegalAddress {
            index,
            address,
            bytes,
            why,
        })?;
        device_touches(address, bytes, write);
        let mut spent = self.spent.borrow_mut();
        spent.cost += access.cost;
        spent.remote_bytes[usize::from(write)] += access.remote_bytes;
        spent.local_bytes += (bytes as u64).saturating_sub(access.remote_bytes);
        self.held.borrow_mut().push((range, write));
        Ok(Some(access.view))
    }

    pub(crate) fn cost(&self) -> Duration {
        self.spent.borrow().cost
    }

    pub(crate) fn least(&self) -> Duration {
        self.spent.borrow().least
    }

    pub(crate) fn local_bytes(&self) -> u64 {
        self.spent.borrow().local_bytes
    }

    /// Bytes over the link, one way: it carries as many the other way at the same time.
    pub(crate) fn remote_bytes(&self) -> u64 {
        let [read, written] = self.spent.borrow().remote_bytes;
        read.max(written)
    }
}
