//! The last error, and the names and texts of errors.

use super::*;

cases! {
    /// A failure is the thread's last error until cudaGetLastError returns and resets it; peeking does not reset it.
    "errors.last-error" ERROR [cudaGetLastError, cudaPeekAtLastError] |c| {
        c.last_error();
        c.is("before", c.peek_error(), SUCCESS);
        let refused = code_of(&c.set_device(-1));
        c.is("the call", refused, INVALID_DEVICE);
        c.is("peeked", c.peek_error(), refused);
        c.is("peeked again", c.peek_error(), refused);
        c.is("asked", c.last_error(), refused);
        c.is("asked again", c.last_error(), SUCCESS);
    }
    /// A call that succeeds does not reset the last error.
    "errors.success-keeps" ERROR [cudaGetLastError] |c| {
        let _ = c.set_device(-1);
        ok(c.current_device());
        ok(c.set_device(0));
        c.is("asked", c.last_error(), INVALID_DEVICE);
    }
    /// The last error is that of the newest failure.
    "errors.newest-wins" ERROR [cudaGetLastError] |c| {
        let _ = c.set_device(-1);
        let refused = code_of(&c.device_attribute(99_999, 0));
        c.is("the second failure", refused, INVALID_VALUE);
        c.is("asked", c.last_error(), refused);
    }
    /// Each host thread has its own last error.
    "errors.threads-own" ERROR [cudaGetLastError] |c| {
        let _ = c.set_device(-1);
        c.is("in another thread", c.elsewhere(|c| c.last_error()), SUCCESS);
        c.is("in this thread", c.last_error(), INVALID_DEVICE);
    }
    /// After a refused argument and after failed allocations the context can still be used.
    "errors.not-sticky" TYPES [cudaMalloc, cudaGetLastError] |c| {
        let _ = c.set_device(-1);
        let _ = c.device_attribute(99_999, 0);
        c.is("a huge allocation", code_of(&c.malloc(usize::MAX / 2)), OUT_OF_MEMORY);
        let memory = c.device(64 * KIB);
        c.succeeds("cudaMemset", c.memset(&memory, 1, memory.bytes()));
        c.succeeds("cudaDeviceSynchronize", c.synchronize());
        c.is("contents", c.device_value(&memory), 0x0101_0101);
        c.is("the last error is still that of the allocation", c.last_error(), OUT_OF_MEMORY);
    }
    /// An error's name is its enumerator, and an unknown number's is "unrecognized error code".
    "errors.names" ERROR [cudaGetErrorName] |c| {
        for (code, name) in [
            (0, "cudaSuccess"), (1, "cudaErrorInvalidValue"), (2, "cudaErrorMemoryAllocation"),
            (35, "cudaErrorInsufficientDriver"), (100, "cudaErrorNoDevice"),
            (101, "cudaErrorInvalidDevice"), (214, "cudaErrorECCUncorrectable"),
            (600, "cudaErrorNotReady"), (700, "cudaErrorIllegalAddress"),
            (701, "cudaErrorLaunchOutOfResources"), (702, "cudaErrorLaunchTimeout"),
            (710, "cudaErrorAssert"), (712, "cudaErrorHostMemoryAlreadyRegistered"),
            (713, "cudaErrorHostMemoryNotRegistered"), (716, "cudaErrorMisalignedAddress"),
            (719, "cudaErrorLaunchFailure"), (801, "cudaErrorNotSupported"),
            (99_999, "unrecognized error code"),
        ] {
            c.is(code.to_string(), c.error_texts(code).0.as_str(), name);
        }
    }
    /// An error has a text that describes it.
    "errors.texts" ERROR [cudaGetErrorString] |c| {
        for (code, text) in [
            (0, "no error"), (1, "invalid argument"), (2, "out of memory"),
            (101, "invalid device ordinal"), (600, "device not ready"),
            (700, "an illegal memory access was encountered"),
            (99_999, "unrecognized error code"),
        ] {
            c.is(code.to_string(), c.error_texts(code).1.as_str(), text);
        }
    }
    /// The driver names its own errors; for an unknown number it returns null and an invalid value.
    "errors.driver-names" DRIVER_ERROR [cuGetErrorName, cuGetErrorString] |c| {
        for (code, name) in [
            (0, "CUDA_SUCCESS"), (1, "CUDA_ERROR_INVALID_VALUE"), (2, "CUDA_ERROR_OUT_OF_MEMORY"),
            (201, "CUDA_ERROR_INVALID_CONTEXT"), (500, "CUDA_ERROR_NOT_FOUND"),
            (700, "CUDA_ERROR_ILLEGAL_ADDRESS"), (701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"),
            (719, "CUDA_ERROR_LAUNCH_FAILED"),
        ] {
            let (got, found, text) = c.driver_error_texts(code);
            ok(got);
            c.is(code.to_string(), found.as_str(), name);
            c.holds("it has a text", text.len() > 4);
        }
        let (got, name, _) = c.driver_error_texts(99_999);
        c.gives("cuGetErrorName(99999)", got, INVALID_VALUE);
        c.is("its name", name.as_str(), "(null)");
    }
    /// A failure of a driver function does not become the runtime's last error.
    "errors.driver-failures" ERROR [cuModuleGetFunction, cudaPeekAtLastError] |c| {
        c.last_error();
        let module = ok(c.module_load(crate::kernels::PTX));
        let code = c.module_function(module, c"no_such_kernel");
        let peeked = c.peek_error();
        ok(c.module_unload(module));
        c.gives("cuModuleGetFunction", code, NOT_FOUND);
        c.is("the runtime's last error", peeked, SUCCESS);
    }
}
