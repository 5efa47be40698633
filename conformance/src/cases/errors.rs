//! The last error, and the names and texts of errors.

use super::prelude::*;

pub(super) const CASES: &[Case] = cases! {
    "errors.last-error" (last_error):
        "A failure is the thread's last error until cudaGetLastError returns and resets it; peeking does not reset it.",
        sources::ERROR, &["cudaGetLastError", "cudaPeekAtLastError"];
    "errors.success-keeps" (success_keeps):
        "A call that succeeds does not reset the last error.",
        sources::ERROR, &["cudaGetLastError"];
    "errors.newest-wins" (newest_wins):
        "The last error is that of the newest failure.",
        sources::ERROR, &["cudaGetLastError"];
    "errors.threads-own" (threads_own):
        "Each host thread has its own last error.",
        sources::ERROR, &["cudaGetLastError"];
    "errors.not-sticky" (not_sticky):
        "After a refused argument and after failed allocations the context can still be used.",
        sources::TYPES, &["cudaMalloc", "cudaGetLastError"];
    "errors.names" (names):
        "An error's name is its enumerator, and an unknown number's is \"unrecognized error code\".",
        sources::ERROR, &["cudaGetErrorName"];
    "errors.texts" (texts):
        "An error has a text that describes it.",
        sources::ERROR, &["cudaGetErrorString"];
    "errors.driver-names" (driver_names):
        "The driver names its own errors; for an unknown number it returns null and an invalid value.",
        sources::DRIVER_ERROR, &["cuGetErrorName", "cuGetErrorString"];
    "errors.driver-failures" (driver_failures):
        "A failure of a driver function does not become the runtime's last error.",
        sources::ERROR, &["cuModuleGetFunction", "cudaPeekAtLastError"];
};

fn last_error(c: &Cuda<'_>) -> Verdict {
    c.last_error();
    c.is("before", c.peek_error(), Code::SUCCESS)?;
    let refused = c.set_device(-1);
    c.is("the call", refused, Code::INVALID_DEVICE)?;
    c.is("peeked", c.peek_error(), refused)?;
    c.is("peeked again", c.peek_error(), refused)?;
    c.is("asked", c.last_error(), refused)?;
    c.is("asked again", c.last_error(), Code::SUCCESS)
}

fn success_keeps(c: &Cuda<'_>) -> Verdict {
    c.set_device(-1);
    c.ok("cudaGetDevice", c.current_device().map(|_| Code::SUCCESS)?)?;
    c.ok("cudaSetDevice", c.set_device(0))?;
    c.is("asked", c.last_error(), Code::INVALID_DEVICE)
}

fn newest_wins(c: &Cuda<'_>) -> Verdict {
    c.set_device(-1);
    let (refused, _) = c.try_attribute(99_999, 0);
    c.is("the second failure", refused, Code::INVALID_VALUE)?;
    c.is("asked", c.last_error(), refused)
}

fn threads_own(c: &Cuda<'_>) -> Verdict {
    c.set_device(-1);
    let machine = c.machine;
    let there = std::thread::scope(|scope| {
        let thread = scope.spawn(|| Cuda::new(machine).last_error());
        thread
            .join()
            .map_err(|_| Failure("the thread panicked".to_owned()))
    })?;
    c.is("in another thread", there, Code::SUCCESS)?;
    c.is("in this thread", c.last_error(), Code::INVALID_DEVICE)
}

fn not_sticky(c: &Cuda<'_>) -> Verdict {
    c.set_device(-1);
    c.try_attribute(99_999, 0);
    let (code, _) = c.try_device(usize::MAX / 2);
    c.is("a huge allocation", code, Code::OUT_OF_MEMORY)?;
    let memory = c.device_memory(64 * KIB)?;
    c.succeeds("cudaMemset", c.set(&memory, 1, memory.bytes()))?;
    c.succeeds("cudaDeviceSynchronize", c.synchronize())?;
    c.is("contents", c.device_value(&memory)?, 0x0101_0101)?;
    c.is(
        "the last error is still that of the allocation",
        c.last_error(),
        Code::OUT_OF_MEMORY,
    )
}

fn names(c: &Cuda<'_>) -> Verdict {
    for (code, name) in [
        (0, "cudaSuccess"),
        (1, "cudaErrorInvalidValue"),
        (2, "cudaErrorMemoryAllocation"),
        (35, "cudaErrorInsufficientDriver"),
        (100, "cudaErrorNoDevice"),
        (101, "cudaErrorInvalidDevice"),
        (214, "cudaErrorECCUncorrectable"),
        (600, "cudaErrorNotReady"),
        (700, "cudaErrorIllegalAddress"),
        (701, "cudaErrorLaunchOutOfResources"),
        (702, "cudaErrorLaunchTimeout"),
        (710, "cudaErrorAssert"),
        (712, "cudaErrorHostMemoryAlreadyRegistered"),
        (713, "cudaErrorHostMemoryNotRegistered"),
        (716, "cudaErrorMisalignedAddress"),
        (719, "cudaErrorLaunchFailure"),
        (801, "cudaErrorNotSupported"),
        (99_999, "unrecognized error code"),
    ] {
        c.is(&code.to_string(), c.error_name(Code(code)).as_str(), name)?;
    }
    Ok(())
}

fn texts(c: &Cuda<'_>) -> Verdict {
    for (code, text) in [
        (0, "no error"),
        (1, "invalid argument"),
        (2, "out of memory"),
        (101, "invalid device ordinal"),
        (600, "device not ready"),
        (700, "an illegal memory access was encountered"),
        (99_999, "unrecognized error code"),
    ] {
        c.is(&code.to_string(), c.error_string(Code(code)).as_str(), text)?;
    }
    Ok(())
}

fn driver_names(c: &Cuda<'_>) -> Verdict {
    for (code, name) in [
        (0, "CUDA_SUCCESS"),
        (1, "CUDA_ERROR_INVALID_VALUE"),
        (2, "CUDA_ERROR_OUT_OF_MEMORY"),
        (201, "CUDA_ERROR_INVALID_CONTEXT"),
        (500, "CUDA_ERROR_NOT_FOUND"),
        (700, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        (701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
        (719, "CUDA_ERROR_LAUNCH_FAILED"),
    ] {
        let (got, found) = c.driver_error_name(Code(code))?;
        c.ok("cuGetErrorName", got)?;
        c.is(&code.to_string(), found.as_str(), name)?;
        let (got, text) = c.driver_error_string(Code(code))?;
        c.ok("cuGetErrorString", got)?;
        c.holds("it has a text", text.len() > 4)?;
    }
    let (got, name) = c.driver_error_name(Code(99_999))?;
    c.gives("cuGetErrorName(99999)", got, Code::INVALID_VALUE)?;
    c.is("its name", name.as_str(), "(null)")
}

fn driver_failures(c: &Cuda<'_>) -> Verdict {
    c.last_error();
    let (code, module) = c.load_module(crate::kernels::PTX)?;
    c.ok("cuModuleLoadData", code)?;
    let code = c.module_function(module, c"no_such_kernel")?;
    let peeked = c.peek_error();
    c.ok("cuModuleUnload", c.unload_module(module)?)?;
    c.gives("cuModuleGetFunction", code, Code::NOT_FOUND)?;
    c.is("the runtime's last error", peeked, Code::SUCCESS)
}
