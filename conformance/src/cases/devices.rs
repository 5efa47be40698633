//! Devices, their memory, and their attributes, which NVIDIA documents by compute capability.

use super::*;

cases! {
    /// The number of devices can be queried, and each device has an ordinal below it.
    "devices.count" DEVICE [cudaGetDeviceCount, cudaSetDevice, cudaGetDevice] |c| {
        let count = c.succeeds("cudaGetDeviceCount", c.device_count());
        c.holds("at least one", count > 0);
        for device in (0..count).rev() {
            ok(c.set_device(device));
            assert!(c.current_device() == Ok(device), "device {device} did not become current");
        }
    }
    /// An ordinal without a device is refused as invalid, and the current device does not change.
    "devices.unknown" DEVICE [cudaSetDevice, cudaGetDevice] |c| {
        for device in [-1, 64] {
            c.gives(format!("cudaSetDevice({device})"), c.set_device(device), INVALID_DEVICE);
        }
        c.is("still current", ok(c.current_device()), 0);
    }
    /// Each thread has its own current device; a new thread begins with device 0.
    "devices.current-is-the-threads" GUIDE_DEVICES [cudaGetDevice, cudaSetDevice] (Devices(2)) |c| {
        ok(c.set_device(1));
        c.is("in a new thread", ok(c.elsewhere(|c| c.current_device())), 0);
        c.is("in this thread", ok(c.current_device()), 1);
    }
    /// An attribute that is newer than the runtime is refused as an invalid value.
    "devices.late-attribute" DEVICE [cudaDeviceGetAttribute] (Before(12, 2)) |c| {
        let told = c.device_attribute(Attr::cudaDevAttrHostNumaId.0, 0);
        c.gives("cudaDevAttrHostNumaId", told, INVALID_VALUE);
    }
    /// From 12.2 on, the host NUMA node that is nearest to the device can be queried.
    "devices.host-numa" TYPES [cudaDeviceGetAttribute] (Since(12, 2)) |c| {
        let node = c.attribute(Attr::cudaDevAttrHostNumaId);
        c.holds("a node, or -1 for none", node >= -1);
    }
    /// An attribute that does not exist is an invalid value, and a device that does not exist an invalid device.
    "devices.unknown-attribute" DEVICE [cudaDeviceGetAttribute] |c| {
        c.gives("attribute 99999", c.device_attribute(99_999, 0), INVALID_VALUE);
        for device in [-1, 64] {
            let told = c.device_attribute(Attr::cudaDevAttrManagedMemory.0, device);
            c.gives(format!("device {device}"), told, INVALID_DEVICE);
        }
    }
    /// The driver returns the name of a device, and refuses a device that does not exist.
    "devices.name" DRIVER_DEVICE [cuDeviceGet, cuDeviceGetName] |c| {
        c.succeeds("cuDeviceGet(0)", c.driver_device(0));
        c.holds("a name", !ok(c.device_name(0)).is_empty());
        c.gives("cuDeviceGet(64)", c.driver_device(64), INVALID_DEVICE);
    }
    /// Free memory is at most the total; an allocation reduces it by its size, and a free restores it.
    "devices.memory-info" MEMORY [cudaMemGetInfo, cudaMalloc, cudaFree] |c| {
        let (free, total) = ok(c.memory_info());
        c.holds("free <= total", free <= total && total > 0);
        let memory = c.device(32 * MIB);
        let (while_there, same_total) = ok(c.memory_info());
        c.is("the total stays", same_total == total, true);
        c.holds("32 MiB are taken", while_there + 32 * MIB <= free);
        ok(memory.free());
        c.holds("32 MiB are given back", ok(c.memory_info()).0 >= while_there + 32 * MIB);
    }
    /// Synchronizing the device waits for all of its streams.
    "devices.synchronize" DEVICE [cudaDeviceSynchronize] |c| {
        let seen = c.pinned(4 * KIB, 0);
        // Each kind of stream in turn has the work, so that none is ignored.
        for (what, stream) in [
            ("blocking", c.stream_with(0)), ("non-blocking", c.stream()),
            ("the legacy default stream", c.stream_at(0)),
            ("the thread's default stream", c.stream_at(PER_THREAD)),
        ] {
            seen.fill_all(0);
            let gate = c.gate(&stream);
            stream.add(&seen, 1);
            let (waited, code) = gate.across(|| c.synchronize());
            let (done, value) = (stream.query(), seen.value_all());
            c.succeeds(format!("cudaDeviceSynchronize, {what}"), code);
            c.holds(format!("{what}: it waited"), waited);
            c.succeeds(format!("{what}: cudaStreamQuery behind it"), done);
            c.is(format!("{what}: the work"), value, 1);
        }
    }
    /// The attributes that the library uses are known for every device, are consistent, and have the values for its compute capability on Linux.
    "devices.capabilities" GUIDE_MANAGED [cudaDeviceGetAttribute] |c| {
        for device in 0..c.machine.facts.devices as i32 {
            let flags = FLAGS.map(|(name, attribute)| read(c, name, attribute, device));
            assert!(flags.iter().all(|flag| (0..=1).contains(flag)), "device {device}: {flags:?}");
            let major = compute_capability(c, device) / 10;
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
                assert!(holds, "{capability}: {name} is {value}, expected {least} to {most}");
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

/// Times 10.
fn compute_capability(c: &Cuda<'_>, device: i32) -> i32 {
    let part = |attribute: Attr| ok(c.device_attribute(attribute.0, device));
    let major = part(Attr::cudaDevAttrComputeCapabilityMajor);
    10 * major + part(Attr::cudaDevAttrComputeCapabilityMinor)
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

/// Compute capability times 10, threads of a multiprocessor, KiB of shared memory that a block may request.
const GENERATIONS: &[(&[i32], i32, i32)] = &[
    (&[50, 52, 53, 60, 61, 62], 2048, 48),
    (&[70, 72], 2048, 96),
    (&[75], 1024, 64),
    (&[80], 2048, 163),
    (&[86, 89, 120], 1536, 99),
    (&[87], 1536, 163),
    (&[90, 100], 2048, 227),
];
