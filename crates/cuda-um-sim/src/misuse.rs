//! Misuse of the CUDA API that a GPU would punish with a crash, a hang, or silence.

/// One misuse.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Misuse {
    /// The host touched managed memory while a kernel that may use it had not been waited for, on a device without
    /// concurrent managed access. On hardware: a segmentation fault.
    HostTouchDuringKernel {
        /// The address touched.
        address: usize,
    },
    /// The host touched device memory, or addresses that belong to no allocation. The process ends as on hardware.
    HostTouchOfDeviceMemory {
        /// The address touched.
        address: usize,
    },
    /// Memory was used after it was freed, or freed in the order of one stream while another one used it.
    UseAfterFree {
        /// The address used.
        address: usize,
    },
    /// Memory was freed twice.
    DoubleFree {
        /// The address.
        address: usize,
    },
    /// Something was freed that is no allocation's start.
    InvalidFree {
        /// The address.
        address: usize,
    },
    /// A kernel was looked up for which two different references are registered.
    AmbiguousReference {
        /// Its name.
        kernel: String,
    },
    /// A kernel was looked up that has no reference to run.
    NoTwin {
        /// Its name.
        kernel: String,
    },
    /// A kernel touched what it may not, or its reference failed.
    KernelFault {
        /// Its name.
        kernel: String,
        /// What it did.
        text: String,
    },
    /// A module was unloaded while launches of its kernels had not ended. On hardware the code goes away under them; CUDA promises no wait.
    ModuleUnloadedInUse {
        /// Launches that were enqueued and had not ended.
        launches: usize,
    },
    /// A call into CUDA from a host function on a stream, or from a kernel's reference.
    CallInHostFunction {
        /// The call.
        call: String,
    },
}

/// Something that was made and never given back.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Leak {
    /// Memory.
    Memory {
        /// Its address.
        address: usize,
        /// Its size.
        bytes: usize,
        /// The call that gives such memory.
        kind: &'static str,
    },
    /// A stream.
    Stream,
    /// An event.
    Event,
    /// A pool.
    Pool,
    /// A module.
    Module,
    /// Registered host memory.
    Registration {
        /// Its address.
        address: usize,
        /// Its size.
        bytes: usize,
    },
}
