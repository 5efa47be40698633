//! A kernel that runs until the test lets it end.

use cuda_um::{Device, Kernel, LaunchConfig, Module, PinnedBuffer, Stream, kernel::KernelArg};
use std::sync::atomic::{AtomicU32, Ordering};

/// The kernel of `told.ptx`. The library does not know of its words, so they live as long as this value.
pub struct Told {
    kernel: Kernel,
    words: PinnedBuffer<u32>,
}

impl Told {
    pub fn load(device: &Device) -> Self {
        let module = Module::load(device, include_str!("told.ptx")).unwrap();
        Self {
            kernel: module.kernel("until_told").unwrap(),
            words: PinnedBuffer::zeroed(device, 2).unwrap(),
        }
    }

    /// Launches it with a buffer that it uses as far as the library knows.
    pub fn launch(&self, stream: &Stream, beside: impl KernelArg) {
        let arguments = (beside, self.words.as_ptr() as u64);
        // SAFETY: the kernel uses only the words.
        #[allow(unsafe_code, reason = "launches the kernel of told.ptx")]
        unsafe {
            self.kernel
                .launch(stream, LaunchConfig::linear(1, 1), arguments)
        }
        .unwrap();
    }

    /// Lets it end.
    pub fn tell(&self) {
        self.word(0).store(1, Ordering::Release);
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.word(1).load(Ordering::Acquire) != 0
    }

    #[allow(unsafe_code, reason = "host and kernel use the words at the same time")]
    fn word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: an aligned word of pinned memory that lives as long as this value; both sides access it in whole.
        unsafe { AtomicU32::from_ptr(self.words.as_ptr().add(index).cast_mut()) }
    }
}
