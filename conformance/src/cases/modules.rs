//! Modules, and the attributes of their functions.

use super::prelude::*;
use crate::kernels::PTX;
use cuda_um_sys::cudaDeviceAttr as Attr;
use std::ffi::CStr;

/// `CU_FUNC_ATTRIBUTE_…`
mod attribute {
    pub(super) const MAX_THREADS: u32 = 0;
    pub(super) const SHARED_BYTES: u32 = 1;
    pub(super) const REGISTERS: u32 = 4;
    pub(super) const PTX_VERSION: u32 = 5;
    pub(super) const BINARY_VERSION: u32 = 6;
    pub(super) const MAX_DYNAMIC_SHARED: u32 = 8;
}

/// A kernel with a body that does not end.
const BROKEN: &CStr = c".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry broken(\n.param .u64 a\n)\n{\nret;\n";
const GARBAGE: &CStr = c"this is no module";
const NEWER: &CStr =
    c".version 99.0\n.target sm_50\n.address_size 64\n.visible .entry newer()\n{\nret;\n}\n";

pub(super) const CASES: &[Case] = cases! {
    "modules.load" (load):
        "PTX of an old version and target can be loaded several times, and each module is unloaded separately.",
        sources::MODULE, &["cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload"];
    "modules.broken" (broken):
        "PTX that cannot be parsed is refused, and so is text that is not a module.",
        sources::MODULE, &["cuModuleLoadData"];
    "modules.newer-ptx" (newer_ptx):
        "PTX of a version that is newer than the driver is refused.",
        sources::MODULE, &["cuModuleLoadData"];
    "modules.log" (log):
        "The compiler's log names the reason for which PTX is refused, and is not longer than its buffer.",
        sources::MODULE, &["cuModuleLoadDataEx"];
    "modules.parameters" (parameters):
        "A function has the parameters that its PTX declares, each at a multiple of its alignment.",
        sources::EXEC, &["cuFuncGetParamInfo"], needs(&[Need::Since(12, 4)]);
    "modules.unknown-kernel" (unknown_kernel):
        "A kernel that the module does not have is not found.",
        sources::MODULE, &["cuModuleGetFunction"];
    "modules.function-attributes" (function_attributes):
        "The thread limit of a block and the static shared memory of a function have the values that its PTX declares.",
        sources::EXEC, &["cuFuncGetAttribute"];
    "modules.function-versions" (function_versions):
        "A function has the virtual architecture of its PTX, and a binary architecture that the device can run.",
        sources::EXEC, &["cuFuncGetAttribute"];
    "modules.unknown-attribute" (unknown_attribute):
        "An attribute that does not exist is an invalid value.",
        sources::EXEC, &["cuFuncGetAttribute", "cuFuncSetAttribute"];
    "modules.dynamic-shared-limit" (dynamic_shared_limit):
        "The limit of dynamic shared memory can be raised up to the device's limit, which includes static memory.",
        sources::EXEC, &["cuFuncSetAttribute", "cuFuncGetAttribute", "cuLaunchKernel"];
    "modules.occupancy" (occupancy):
        "The blocks of a multiprocessor stay within its thread limit, and more shared memory does not allow more blocks.",
        sources::OCCUPANCY, &["cuOccupancyMaxActiveBlocksPerMultiprocessor"];
};

fn load(c: &Cuda<'_>) -> Verdict {
    let (code, first) = c.load_module(PTX)?;
    c.succeeds("cuModuleLoadData", code)?;
    let (code, second) = c.load_module(PTX)?;
    c.succeeds("cuModuleLoadData again", code)?;
    c.is("two modules", first != second, true)?;
    let found = c.module_function(first, c"conf_add")?;
    c.succeeds("cuModuleUnload", c.unload_module(first)?)?;
    let still = c.module_function(second, c"conf_add")?;
    c.succeeds("cuModuleUnload of the second", c.unload_module(second)?)?;
    c.succeeds("a kernel of the first", found)?;
    c.succeeds("a kernel of the second, when the first was unloaded", still)
}

/// Checks that a module is refused.
fn refused(c: &Cuda<'_>, name: &str, image: &CStr) -> Verdict {
    let (code, module) = c.load_module(image)?;
    if code == Code::SUCCESS {
        c.ok("cuModuleUnload", c.unload_module(module)?)?;
    }
    c.refuses(name, code)
}

fn broken(c: &Cuda<'_>) -> Verdict {
    refused(c, "PTX that does not end", BROKEN)?;
    refused(c, "no module", GARBAGE)?;
    c.succeeds("the device", c.synchronize())
}

fn newer_ptx(c: &Cuda<'_>) -> Verdict {
    refused(c, "PTX 99.0", NEWER)
}

