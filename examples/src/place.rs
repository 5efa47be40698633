//! Puts the vectors where a buffer implementation wants them.
//!
//! Unified memory gets the three-role recipe: queries are read-mostly, targets prefer the device, results are
//! accessed by both; vectors are prefetched. Without hints the CPU writes through the pointer, and the kernel
//! faults what it needs in.

use um_backend::{Buffer, CudaError, Element, MemoryAdvice, Placement, UnifiedBuffer};

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read by every part of the kernel.
    Queries,
    /// Large, read by the device again and again.
    Targets,
}

/// Where the two halves of the recipe note what did not apply.
#[derive(Debug, Default)]
pub struct Notes(Vec<String>);

impl Notes {
    fn add(&mut self, placement: &Placement) {
        let text = placement.to_string();
        if !placement.is_applied() && !self.0.contains(&text) {
            self.0.push(text);
        }
    }

    /// What did not apply, and why.
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}

/// Fills a buffer; unified memory with the recipe for its role, or with no hints at all.
///
/// # Errors
/// What the buffer reports.
pub fn place_vectors<T: Element>(
    buffer: &mut dyn Buffer<T>,
    values: &[T],
    role: Option<Role>,
    notes: &mut Notes,
) -> Result<(), CudaError> {
    let Some(unified) = buffer.as_any_mut().downcast_mut::<UnifiedBuffer<T>>() else {
        return buffer.copy_from_host(values);
    };
    let Some(role) = role else {
        unified.as_slice_mut()?.copy_from_slice(values);
        return Ok(());
    };
    if role == Role::Targets {
        // Before the copy: it then goes straight there.
        notes.add(&unified.set_preferred_location(0)?);
    }
    unified.copy_from_host(values)?;
    if role == Role::Queries {
        // After the copy: a write would end the duplicates.
        notes.add(&unified.set_memory_advice(MemoryAdvice::SetReadMostly, None)?);
    }
    notes.add(&unified.prefetch_to_device(None)?);
    Ok(())
}

/// Prepares a buffer of results; only unified memory needs it.
///
/// # Errors
/// What the buffer reports.
pub fn place_results<T: Element>(
    buffer: &mut dyn Buffer<T>,
    notes: &mut Notes,
) -> Result<(), CudaError> {
    let Some(unified) = buffer.as_any_mut().downcast_mut::<UnifiedBuffer<T>>() else {
        return Ok(());
    };
    notes.add(&unified.set_accessed_by(0)?);
    notes.add(&unified.set_memory_advice(MemoryAdvice::SetAccessedBy, None)?);
    Ok(())
}
