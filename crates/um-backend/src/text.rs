//! Buffers as text.

use std::fmt;

use cuda_um::buffer::first_elements;
use half::{bf16, f16};

use crate::buffer::Buffer;
use crate::dtype::{Bool, Element};
use crate::erased::ErasedBuffer;
use crate::shared::SharedBuffer;

/// The name, the type, the kind of memory, and the first elements: `f32[3] in host memory: [1.0, 2.0, 3.0]`. Waits for work that writes the buffer.
impl<T: Element> fmt::Display for dyn Buffer<T> + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = self.name() {
            write!(f, "`{name}`, ")?;
        }
        let (dtype, len) = (self.dtype(), self.len());
        write!(f, "{dtype}[{len}] in {}: ", self.memory().in_words())?;
        first_elements(f, len, |first| self.copy_to_host_at(0, first))
    }
}

/// As that of a `dyn Buffer`: the name, the type, the kind of memory, and the first elements; the bytes of types that Rust does not have.
impl fmt::Display for ErasedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        macro_rules! of_types {
            ($($element:ty)*) => {
                match self.dtype() {
                    $(<$element>::DTYPE => write!(f, "{}", self.typed::<$element>().map_err(|_| fmt::Error)?),)*
                    other => write!(f, "{other}[{}], {}", self.len(), self.bytes()),
                }
            };
        }
        of_types!(Bool f16 bf16 f32 f64 i8 i16 i32 i64 u8 u16 u32 u64)
    }
}

/// As that of its [`ErasedBuffer`]. Waits for a read guard.
impl fmt::Display for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.read() {
            Ok(guard) => guard.fmt(f),
            Err(error) => write!(f, "{}[{}]: not readable: {error}", self.dtype(), self.len()),
        }
    }
}
