//! Modules, and the attributes of their functions.

use super::*;
use crate::kernels::PTX;
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

cases! {
    /// PTX of an old version and target can be loaded several times, and each module is unloaded separately.
    "modules.load" MODULE [cuModuleLoadData, cuModuleGetFunction, cuModuleUnload] |c| {
        let first = c.succeeds("cuModuleLoadData", c.module_load(PTX));
        let second = c.succeeds("cuModuleLoadData again", c.module_load(PTX));
        c.is("two modules", first != second, true);
        let found = c.module_function(first, c"conf_add");
        c.succeeds("cuModuleUnload", c.module_unload(first));
        let still = c.module_function(second, c"conf_add");
        c.succeeds("cuModuleUnload of the second", c.module_unload(second));
        c.succeeds("a kernel of the first", found);
        c.succeeds("a kernel of the second, when the first was unloaded", still);
    }
    /// PTX that cannot be parsed is refused, and so is text that is not a module.
    "modules.broken" MODULE [cuModuleLoadData] |c| {
        refused(c, "PTX that does not end", BROKEN);
        refused(c, "no module", GARBAGE);
        c.succeeds("the device", c.synchronize());
    }
    /// PTX of a version that is newer than the driver is refused.
    "modules.newer-ptx" MODULE [cuModuleLoadData] |c| {
        refused(c, "PTX 99.0", NEWER);
    }
    /// The compiler's log names the reason for which PTX is refused, and is not longer than its buffer.
    "modules.log" MODULE [cuModuleLoadDataEx] |c| {
        for (name, image) in [("PTX that does not end", BROKEN), ("PTX 99.0", NEWER)] {
            for room in [4096, 8] {
                let (code, log, written) = c.log_of_module(image, room);
                c.refuses(name, code);
                c.holds("it has a log", log.starts_with("ptxas"));
                c.holds("the log fits", log.len() < room && written <= room);
            }
        }
        let (code, log, _) = c.log_of_module(PTX, 4096);
        c.succeeds("a module", code);
        c.is("its log", log, String::new());
    }
    /// A function has the parameters that its PTX declares, each at a multiple of its alignment.
    "modules.parameters" EXEC [cuFuncGetParamInfo] (Since(12, 4)) |c| {
        let all = [Some((0, 8)), Some((8, 8)), Some((16, 4)), None];
        for (index, expected) in all.into_iter().enumerate() {
            let found = c.function_parameter(c.kernel(c"conf_copy"), index);
            match expected {
                Some(expected) => {
                    let found = c.succeeds("a parameter", found);
                    c.is("its offset and size", found, expected);
                }
                None => c.gives("past the last", found, INVALID_VALUE),
            }
        }
    }
    /// A kernel that the module does not have is not found.
    "modules.unknown-kernel" MODULE [cuModuleGetFunction] |c| {
        let module = ok(c.module_load(PTX));
        let (none, prefix) =
            (c.module_function(module, c"none"), c.module_function(module, c"conf_"));
        ok(c.module_unload(module));
        c.gives("no such name", none, NOT_FOUND);
        c.gives("a part of a name", prefix, NOT_FOUND);
    }
    /// The thread limit of a block and the static shared memory of a function have the values that its PTX declares.
    "modules.function-attributes" EXEC [cuFuncGetAttribute] |c| {
        c.is("threads", value(c, attribute::MAX_THREADS), 64);
        c.is("shared memory", value(c, attribute::SHARED_BYTES), 4096);
        c.holds("registers", (1..=255).contains(&value(c, attribute::REGISTERS)));
    }
    /// A function has the virtual architecture of its PTX, and a binary architecture that the device can run.
    "modules.function-versions" EXEC [cuFuncGetAttribute] |c| {
        c.is("of the PTX", value(c, attribute::PTX_VERSION), 50);
        let major = c.attribute(Attr::cudaDevAttrComputeCapabilityMajor);
        let minor = c.attribute(Attr::cudaDevAttrComputeCapabilityMinor);
        let same = value(c, attribute::BINARY_VERSION) == major * 10 + minor;
        c.is("of the code is the device's", same, true);
    }
    /// An attribute that does not exist is an invalid value.
    "modules.unknown-attribute" EXEC [cuFuncGetAttribute, cuFuncSetAttribute] |c| {
        let kernel = c.kernel(c"conf_limited");
        c.gives("cuFuncGetAttribute", c.function_attribute(kernel, 9999), INVALID_VALUE);
        c.gives("cuFuncSetAttribute", c.set_function_attribute(kernel, 9999, 1), INVALID_VALUE);
    }
    /// The limit of dynamic shared memory can be raised up to the device's limit, which includes static memory.
    "modules.dynamic-shared-limit" EXEC [cuFuncSetAttribute, cuFuncGetAttribute, cuLaunchKernel] |c, stream| {
        let most = c.attribute(Attr::cudaDevAttrMaxSharedMemoryPerBlockOptin) - 4096;
        let before = value(c, attribute::MAX_DYNAMIC_SHARED);
        let out = c.device(4 * KIB).zeroed();
        let kernel = c.kernel(c"conf_limited");
        let set = |bytes| c.set_function_attribute(kernel, attribute::MAX_DYNAMIC_SHARED, bytes);
        c.refuses("beyond the device's", set(most + 1));
        c.is("still", value(c, attribute::MAX_DYNAMIC_SHARED) == before, true);
        c.succeeds("the device's", set(most));
        let told = value(c, attribute::MAX_DYNAMIC_SHARED);
        let launched = c.launch_limited(&out, (64, most as u32), &stream);
        // Other cases use the same kernel.
        ok(set(before));
        c.is("told", told == most, true);
        c.succeeds("a launch that uses it", launched);
        stream.done("cudaStreamSynchronize");
        c.is("it ran", c.contents(&out)[0], 7);
    }
    /// The blocks of a multiprocessor stay within its thread limit, and more shared memory does not allow more blocks.
    "modules.occupancy" OCCUPANCY [cuOccupancyMaxActiveBlocksPerMultiprocessor] |c| {
        let threads = c.attribute(Attr::cudaDevAttrMaxThreadsPerMultiProcessor);
        let mut least = i32::MAX;
        for shared_bytes in [0, 8 * KIB, 32 * KIB] {
            let blocks = c.blocks_of(c.kernel(c"conf_add"), 256, shared_bytes);
            let blocks = c.succeeds(format!("{shared_bytes} bytes"), blocks);
            c.holds("some fit", blocks > 0 && blocks * 256 <= threads);
            c.holds("no more than with less", blocks <= least);
            least = blocks;
        }
    }
}

/// Checks that a module is refused.
fn refused(c: &Cuda<'_>, name: &str, image: &CStr) {
    let module = c.module_load(image);
    if let Ok(module) = module {
        ok(c.module_unload(module));
    }
    c.refuses(name, module);
}

/// An attribute of the kernel with limits.
fn value(c: &Cuda<'_>, attribute: u32) -> i32 {
    ok(c.function_attribute(c.kernel(c"conf_limited"), attribute))
}