fn log(c: &Cuda<'_>) -> Verdict {
    for (name, image) in [("PTX that does not end", BROKEN), ("PTX 99.0", NEWER)] {
        for room in [4096, 8] {
            let (code, log, written) = c.log_of_module(image, room)?;
            c.refuses(name, code)?;
            c.holds("it has a log", log.starts_with("ptxas"))?;
            c.holds("the log fits", log.len() < room && written <= room)?;
        }
    }
    let (code, log, _) = c.log_of_module(PTX, 4096)?;
    c.succeeds("a module", code)?;
    c.is("its log", log, String::new())
}

fn parameters(c: &Cuda<'_>) -> Verdict {
    let all = [Some((0, 8)), Some((8, 8)), Some((16, 4)), None];
    for (index, expected) in all.into_iter().enumerate() {
        let (code, found) = c.kernel_parameter("conf_copy", index)?;
        match expected {
            Some(expected) => {
                c.succeeds("a parameter", code)?;
                c.is("its offset and size", found, expected)?;
            }
            None => c.gives("past the last", code, Code::INVALID_VALUE)?,
        }
    }
    Ok(())
}

fn unknown_kernel(c: &Cuda<'_>) -> Verdict {
    let (code, module) = c.load_module(PTX)?;
    c.ok("cuModuleLoadData", code)?;
    let (none, prefix) = (
        c.module_function(module, c"none")?,
        c.module_function(module, c"conf_")?,
    );
    c.ok("cuModuleUnload", c.unload_module(module)?)?;
    c.gives("no such name", none, Code::NOT_FOUND)?;
    c.gives("a part of a name", prefix, Code::NOT_FOUND)
}

/// An attribute of the kernel with limits.
fn value(c: &Cuda<'_>, attribute: u32) -> Result<i32, Failure> {
    let (code, value) = c.kernel_attribute(attribute)?;
    c.ok("cuFuncGetAttribute", code)?;
    Ok(value)
}

fn function_attributes(c: &Cuda<'_>) -> Verdict {
    c.is("threads", value(c, attribute::MAX_THREADS)?, 64)?;
    c.is("shared memory", value(c, attribute::SHARED_BYTES)?, 4096)?;
    c.holds(
        "registers",
        (1..=255).contains(&value(c, attribute::REGISTERS)?),
    )
}

fn function_versions(c: &Cuda<'_>) -> Verdict {
    c.is("of the PTX", value(c, attribute::PTX_VERSION)?, 50)?;
    let (major, minor) = (
        c.attribute(Attr::cudaDevAttrComputeCapabilityMajor)?,
        c.attribute(Attr::cudaDevAttrComputeCapabilityMinor)?,
    );
    c.is(
        "of the code is the device's",
        value(c, attribute::BINARY_VERSION)? == major * 10 + minor,
        true,
    )
}

fn unknown_attribute(c: &Cuda<'_>) -> Verdict {
    c.gives(
        "cuFuncGetAttribute",
        c.kernel_attribute(9999)?.0,
        Code::INVALID_VALUE,
    )?;
    c.gives(
        "cuFuncSetAttribute",
        c.set_kernel_attribute(9999, 1)?,
        Code::INVALID_VALUE,
    )
}

fn dynamic_shared_limit(c: &Cuda<'_>) -> Verdict {
    let most = c.attribute(Attr::cudaDevAttrMaxSharedMemoryPerBlockOptin)? - 4096;
    let before = value(c, attribute::MAX_DYNAMIC_SHARED)?;
    let (out, stream) = (c.device_memory(4 * KIB)?, c.stream()?);
    c.ok("cudaMemset", c.set(&out, 0, 4))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    c.refuses(
        "beyond the device's",
        c.set_kernel_attribute(attribute::MAX_DYNAMIC_SHARED, most + 1)?,
    )?;
    c.is(
        "still",
        value(c, attribute::MAX_DYNAMIC_SHARED)? == before,
        true,
    )?;
    c.succeeds(
        "the device's",
        c.set_kernel_attribute(attribute::MAX_DYNAMIC_SHARED, most)?,
    )?;
    let told = value(c, attribute::MAX_DYNAMIC_SHARED);
    let launched = c.launch_limited(&out, super::launch::limited(64, most as u32), &stream);
    // Other cases use the same kernel.
    c.ok(
        "back",
        c.set_kernel_attribute(attribute::MAX_DYNAMIC_SHARED, before)?,
    )?;
    c.is("told", told? == most, true)?;
    c.succeeds("a launch that uses it", launched?)?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("it ran", c.contents(&out)?[0], 7)
}

fn occupancy(c: &Cuda<'_>) -> Verdict {
    let threads = c.attribute(Attr::cudaDevAttrMaxThreadsPerMultiProcessor)?;
    let mut least = i32::MAX;
    for shared_bytes in [0, 8 * KIB, 32 * KIB] {
        let (code, blocks) = c.occupancy("conf_add", 256, shared_bytes)?;
        c.succeeds(&format!("{shared_bytes} bytes"), code)?;
        c.holds("some fit", blocks > 0 && blocks * 256 <= threads)?;
        c.holds("no more than with less", blocks <= least)?;
        least = blocks;
    }
    Ok(())
}
