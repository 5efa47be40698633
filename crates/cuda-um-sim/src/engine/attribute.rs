//! Device attributes.

use super::machine::Machine;
use super::status::Code;

impl Machine {
    /// A device attribute by its stable number.
    pub(crate) fn attribute(&self, attribute: i32, ordinal: usize) -> Result<i32, Code> {
        let profile = &self.profile;
        let flag = i32::from;
        Ok(match attribute {
            1 => 1024,                                                // maxThreadsPerBlock
            2 | 3 => 1024,                                            // maxBlockDimX, Y
            4 => 64,                                                  // maxBlockDimZ
            5 => i32::MAX,                                            // maxGridDimX
            6 | 7 => 65_535,                                          // maxGridDimY, Z
            8 => profile.shared_bytes_per_block as i32,               // maxSharedMemoryPerBlock
            9 => 65_536,                                              // totalConstantMemory
            10 => 32,                                                 // warpSize
            12 => 65_536,                                             // maxRegistersPerBlock
            13 => 1_500_000,                                          // clockRate
            15 => 1,                                                  // gpuOverlap
            16 => profile.multiprocessors as i32,                     // multiProcessorCount
            17 => 0,                                                  // kernelExecTimeout
            18 => flag(profile.integrated),                           // integrated
            19 => 1,                                                  // canMapHostMemory
            20 => 0,                                                  // computeMode
            31 => 1,                                                  // concurrentKernels
            33 => 1 + ordinal as i32,                                 // pciBusId
            34 | 50 => 0,                                             // pciDeviceId, pciDomainId
            35 => 0,                                                  // tccDriver
            36 => 2_600_000,                                          // memoryClockRate
            37 => 5120,                                               // globalMemoryBusWidth
            38 => 50 << 20,                                           // l2CacheSize
            39 => profile.threads_per_multiprocessor as i32,          // maxThreadsPerMultiProcessor
            40 => 2,                                                  // asyncEngineCount
            41 => 1,                                                  // unifiedAddressing
            75 => profile.compute_capability.0 as i32,                // computeCapabilityMajor
            76 => profile.compute_capability.1 as i32,                // computeCapabilityMinor
            78 => 1,                                                  // streamPrioritiesSupported
            81 => profile.shared_bytes_per_block_optin as i32 + 1024, // maxSharedMemoryPerMultiprocessor
            82 => 65_536,                               // maxRegistersPerMultiprocessor
            83 => 1,                                    // managedMemory
            84 => 0,                                    // isMultiGpuBoard
            86 => 1,                                    // hostNativeAtomicSupported
            88 => flag(profile.pageable_memory_access), // pageableMemoryAccess
            89 => flag(profile.concurrent_managed_access), // concurrentManagedAccess
            90 => 1,                                    // computePreemptionSupported
            91 => 1,                                    // canUseHostPointerForRegisteredMem
            95 => 1,                                    // cooperativeLaunch
            97 => profile.shared_bytes_per_block_optin as i32, // maxSharedMemoryPerBlockOptin
            99 => flag(self.host_register),             // hostRegisterSupported
            100 => flag(profile.direct_host_access),    // pageableMemoryAccessUsesHostPageTables
            // directManagedMemAccessFromHost: of a GPU with memory of its own.
            101 => flag(profile.direct_host_access && !profile.integrated),
            106 => 32,                                // maxBlocksPerMultiprocessor
            113 => 1,                                 // hostRegisterReadOnlySupported
            115 => flag(profile.memory_pools),        // memoryPoolsSupported
            134 if self.cuda.number() >= 12_020 => 0, // hostNumaId
            _ => return Err(Code::INVALID_VALUE),
        })
    }
}
