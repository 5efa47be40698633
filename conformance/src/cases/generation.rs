//! Properties of GPU generations: attributes of devices that NVIDIA documents by compute capability.

use super::prelude::*;
use crate::Value;
use cuda_um_sys::cudaDeviceAttr as Attr;

pub(super) const CASES: &[Case] = cases! {
    "devices.capabilities" (capabilities):
        "The attributes that the library uses are known for every device, are consistent, and have the values for its compute capability on Linux.",
        sources::GUIDE_MANAGED, &["cudaDeviceGetAttribute"];
    "devices.limits" (limits):
        "The launch limits that the library reads are known for every device, and have the documented values for its compute capability.",
        sources::GUIDE_COMPUTE_CAPABILITIES, &["cudaDeviceGetAttribute"];
};

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
fn read(c: &Cuda<'_>, name: &str, attribute: Attr, device: i32) -> Result<i32, Failure> {
    let (code, value) = c.try_attribute(attribute.0, device);
    c.ok(&format!("{name} of device {device}"), code)?;
    if device == 0 {
        c.note(name, Value::Text(value.to_string()));
    }
    Ok(value)
}

fn compute_capability(c: &Cuda<'_>, device: i32) -> Result<(i32, i32), Failure> {
    let part = |attribute: Attr| {
        let (code, value) = c.try_attribute(attribute.0, device);
        c.ok("the compute capability", code).map(|()| value)
    };
    Ok((
        part(Attr::cudaDevAttrComputeCapabilityMajor)?,
        part(Attr::cudaDevAttrComputeCapabilityMinor)?,
    ))
}

fn capabilities(c: &Cuda<'_>) -> Verdict {
    for device in 0..c.machine.facts.devices as i32 {
        let mut flags = [0; FLAGS.len()];
        for (flag, (name, attribute)) in flags.iter_mut().zip(FLAGS) {
            *flag = read(c, name, attribute, device)?;
            if !(0..=1).contains(flag) {
                return fail(format!("{name} is {flag}, expected 0 or 1"));
            }
        }
        let (major, _) = compute_capability(c, device)?;
        for (what, holds) in rules(flags.map(|flag| flag == 1), major) {
            if !holds {
                return fail(format!(
                    "device {device}, {major}.x: not as documented: {what}"
                ));
            }
        }
    }
    Ok(())
}

/// The documented rules for [`FLAGS`], and if they hold.
fn rules(flags: [bool; FLAGS.len()], major: i32) -> [(&'static str, bool); 11] {
    let [
        managed,
        concurrent,
        pageable,
        host_tables,
        from_host,
        unified,
        maps_host,
        registers,
        same_pointer,
        _,
        integrated,
        kernels,
    ] = flags;
    [
        // Every GPU since Kepler, in a 64-bit process.
        ("managed memory", managed),
        ("unified addressing", unified),
        ("mapped host memory", maps_host),
        ("concurrent kernels", kernels),
        (
            "host memory is registered by a discrete GPU",
            integrated || registers,
        ),
        (
            "its pointer is for both sides only where it is registered",
            registers || !same_pointer,
        ),
        // Page faults exist since Pascal. Integrated GPUs may have them or not.
        (
            "concurrent managed access before 6.0",
            major >= 6 || !concurrent,
        ),
        (
            "concurrent managed access from 6.0 on",
            major < 6 || integrated || concurrent,
        ),
        // Each level of unified memory includes the previous one.
        (
            "concurrent managed access with pageable access",
            concurrent || !pageable,
        ),
        (
            "pageable access with the host's page tables",
            pageable || !host_tables,
        ),
        (
            "the host's page tables with direct access from the host",
            host_tables || !from_host,
        ),
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

const LIMITS: [(&str, Attr, Documented); 14] = named! {
    computeCapabilityMajor cudaDevAttrComputeCapabilityMajor Documented::AtLeast(5);
    computeCapabilityMinor cudaDevAttrComputeCapabilityMinor Documented::AtLeast(0);
    maxThreadsPerBlock cudaDevAttrMaxThreadsPerBlock Documented::All(1024);
    maxBlockDimX cudaDevAttrMaxBlockDimX Documented::All(1024);
    maxBlockDimY cudaDevAttrMaxBlockDimY Documented::All(1024);
    maxBlockDimZ cudaDevAttrMaxBlockDimZ Documented::All(64);
    maxGridDimX cudaDevAttrMaxGridDimX Documented::All(i32::MAX);
    maxGridDimY cudaDevAttrMaxGridDimY Documented::All(65_535);
    maxGridDimZ cudaDevAttrMaxGridDimZ Documented::All(65_535);
    maxSharedMemoryPerBlock cudaDevAttrMaxSharedMemoryPerBlock Documented::All(48 << 10);
    maxSharedMemoryPerBlockOptin cudaDevAttrMaxSharedMemoryPerBlockOptin Documented::Shared;
    warpSize cudaDevAttrWarpSize Documented::All(32);
    multiProcessorCount cudaDevAttrMultiProcessorCount Documented::AtLeast(1);
    maxThreadsPerMultiProcessor cudaDevAttrMaxThreadsPerMultiProcessor Documented::Threads;
};

/// Compute capability, threads of a multiprocessor, KiB of shared memory that a block may request.
const GENERATIONS: &[((i32, i32), i32, i32)] = &[
    ((5, 0), 2048, 48),
    ((5, 2), 2048, 48),
    ((5, 3), 2048, 48),
    ((6, 0), 2048, 48),
    ((6, 1), 2048, 48),
    ((6, 2), 2048, 48),
    ((7, 0), 2048, 96),
    ((7, 2), 2048, 96),
    ((7, 5), 1024, 64),
    ((8, 0), 2048, 163),
    ((8, 6), 1536, 99),
    ((8, 7), 1536, 163),
    ((8, 9), 1536, 99),
    ((9, 0), 2048, 227),
    ((10, 0), 2048, 227),
    ((12, 0), 1536, 99),
];

fn limits(c: &Cuda<'_>) -> Verdict {
    for device in 0..c.machine.facts.devices as i32 {
        let capability = compute_capability(c, device)?;
        let known = GENERATIONS.iter().find(|(known, ..)| *known == capability);
        for (name, attribute, documented) in LIMITS {
            let value = read(c, name, attribute, device)?;
            let (least, most) = match (documented, known) {
                (Documented::All(value), _) => (value, value),
                (Documented::AtLeast(least), _) => (least, i32::MAX),
                (Documented::Threads, Some((_, threads, _))) => (*threads, *threads),
                (Documented::Shared, Some((.., kib))) => (kib << 10, kib << 10),
                // A generation that is not listed has at least the smallest listed value.
                (Documented::Threads, None) => (1024, i32::MAX),
                (Documented::Shared, None) => (48 << 10, i32::MAX),
            };
            if !(least..=most).contains(&value) {
                return fail(format!(
                    "device {device}, {capability:?}: {name} is {value}, expected {least} to {most}"
                ));
            }
        }
    }
    Ok(())
}
