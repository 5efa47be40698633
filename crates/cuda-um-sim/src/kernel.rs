//! CPU references of kernels, and the view that they have of a launch.
// References get slices of device memory, made here from checked ranges.
#![allow(unsafe_code)]

mod error;
mod in_place;
mod registry;

pub use error::ReferenceError;
pub use in_place::Elements;
pub(crate) use registry::{Registered, registered};
pub use registry::{register_kernel, register_module};

use std::borrow::Cow;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::time::Duration;

use bytemuck::Pod;

use crate::engine::{KernelMemory, Launch, LaunchShape, Parameter, Request, device_touches};

/// A CPU reference: does on slices the work that the kernel of that name does on a GPU.
///
/// It runs on the thread of its stream, while no lock of the simulator is held.
/// - An error or a panic is a fault of the simulated kernel: it poisons the context with a sticky error. So does an access that was
///   refused, even if the reference ignores the error.
/// - A call into CUDA from that thread is refused with `cudaErrorNotPermitted` and recorded as
///   [`Misuse::CallInHostFunction`](crate::Misuse), as kernels cannot call CUDA. If the reference starts a thread, a call from there that
///   waits for the kernel never returns.
/// - A reference that never ends is a kernel that never ends: a call that waits for it never returns, and the simulator cannot shut down.
/// - In a child that the reference makes by `fork` there is no simulated memory: slices are refused, and the child ends when the reference
///   returns.
pub type CpuReference = fn(&mut LaunchContext<'_>) -> Result<(), ReferenceError>;

/// The longest kernel: many of them do not overflow the virtual clock.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Ends a child that a reference made by `fork`, when the reference returns there. The child is a copy of a stream's thread, has no
/// simulated memory, and no thread waits for it.
pub(crate) fn end_child() -> ! {
    const TEXT: &str =
        "cuda-um-sim: a kernel's reference returned in a child made by fork; the child ends\n";
    // SAFETY: the text is valid for its length; neither call takes a lock of this process.
    unsafe {
        libc::write(libc::STDERR_FILENO, TEXT.as_ptr().cast(), TEXT.len() as _);
        libc::_exit(1)
    }
}

/// A launch, as its CPU reference sees it.
///
/// Slices are valid as long as the launch. They are device memory: as on a GPU, the host or other streams can write it at the same time if
/// the program under test has a data race.
// Covariant in `'a`: its slices then end earlier. It forgets no lifetime, and `held` keeps slices that write apart.
pub struct LaunchContext<'a> {
    kernel: &'a str,
    memory: &'a dyn KernelMemory,
    launch: Launch,
    shape: LaunchShape,
    parameters: Vec<Parameter>,
    held: RefCell<Vec<(Range<usize>, bool)>>,
    spent: RefCell<Spent>,
    /// The first access that was refused.
    refused: RefCell<Option<ReferenceError>>,
    slices: PhantomData<&'a mut [u8]>,
}

#[derive(Default)]
struct Spent {
    /// Time for its faults.
    fault_time: Duration,
    /// The least time that the kernel lasts besides.
    least: Duration,
    local_bytes: u64,
    /// Bytes of slices that were read over the link, and of those that were written.
    remote_bytes: [u64; 2],
}

impl<'a> LaunchContext<'a> {
    pub(crate) fn new(
        kernel: &'a str,
        memory: &'a dyn KernelMemory,
        launch: Launch,
        shape: LaunchShape,
        parameters: Vec<Parameter>,
    ) -> LaunchContext<'a> {
        LaunchContext {
            kernel,
            memory,
            launch,
            shape,
            parameters,
            held: RefCell::default(),
            spent: RefCell::default(),
            refused: RefCell::default(),
            slices: PhantomData,
        }
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &'a str {
        self.kernel
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

    /// Sets the least time that the kernel takes besides its page faults, for its arithmetic takes time, too. The time for its memory
    /// accesses counts only if it is longer. The maximum is a year.
    pub fn lasts(&self, time: Duration) {
        let mut spent = self.spent.borrow_mut();
        spent.least = spent.least.max(time.min(LONGEST));
    }

    /// A parameter passed by value.
    ///
    /// # Errors
    /// There is no such parameter, or it has another size than `T`.
    pub fn value<T: Pod>(&self, index: usize) -> Result<T, ReferenceError> {
        let bytes = self.bytes(index)?;
        let expected = size_of::<T>();
        if bytes.len() != expected {
            return Err(ReferenceError::ParameterSize {
                index,
                found: bytes.len(),
                expected,
            });
        }
        Ok(bytemuck::pod_read_unaligned(bytes))
    }

    /// The bytes of a parameter passed by value.
    ///
    /// # Errors
    /// There is no such parameter.
    pub fn bytes(&self, index: usize) -> Result<&[u8], ReferenceError> {
        let count = self.parameters.len();
        let found = self.parameters.get(index);
        let found = found.ok_or(ReferenceError::NoParameter { index, count })?;
        Ok(&found.bytes)
    }

