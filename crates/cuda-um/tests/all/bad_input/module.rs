//! Text that is not a module, names that a module does not have, and invalid requests to kernels.

use crate::bad_input::world::{cases, run};
use cuda_um::{Device, Module, Result};

const HEAD: &str = ".version 6.4\n.target sm_60\n.address_size 64\n";

fn with_head(device: &Device, rest: &str) -> Result<Module> {
    Module::load(device, &format!("{HEAD}{rest}"))
}

#[test]
fn text_names_and_sizes() {
    run(cases! {
        "Module::load", "nothing": |w| Module::load(&w.device, "")
            => Call, ["cuModuleLoadDataEx: module on device 0: ", "CUDA_ERROR_INVALID_IMAGE"];
        "Module::load", "prose": |w| Module::load(&w.device, "not PTX at all")
            => Call, ["cuModuleLoadDataEx", "CUDA_ERROR_INVALID_IMAGE"];
        "Module::load", "a NUL": |w| Module::load(&w.device, ".version 6.4\0.target sm_60")
            => InvalidArgument, ["PTX cannot be a text with a NUL at byte 12"];
        "Module::load", "an ELF image": |w| Module::load(&w.device, "\u{7f}ELF\u{2}\u{1}")
            => InvalidArgument, ["PTX cannot be a binary image", "Module::load_image"];
        "Module::load", "a newer ISA": |w| Module::load(&w.device, ".version 99.0\n.target sm_60\n")
            => Call, ["CUDA_ERROR_UNSUPPORTED_PTX_VERSION"];
        "Module::load", "a newer device": |w| Module::load(&w.device, ".version 6.4\n.target sm_999\n")
            => Call, ["CUDA_ERROR_NO_BINARY_FOR_GPU"];
        "Module::load", "a body that does not end": |w| with_head(&w.device, ".entry f() { ret;")
            => Call, ["cuModuleLoadDataEx", "CUDA_ERROR_INVALID_PTX"];
        "Module::load", "a parameter of 2^64 bytes": |w| with_head(&w.device, ".entry f(.param .b8 a[18446744073709551616]) { ret; }")
            => Call, ["cuModuleLoadDataEx", "CUDA_ERROR_INVALID_PTX"];
        "Module::load_image", "what is no image": |w| load_image(&w.device, b"neither PTX nor an image\0")
            => Call, ["cuModuleLoadDataEx", "CUDA_ERROR_INVALID"];
        "Module::load_image", "code for no device here": |w| load_image(&w.device, b"\x7fELF\0")
            => Call, ["cuModuleLoadDataEx", "CUDA_ERROR_NO_BINARY_FOR_GPU"];
        "Module::kernel", "another name": |w| with_head(&w.device, ".entry add() { ret; }")?.kernel("sub")
            => Call, ["cuModuleGetFunction", "kernel sub", "CUDA_ERROR_NOT_FOUND"];
        "Module::kernel", "no name": |w| with_head(&w.device, ".entry add() { ret; }")?.kernel("")
            => Call, ["cuModuleGetFunction", "CUDA_ERROR_NOT_FOUND"];
        "Module::kernel", "a NUL": |w| with_head(&w.device, ".entry add() { ret; }")?.kernel("add\0")
            => InvalidArgument, ["the name of a kernel cannot be \"add\\0\""];
        "Kernel::allow_shared_bytes", "u32::MAX": |w| w.add.0.allow_shared_bytes(u32::MAX)
            => InvalidArgument, ["shared memory of a block in bytes is 4294967295, and the limit is 232448"];
    });
}

fn load_image(device: &Device, image: &[u8]) -> Result<Module> {
    // SAFETY: the text ends with a NUL, and the simulator stops reading there.
    #[allow(unsafe_code, reason = "passes bytes that are not an image")]
    unsafe {
        Module::load_image(device, image)
    }
}
