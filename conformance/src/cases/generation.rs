//! Properties of GPU generations: attributes of devices that NVIDIA documents by compute capability.

use super::*;

cases! {
    /// The attributes that the library uses are known for every device, are consistent, and have the values for its compute capability on Linux.
    "devices.capabilities" GUIDE_MANAGED [cudaDeviceGetAttribute] |c| {
        for device in 0..c.machine.facts.devices as i32 {
            let flags = FLAGS.map(|(name, attribute)| read(c, name, attribute, device));
            assert!(flags.iter().all(|flag| (0..=1).contains(flag)), "device {device}: {flags:?}");
            let (major, _) = compute_capability(c, device);
            for (rule, holds) in rules(flags.map(|flag| flag == 1), major) {
                assert!(holds, "device {device}, {major}.x: not as documented: {rule}");
            }
        }
    }
    /// The launch limits that the library reads are known for every device, and have the documented values for its compute capability.
    "devices.limits" GUIDE_COMPUTE_CAPABILITIES [cudaDeviceGetAttribute] |c| {
        for device in 0..c.machine.facts.devices as i32 {
            let capability = compute_capability(c, device);
            let known = GENERATIONS.iter().find(|(known, ..)| known.contains(&capability));
            for (name, attribute, documented) in LIMITS {
                let value = read(c, name, attribute, device);
                let (least, most) = match (documented, known) {
                    (All(value), _) => (value, value),
                    (AtLeast(least), _) => (least, i32::MAX),
                    (Threads, Some((_, threads, _))) => (*threads, *threads),
                    (Shared, Some((.., kib))) => (kib << 10, kib << 10),
                    // A generation that is not listed has at least the smallest listed value.
                    (Threads, None) => (1024, i32::MAX),
                    (Shared, None) => (48 << 10, i32::MAX),
                };
                let holds = (least..=most).contains(&value);
                assert!(holds, "{capability:?}: {name} is {value}, expected {least} to {most}");
            }
        }
    }
}

/// Rows of a name, an attribute and more.
macro_rules! named {
    ($($name:ident $attribute:ident $($more:expr)?;)*) => {
        [$((stringify!($name), Attr::$attribute $(, $more)?)),*]
    };
}

const FLAGS: [(&str, Attr); 12] = named! {
    managedMemory cudaDevAttrManagedMemory;
    concurrentManagedAccess cudaDevAttrConcurrentManagedAccess;
    pageableMemoryAccess cudaDevAttrPageableMemoryAccess;
    pageableMemoryAccessUsesHostPageTables cudaDevAttrPageableMemoryAccessUsesHostPageTables;
    directManagedMemAccessFromHost cudaDevAttrDirectManagedMemAccessFromHost;
    unifiedAddressing cudaDevAttrUnifiedAddressing;
    canMapHostMemory cudaDevAttrCanMapHostMemory;
    hostRegisterSupported cudaDevAttrHostRegisterSupported;
    canUseHostPointerForRegisteredMem cudaDevAttrCanUseHostPointerForRegisteredMem;
    memoryPoolsSupported cudaDevAttrMemoryPoolsSupported;
    integrated cudaDevAttrIntegrated;
    concurrentKernels cudaDevAttrConcurrentKernels;
};

/// Reads an attribute of a device; the value of device 0 is recorded.
fn read(c: &Cuda<'_>, name: &str, attribute: Attr, device: i32) -> i32 {
    let value = ok(c.device_attribute(attribute.0, device));
    if device == 0 {
        c.note(name, Value::Text(value.to_string()));
    }
    value
}

fn compute_capability(c: &Cuda<'_>, device: i32) -> (i32, i32) {
    let part = |attribute: Attr| ok(c.device_attribute(attribute.0, device));
    let major = part(Attr::cudaDevAttrComputeCapabilityMajor);
    (major, part(Attr::cudaDevAttrComputeCapabilityMinor))
}

/// The documented rules for [`FLAGS`], and if they hold.
fn rules(flags: [bool; FLAGS.len()], major: i32) -> [(&'static str, bool); 11] {
    let [managed, concurrent, pageable, tables, from_host, ..] = flags;
    let [.., unified, maps_host, registers, same_pointer, _, integrated, kernels] = flags;
    [
        // Every GPU since Kepler, in a 64-bit process.
        ("managed memory", managed),
        ("unified addressing", unified),
        ("mapped host memory", maps_host),
        ("concurrent kernels", kernels),
        ("a discrete GPU registers", integrated || registers),
        ("one pointer if registered", registers || !same_pointer),
        // Page faults exist since Pascal. Integrated GPUs may have them or not.
        ("no faults before 6.0", major >= 6 || !concurrent),
        ("faults since 6.0", major < 6 || integrated || concurrent),
        // Each level of unified memory includes the previous one.
        ("pageable includes faults", concurrent || !pageable),
        ("tables include pageable", pageable || !tables),
        ("from host includes tables", tables || !from_host),
    ]
}

/// The documented value of a limit.
#[derive(Clone, Copy)]
enum Documented {
    /// The same for all listed generations.
    All(i32),
    /// The threads of a multiprocessor of this generation.
    Threads,
    /// The shared memory that a block of this generation may request.
    Shared,
    /// At least this value; the exact value depends on the model, or was read before.
    AtLeast(i32),
}
use Documented::{All, AtLeast, Shared, Threads};

const LIMITS: [(&str, Attr, Documented); 14] = named! {
    computeCapabilityMajor cudaDevAttrComputeCapabilityMajor AtLeast(5);
    computeCapabilityMinor cudaDevAttrComputeCapabilityMinor AtLeast(0);
    maxThreadsPerBlock cudaDevAttrMaxThreadsPerBlock All(1024);
    maxBlockDimX cudaDevAttrMaxBlockDimX All(1024);
    maxBlockDimY cudaDevAttrMaxBlockDimY All(1024);
    maxBlockDimZ cudaDevAttrMaxBlockDimZ All(64);
    maxGridDimX cudaDevAttrMaxGridDimX All(i32::MAX);
    maxGridDimY cudaDevAttrMaxGridDimY All(65_535);
    maxGridDimZ cudaDevAttrMaxGridDimZ All(65_535);
    maxSharedMemoryPerBlock cudaDevAttrMaxSharedMemoryPerBlock All(48 << 10);
    maxSharedMemoryPerBlockOptin cudaDevAttrMaxSharedMemoryPerBlockOptin Shared;
    warpSize cudaDevAttrWarpSize All(32);
    multiProcessorCount cudaDevAttrMultiProcessorCount AtLeast(1);
    maxThreadsPerMultiProcessor cudaDevAttrMaxThreadsPerMultiProcessor Threads;
};

/// Compute capabilities, threads of a multiprocessor, KiB of shared memory that a block may request.
const GENERATIONS: &[(&[(i32, i32)], i32, i32)] = &[
    (&[(5, 0), (5, 2), (5, 3), (6, 0), (6, 1), (6, 2)], 2048, 48),
    (&[(7, 0), (7, 2)], 2048, 96),
    (&[(7, 5)], 1024, 64),
    (&[(8, 0)], 2048, 163),
    (&[(8, 6), (8, 9), (12, 0)], 1536, 99),
    (&[(8, 7)], 1536, 163),
    (&[(9, 0), (10, 0)], 2048, 227),
];
