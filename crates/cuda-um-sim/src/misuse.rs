//! Misuse of the CUDA API: on a GPU it leads to a crash, a hang, or wrong data without an error.

/// One misuse.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Misuse {
    /// The host touched managed memory before it had waited for a kernel that may use it, on a device without concurrent managed access.
    /// On hardware this is a segmentation fault.
    HostTouchDuringKernel {
        /// The address touched.
        address: usize,
    },
    /// The host touched device memory, or addresses that belong to no allocation. The process ends, as on hardware.
    HostTouchOfDeviceMemory {
        /// The address touched.
        address: usize,
    },
    /// Memory was used after it was freed, or was freed in the order of one stream while another stream used it.
    UseAfterFree {
        /// The address used.
        address: usize,
    },
    /// Memory was freed twice.
    DoubleFree {
        /// The address.
        address: usize,
    },
    /// The freed address is not the start of an allocation.
    InvalidFree {
        /// The address.
        address: usize,
    },
    /// A check of a running kernel found a mistake.
    KernelFault {
        /// Its name.
        kernel: String,
        /// The mistake, with its line, thread and address.
        text: String,
    },
    /// A module was unloaded while launches of its kernels had not ended. CUDA does not promise to wait for them: on hardware their code
    /// can vanish while they run.
    ModuleUnloadedInUse {
        /// Launches that were enqueued and had not ended.
        launches: usize,
    },
    /// A host function on a stream called CUDA.
    CallInHostFunction {
        /// The call.
        call: String,
    },
}

/// Memory or a handle that was created and not released.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Leak {
    /// Memory.
    Memory {
        /// Its address.
        address: usize,
        /// Its size.
        bytes: usize,
        /// The call that allocates such memory.
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
    /// A graph.
    Graph,
    /// An executable graph.
    GraphExec,
    /// Registered host memory.
    Registration {
        /// Its address.
        address: usize,
        /// Its size.
        bytes: usize,
    },
}
