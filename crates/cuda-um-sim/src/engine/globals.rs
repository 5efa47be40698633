//! The variables of a module: memory of its device that no call allocated.
#![allow(unsafe_code, reason = "kernels get the memory by its address")]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use cuda_um_ptx::Module;

/// The variables of a module.
pub(super) struct Globals {
    memory: Option<(NonNull<u8>, Layout)>,
    /// The address of each variable, in the order of the module.
    pub(super) addresses: Vec<u64>,
}

// SAFETY: the memory belongs to this value; only kernels access it, as the device memory that it is to them.
unsafe impl Send for Globals {}
// SAFETY: as above; this value itself never reads or writes it after its start.
unsafe impl Sync for Globals {}

impl Globals {
    pub(super) fn of(module: &Module) -> Globals {
        let (mut bytes, mut align) = (0, 256);
        let offsets: Vec<_> = module
            .variables()
            .map(|variable| {
                let offset = u64::next_multiple_of(bytes, variable.align.max(1));
                bytes = offset + variable.bytes;
                align = variable.align.max(align);
                offset
            })
            .collect();
        let layout = Layout::from_size_align(bytes as usize, align as usize);
        let memory = layout
            .ok()
            .filter(|layout| layout.size() > 0)
            .map(|layout| {
                // SAFETY: the size is not 0.
                let memory = unsafe { alloc_zeroed(layout) };
                let memory = NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout));
                (memory, layout)
            });
        let base = memory.map_or(0, |(memory, _)| memory.as_ptr() as u64);
        let addresses: Vec<_> = offsets.iter().map(|offset| base + offset).collect();
        for (index, address) in addresses.iter().enumerate() {
            let initial = module.initial_bytes(index, &addresses);
            // SAFETY: the variable has so many bytes in the memory, which nothing else uses yet.
            unsafe {
                std::ptr::copy_nonoverlapping(initial.as_ptr(), *address as *mut u8, initial.len());
            }
        }
        Globals { memory, addresses }
    }

    /// The first address and the size.
    pub(super) fn extent(&self) -> (usize, usize) {
        self.memory.map_or((0, 0), |(memory, layout)| {
            (memory.as_ptr() as usize, layout.size())
        })
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        if let Some((memory, layout)) = self.memory {
            // SAFETY: allocated with this layout.
            unsafe { dealloc(memory.as_ptr(), layout) };
        }
    }
}
