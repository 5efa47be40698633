//! Libraries of the driver: modules under other names. A library's kernels run on the device that was current when it was loaded.

use super::driver::bodies as driver;
use super::guard::entry_points;
use super::pointer::{Image, JitOptions, Out, Text};
use crate::engine::Code;

entry_points! { Driver;
    // The options of the library itself concern when it is loaded.
    fn cuLibraryLoadData(
        core, library: Out<usize>, image: Image, options: JitOptions, values: Out<usize>, count: u32,
        _library_options: usize, _library_values: usize, _library_count: u32,
    ) {
        driver::cuModuleLoadDataEx(core, library, image, count, options, values)
    }

    fn cuLibraryLoadFromFile(
        core, library: Out<usize>, path: Text, _options: JitOptions, _values: Out<usize>, _count: u32,
        _library_options: usize, _library_values: usize, _library_count: u32,
    ) {
        driver::cuModuleLoad(core, library, path)
    }

    fn cuLibraryGetModule(core, module: Out<usize>, library: usize) {
        let known = core.state.lock().modules.has(library);
        if known { module.put(library) } else { Err(Code::INVALID_RESOURCE_HANDLE) }
    }

    fn cuKernelGetFunction(core, function: Out<usize>, kernel: usize) {
        core.state.lock().modules.function(kernel)?;
        function.put(kernel)
    }

    fn cuFuncGetModule(core, module: Out<usize>, function: usize) = cuKernelGetLibrary { module.put(core.state.lock().modules.function(function)?.module()) }

    fn cuKernelGetAttribute(core, value: Out<i32>, attribute: i32, kernel: usize, device: i32) {
        core.state.lock().devices.ordinal(device)?;
        driver::cuFuncGetAttribute(core, value, attribute, kernel)
    }

    fn cuKernelSetAttribute(core, attribute: i32, value: i32, kernel: usize, device: i32) {
        core.state.lock().devices.ordinal(device)?;
        driver::cuFuncSetAttribute(core, kernel, attribute, value)
    }

    fn cuKernelSetCacheConfig(core, kernel: usize, config: u32, device: i32) {
        core.state.lock().devices.ordinal(device)?;
        driver::cuFuncSetCacheConfig(core, kernel, config)
    }

    fn cuFuncGetName(core, name: Out<usize>, function: usize) = cuKernelGetName { name.put(core.state.lock().modules.function(function)?.c_name()) }
}
