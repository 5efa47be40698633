//! Fills the buffers of vectors and results.
//!
//! Unified memory gets the three-role recipe: queries are read-mostly, targets prefer the device, results are
//! accessed by both; vectors are prefetched. Without hints the CPU writes through the pointer, and the kernel
//! faults its data in.

use um_backend::{Advice, Buffer, CudaError, Element, HintOutcome, Location, UnifiedBuffer};

/// The use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Read by every part of the kernel.
    Queries,
    /// Large, read by the device again and again.
    Targets,
}

impl Role {
    /// The name of the buffer.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queries => "queries",
            Self::Targets => "targets",
        }
    }
}

/// The advice and prefetches that were not applied.
#[derive(Debug, Default)]
pub struct Notes(Vec<String>);

impl Notes {
    pub(crate) fn add(&mut self, outcome: &HintOutcome) {
        let text = outcome.to_string();
        if !outcome.is_applied() && !self.0.contains(&text) {
            self.0.push(text);
        }
    }

    pub(crate) fn add_text(&mut self, text: String) {
        self.0.push(text);
    }

    /// Each of them with its reason.
    pub fn into_vec(self) -> Vec<String> {
        self.0
    }
}

/// Fills a buffer; unified memory with the recipe for its role, or without hints. Without values, the buffer has them.
///
/// # Errors
/// Errors of the buffer.
pub fn place_vectors<T: Element>(
    buffer: &mut dyn Buffer<T>,
    values: Option<&[T]>,
    role: Option<Role>,
    notes: &mut Notes,
) -> Result<(), CudaError> {
    let Some(unified) = buffer.as_any_mut().downcast_mut::<UnifiedBuffer<T>>() else {
        return values.map_or(Ok(()), |values| buffer.copy_from_host(values));
    };
    let Some(role) = role else {
        if let Some(values) = values {
            unified.host_mut()?.copy_from_slice(values);
        }
        return Ok(());
    };
    let here = Location::from(unified.device());
    let stream = unified.device().default_stream()?;
    if role == Role::Targets {
        // Before the copy, which then goes directly to the device.
        notes.add(&unified.advise(Advice::SetPreferredLocation(here))?);
    }
    if let Some(values) = values {
        unified.copy_from_host(values)?;
    }
    if role == Role::Queries {
        // After the copy, because a write discards the duplicates.
        notes.add(&unified.advise(Advice::SetReadMostly)?);
    }
    notes.add(&unified.prefetch_on(here, &stream)?);
    Ok(())
}

/// Prepares a buffer of results. Only unified memory needs it.
///
/// # Errors
/// Errors of the buffer.
pub fn place_results<T: Element>(
    buffer: &mut dyn Buffer<T>,
    notes: &mut Notes,
) -> Result<(), CudaError> {
    let Some(unified) = buffer.as_any_mut().downcast_mut::<UnifiedBuffer<T>>() else {
        return Ok(());
    };
    let here = Location::from(unified.device());
    for location in [here, Location::Host] {
        notes.add(&unified.advise(Advice::SetAccessedBy(location))?);
    }
    Ok(())
}
