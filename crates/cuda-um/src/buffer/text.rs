//! Buffers as text.

use crate::DeviceCopy;
use crate::buffer::kind::{Kind, Owned};
use crate::buffer::memory::Memory;
use crate::error::Result;
use std::fmt;

/// No elements: a log of an error neither waits for the GPU nor moves memory.
impl<T, K: Kind> fmt::Debug for Memory<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(&Self::label().describe(self.size_bytes()))
            .field("id", &self.id())
            .field("name", &self.name())
            .field("size_bytes", &self.size_bytes())
            .field("kind", &self.raw.kind())
            .field("device", &self.device().ordinal())
            .finish()
    }
}

/// The name, the type, the kind of memory, and the first elements: `UnifiedBuffer<f32>[3] in managed memory: [1.0, 2.0, 3.0]`. Waits for work
/// that writes the buffer.
impl<T: DeviceCopy + fmt::Debug, K: Kind> fmt::Display for Memory<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            write!(f, "`{name}`, ")?;
        }
        write!(
            f,
            "{} in {}: ",
            Self::label().describe(self.size_bytes()),
            self.raw.kind()
        )?;
        first_elements(f, self.len(), |first| self.copy_to_host_at(0, first))
    }
}

/// Writes the first of `len` elements. Not part of the public interface: um-backend uses it.
#[doc(hidden)]
pub fn first_elements<T: DeviceCopy + fmt::Debug>(
    f: &mut fmt::Formatter<'_>,
    len: usize,
    read: impl FnOnce(&mut [T]) -> Result<()>,
) -> fmt::Result {
    let mut first = [T::zeroed(); 8];
    let first = &mut first[..len.min(8)];
    if let Err(error) = read(first) {
        return write!(f, "not readable: {error}");
    }
    let mut list = f.debug_list();
    list.entries(&*first);
    match len > first.len() {
        true => list.finish_non_exhaustive(),
        false => list.finish(),
    }
}

/// What a call of `clone` on a buffer needs, and no buffer has.
#[diagnostic::on_unimplemented(
    message = "a buffer has no `clone`, because a copy may fail",
    label = "call `try_clone`",
    note = "`buffer.try_clone()?` allocates a copy; an `Arc` of the buffer, or `SharedBuffer` of um-backend, shares the memory"
)]
pub trait CloneWithoutError {}

impl<T, K: Owned> Memory<T, K> {
    /// Only for its message: without it, the compiler proposes `close`.
    #[doc(hidden)]
    #[allow(clippy::should_implement_trait, reason = "a copy may fail")]
    pub fn clone(&self) -> Self
    where
        Self: CloneWithoutError,
    {
        unreachable!("no buffer implements the trait")
    }
}
