//! Device attributes.

use super::machine::Machine;
use super::status::Code;
use crate::preset::CudaVersion;

/// The last attribute of a version.
fn last(cuda: CudaVersion) -> i32 {
    match cuda {
        CudaVersion::V11_8 => 125,
        CudaVersion::V12_2 => 134,
        CudaVersion::V12_9 => 143,
        _ => 147,
    }
}

/// The largest sizes of textures and surfaces, by attribute, of an H200. No kernel of the simulator reads one.
const TEXTURES: [(i32, i32); 41] = [
    (21, 131_072),
    (22, 131_072),
    (23, 65_536),
    (24, 16_384),
    (25, 16_384),
    (26, 16_384),
    (27, 32_768),
    (28, 32_768),
    (29, 2_048),
    (42, 32_768),
    (43, 2_048),
    (44, 1),
    (45, 32_768),
    (46, 32_768),
    (47, 8_192),
    (48, 8_192),
    (49, 32_768),
    (52, 32_768),
    (53, 32_768),
    (54, 2_046),
    (55, 32_768),
    (56, 131_072),
    (57, 65_536),
    (58, 16_384),
    (59, 16_384),
    (60, 16_384),
    (61, 32_768),
    (62, 2_048),
    (63, 32_768),
    (64, 32_768),
    (65, 2_048),
    (66, 32_768),
    (67, 32_768),
    (68, 2_046),
    (69, 268_435_456),
    (70, 131_072),
    (71, 65_000),
    (72, 2_097_120),
    (73, 32_768),
    (74, 32_768),
    (77, 32_768),
];

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
            106 => 32,                         // maxBlocksPerMultiprocessor
            113 => 1,                          // hostRegisterReadOnlySupported
            115 => flag(profile.memory_pools), // memoryPoolsSupported
            142 | 144 if self.batch_calls() && attribute <= last(self.cuda) => {
                flag(profile.memory_pools)
            } // hostNumaMemoryPoolsSupported, hostMemoryPoolsSupported
            134 if self.cuda.number() >= 12_020 => 0, // hostNumaId
            11 => i32::MAX,                    // maxPitch
            32 | 79 | 80 => 1, // eccEnabled, globalL1CacheSupported, localL1CacheSupported
            51 => 32,          // texturePitchAlignment
            14 | 30 => 512,    // textureAlignment, surfaceAlignment
            87 => 2,           // singleToDoublePrecisionPerfRatio
            108 => 30 << 20,   // maxPersistingL2CacheSize
            109 => 128 << 20,  // accessPolicyMaxWindowSize
            111 => 1024,       // reservedSharedMemoryPerBlock
            131 => -1,         // numaId
            _ => match TEXTURES.iter().find(|(known, _)| *known == attribute) {
                Some((_, size)) => *size,
                // What the simulated device does not have.
                None if (1..=last(self.cuda)).contains(&attribute) => 0,
                None => return Err(Code::INVALID_VALUE),
            },
        })
    }
}