    /// Sets the value of a condition of a graph, by its handle: what `cudaGraphSetConditional` does in a kernel.
    ///
    /// # Errors
    /// There is no such condition.
    pub fn set_condition(&self, handle: u64, value: u32) -> Result<(), ReferenceError> {
        match self.memory.set_condition(handle, value) {
            true => Ok(()),
            false => Err(ReferenceError::NoCondition { handle }),
        }
    }

    /// The `len` elements behind a pointer parameter, to read. Managed pages fault, and migrate or are duplicated, as when the kernel reads
    /// them.
    ///
    /// The memory must be allocated by the simulator or registered with it. System memory (from `malloc`, a stack, a static) must be an
    /// argument whose size the caller of the launch declared, as cuda-um does for buffers and views, and the device must access pageable
    /// memory; for other launches there is [`system_slice`](Self::system_slice).
    ///
    /// # Errors
    /// The parameter is not a pointer, the kernel may not read the memory, the slice overlaps a mutable one, or it exceeds the argument, if
    /// the caller of the launch declared its size, as cuda-um does for buffers and views.
    pub fn slice<T: Pod>(&self, index: usize, len: usize) -> Result<&'a [T], ReferenceError> {
        self.read(index, 0..len, false)
    }

    /// The elements `range` behind a pointer parameter, to read: for kernels that read only parts of their memory. Only these parts take
    /// time.
    ///
    /// # Errors
    /// As for [`slice`](Self::slice).
    pub fn slice_at<T: Pod>(
        &self,
        index: usize,
        range: Range<usize>,
    ) -> Result<&'a [T], ReferenceError> {
        self.read(index, range, false)
    }

    /// The `len` elements behind a pointer parameter, to read and write. Managed pages fault, and migrate, as when the kernel writes them;
    /// their duplicates end.
    ///
    /// The memory must be allocated by the simulator, or registered with it and not as read-only. System memory is as for
    /// [`slice`](Self::slice); the other way is [`system_slice_mut`](Self::system_slice_mut).
    ///
    /// # Errors
    /// The parameter is not a pointer, the kernel may not write the memory, the slice overlaps another slice of this launch, it exceeds the
    /// argument as in [`slice`](Self::slice), or the argument was passed only to be read.
    pub fn slice_mut<T: Pod>(
        &self,
        index: usize,
        len: usize,
    ) -> Result<&'a mut [T], ReferenceError> {
        self.write(index, len, false)
    }

    /// As [`slice`](Self::slice), and also accepts system memory whose size was not declared. The simulator has no record of its bounds or
    /// its owner.
    ///
    /// # Errors
    /// As for [`slice`](Self::slice); or the device does not reach pageable memory.
    ///
    /// # Safety
    /// If the memory is neither allocated by the simulator nor registered with it, `len` elements there can be read and are initialised,
    /// and nothing writes them before the launch has ended.
    pub unsafe fn system_slice<T: Pod>(
        &self,
        index: usize,
        len: usize,
    ) -> Result<&'a [T], ReferenceError> {
        self.read(index, 0..len, true)
    }

    /// As [`slice_mut`](Self::slice_mut), and also accepts system-allocated memory: see [`system_slice`](Self::system_slice).
    ///
    /// # Errors
    /// As for [`slice_mut`](Self::slice_mut); or the device does not reach pageable memory.
    ///
    /// # Safety
    /// If the memory is neither allocated by the simulator nor registered with it, `len` elements there can be read and written and are
    /// initialised, and nothing else reads or writes them before the launch has ended.
    pub unsafe fn system_slice_mut<T: Pod>(
        &self,
        index: usize,
        len: usize,
    ) -> Result<&'a mut [T], ReferenceError> {
        self.write(index, len, true)
    }

    /// With `system`, the caller vouches for memory of which the simulator has no record.
    fn read<T: Pod>(
        &self,
        index: usize,
        range: Range<usize>,
        system: bool,
    ) -> Result<&'a [T], ReferenceError> {
        let len = range.len();
        let Some(view) = self.acquire::<T>(index, range, false, system)? else {
            return Ok(&[]);
        };
        // SAFETY: `acquire` checked that `len` aligned elements at `view`, at most `isize::MAX` bytes, lie in one live allocation or
        // registration (or in memory that the caller of `system_slice`, or of the launch that declared the argument, vouches for), whose
        // device view is mapped for longer than this launch, and that no mutable slice of this launch overlaps it. Any bytes are a valid
        // `T: Pod`. The memory is the kernel's to read by the promise of `register_kernel` or `Builder::kernel`.
        Ok(unsafe { std::slice::from_raw_parts(view as *const T, len) })
    }

    /// As [`read`](Self::read), to write.
    fn write<T: Pod>(
        &self,
        index: usize,
        len: usize,
        system: bool,
    ) -> Result<&'a mut [T], ReferenceError> {
        let Some(view) = self.acquire::<T>(index, 0..len, true, system)? else {
            return Ok(&mut []);
        };
        // SAFETY: as in `read`; and `acquire` refuses every later slice of this launch that overlaps this one.
        Ok(unsafe { std::slice::from_raw_parts_mut(view as *mut T, len) })
    }

    fn acquire<T: Pod>(
        &self,
        index: usize,
        range: Range<usize>,
        write: bool,
        system: bool,
    ) -> Result<Option<usize>, ReferenceError> {
        let start = range.start.saturating_mul(size_of::<T>());
        self.value::<u64>(index)?;
        self.noted(self.check::<T>(index, start, range.len(), write, system))
    }

    /// Notes the first access that is refused.
    fn noted<R>(&self, checked: Result<R, ReferenceError>) -> Result<R, ReferenceError> {
        checked.inspect_err(|error| {
            self.refused.borrow_mut().get_or_insert(error.clone());
        })
    }

    /// The address at which the `len` elements from byte `start` on are read and written; `None` if there are none.
    fn check<T: Pod>(
        &self,
        index: usize,
        start: usize,
        len: usize,
        write: bool,
        system: bool,
    ) -> Result<Option<usize>, ReferenceError> {
        let address = (self.value::<u64>(index)? as usize).saturating_add(start);
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| {
            isize::try_from(*bytes).is_ok() && address.checked_add(*bytes).is_some()
        });
        let illegal = |bytes, why| ReferenceError::IllegalAddress {
            index,
            address,
            bytes,
            why: Cow::from(why),
        };
        let bytes =
            bytes.ok_or_else(|| illegal(usize::MAX, "past the end of the address space"))?;
        if bytes == 0 {
            return Ok(None);
        }
        if self.memory.is_inherited() {
            return Err(illegal(
                bytes,
                "a child made by fork has no simulated memory",
            ));
        }
        if !address.is_multiple_of(align_of::<T>()) {
            return Err(ReferenceError::Misaligned { index, address });
        }
        self.check_declared(index, start..start + bytes, write)?;
        self.check_shared(index, address..address + bytes, write)?;
        let range = address..address + bytes;
        let overlaps = |(held, mutable): &(Range<usize>, bool)| {
            (write || *mutable) && held.start < range.end && range.start < held.end
        };
        if self.held.borrow().iter().any(overlaps) {
            return Err(ReferenceError::Overlap { index });
        }
        let launch = Launch {
            now: self.launch.now + self.spent.borrow().fault_time,
            ..self.launch
        };
        let request = Request {
            address,
            bytes,
            write,
            system: system || self.parameters[index].memory.is_some(),
        };
        let access = self.memory.access(launch, &request);
        let access = access.map_err(|why| ReferenceError::IllegalAddress {
            index,
            address,
            bytes,
            why,
        })?;
        device_touches(address, bytes, write);
        let mut spent = self.spent.borrow_mut();
        spent.fault_time += access.time;
        spent.remote_bytes[usize::from(write)] += access.remote_bytes;
        spent.local_bytes += (bytes as u64).saturating_sub(access.remote_bytes + access.peer_bytes);
        self.held.borrow_mut().push((range, write));
        Ok(Some(access.view))
    }

    /// Compares an access of bytes of an argument with the argument that the caller declared.
    fn check_declared(
        &self,
        index: usize,
        accessed: Range<usize>,
        write: bool,
    ) -> Result<(), ReferenceError> {
        let Some(declared) = self.parameters[index].memory else {
            return Ok(());
        };
        let access = match write {
            true => "writes",
            false => "reads",
        };
        if accessed.end > declared.bytes {
            return Err(ReferenceError::BeyondArgument {
                index,
                bytes: declared.bytes,
                access,
                accessed,
            });
        }
        match write && !declared.may_write {
            true => Err(ReferenceError::ReadOnlyArgument { index }),
            false => Ok(()),
        }
    }

    /// Refuses a write through an address that was passed as a number, if the memory is also an argument that was passed as `&`.
    fn check_shared(
        &self,
        index: usize,
        written: Range<usize>,
        write: bool,
    ) -> Result<(), ReferenceError> {
        if !write || self.parameters[index].memory.is_some() {
            return Ok(());
        }
        let mut shared = None;
        for (other, parameter) in self.parameters.iter().enumerate() {
            let Some(declared) = parameter.memory else {
                continue;
            };
            let start = self.value::<u64>(other)? as usize;
            let end = start.saturating_add(declared.bytes);
            match (
                start < written.end && written.start < end,
                declared.may_write,
            ) {
                (true, true) => return Ok(()),
                (true, false) => shared = shared.or(Some(other)),
                (false, _) => {}
            }
        }
        match shared {
            Some(index) => Err(ReferenceError::ReadOnlyArgument { index }),
            None => Ok(()),
        }
    }

    /// The first access that was refused.
    pub(crate) fn refused(&self) -> Option<ReferenceError> {
        self.refused.borrow_mut().take()
    }

    pub(crate) fn fault_time(&self) -> Duration {
        self.spent.borrow().fault_time
    }

    pub(crate) fn least(&self) -> Duration {
        self.spent.borrow().least
    }

    pub(crate) fn local_bytes(&self) -> u64 {
        self.spent.borrow().local_bytes
    }

    /// Bytes over the link in the direction with more: it carries both directions at the same time.
    pub(crate) fn remote_bytes(&self) -> u64 {
        let [read, written] = self.spent.borrow().remote_bytes;
        read.max(written)
    }
}
