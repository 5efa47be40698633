//! Status codes. The numbers of the runtime's and the driver's codes agree where both have the code.

/// The result of a call. It is not an enum, because an injected failure may be any number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct Code(pub u32);

macro_rules! codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Code {
            $(pub(crate) const $name: Code = Code($number);)*

            /// The enumerator's name without its `cudaError` or `CUDA_ERROR_` prefix, and its text.
            pub(crate) fn describe(self) -> Option<(&'static str, &'static str)> {
                match self.0 {
                    $($number => Some((stringify!($name), $text)),)*
                    _ => None,
                }
            }

            /// Every code with a name.
            pub(crate) const ALL: &[Code] = &[$(Code::$name),*];
        }
    };
}

codes! {
    SUCCESS = 0, "no error";
    INVALID_VALUE = 1, "invalid argument";
    MEMORY_ALLOCATION = 2, "out of memory";
    INITIALIZATION_ERROR = 3, "initialization error";
    CUDART_UNLOADING = 4, "driver shutting down";
    INVALID_CONFIGURATION = 9, "invalid configuration argument";
    INVALID_PITCH_VALUE = 12, "invalid pitch argument";
    INVALID_SYMBOL = 13, "invalid device symbol";
    INVALID_DEVICE_POINTER = 17, "invalid device pointer";
    INVALID_MEMCPY_DIRECTION = 21, "invalid copy direction for memcpy";
    INSUFFICIENT_DRIVER = 35, "CUDA driver version is insufficient for CUDA runtime version";
    DEVICES_UNAVAILABLE = 46, "all CUDA-capable devices are busy or unavailable";
    INVALID_DEVICE_FUNCTION = 98, "invalid device function";
    NO_DEVICE = 100, "no CUDA-capable device is detected";
    INVALID_DEVICE = 101, "invalid device ordinal";
    INVALID_KERNEL_IMAGE = 200, "device kernel image is invalid";
    DEVICE_UNINITIALIZED = 201, "invalid device context";
    NO_KERNEL_IMAGE_FOR_DEVICE = 209, "no kernel image is available for execution on the device";
    ECC_UNCORRECTABLE = 214, "uncorrectable ECC error encountered";
    UNSUPPORTED_LIMIT = 215, "limit is not supported on this architecture";
    PEER_ACCESS_UNSUPPORTED = 217, "peer access is not supported between these two devices";
    INVALID_PTX = 218, "a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, "the provided PTX was compiled with an unsupported toolchain.";
    INVALID_SOURCE = 300, "device kernel image is invalid";
    FILE_NOT_FOUND = 301, "file not found";
    INVALID_RESOURCE_HANDLE = 400, "invalid resource handle";
    ILLEGAL_STATE = 401, "the operation cannot be performed in the present state";
    SYMBOL_NOT_FOUND = 500, "named symbol not found";
    NOT_READY = 600, "device not ready";
    ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated";
    PEER_ACCESS_ALREADY_ENABLED = 704, "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705, "peer access has not been enabled";
    ASSERT = 710, "device-side assert triggered";
    HOST_MEMORY_ALREADY_REGISTERED = 712, "part or all of the requested memory range is already mapped";
    HOST_MEMORY_NOT_REGISTERED = 713, "pointer does not correspond to a registered memory region";
    HARDWARE_STACK_ERROR = 714, "hardware stack error";
    ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered";
    MISALIGNED_ADDRESS = 716, "misaligned address";
    INVALID_ADDRESS_SPACE = 717, "operation not supported on global/shared address space";
    INVALID_PC = 718, "invalid program counter";
    LAUNCH_FAILURE = 719, "unspecified launch failure";
    NOT_PERMITTED = 800, "operation not permitted";
    NOT_SUPPORTED = 801, "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901, "operation failed due to a previous error during capture";
    STREAM_CAPTURE_MERGE = 902, "operation would result in a merge of separate capture sequences";
    STREAM_CAPTURE_UNMATCHED = 903, "capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED = 904, "capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905, "dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = 906, "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907, "operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = 908, "attempt to terminate a thread-local capture sequence from another thread";
    GRAPH_EXEC_UPDATE_FAILURE = 910, "the graph update was not performed because it included changes which violated constraints specific to instantiated graph update";
    UNKNOWN = 999, "unknown error";
}

impl Code {
    /// Whether the code poisons the context: every later call fails with it. After such an error a program may assume that the device runs
    /// no work, so all work must end.
    pub(crate) fn is_sticky(self) -> bool {
        matches!(
            self.0,
            214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721
        )
    }

    /// Whether the code reports the loss of a device.
    pub(crate) fn is_loss(self) -> bool {
        matches!(self, Code::DEVICES_UNAVAILABLE | Code::NO_DEVICE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hardware_fault_is_sticky_and_a_bad_argument_is_not() {
        assert!(Code::ILLEGAL_ADDRESS.is_sticky());
        assert!(Code::LAUNCH_FAILURE.is_sticky());
        assert!(!Code::INVALID_VALUE.is_sticky());
        assert!(!Code::MEMORY_ALLOCATION.is_sticky());
    }
}
