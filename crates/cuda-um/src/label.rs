//! The names of buffers in errors, events and traces.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// The properties of a buffer that are fixed when it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// The type of the buffer: `"UnifiedBuffer"`.
    pub(crate) what: &'static str,
    /// The name of the element type.
    pub(crate) element: &'static str,
    pub(crate) element_bytes: usize,
    /// The caller that made the buffer; `None` for slabs.
    pub(crate) site: Option<&'static Location<'static>>,
}

impl Label {
    /// The label of a buffer of `T`.
    pub(crate) fn of<T>(what: &'static str, site: &'static Location<'static>) -> Self {
        Self {
            what,
            element: std::any::type_name::<T>(),
            element_bytes: size_of::<T>(),
            site: Some(site),
        }
    }

    /// The label of a pool's slab.
    pub(crate) fn slab() -> Self {
        Self {
            what: "slab",
            element: "u8",
            element_bytes: 1,
            site: None,
        }
    }

    /// `UnifiedBuffer<f32>[1024]`
    pub(crate) fn describe(&self, bytes: usize) -> String {
        // `MaybeUninit<T>` is shown as `T`: the elements will be initialised.
        let inner = self
            .element
            .split_once("MaybeUninit<")
            .map_or(self.element, |(_, inner)| inner.trim_end_matches('>'));
        let element = inner.rsplit("::").next().unwrap_or(inner);
        let len = bytes / self.element_bytes.max(1);
        format!("{}<{element}>[{len}]", self.what)
    }
}

/// A buffer in an error: its name, or its type and the caller that made it.
#[derive(Clone, Default)]
pub(crate) struct Title {
    pub(crate) buffer: u64,
    pub(crate) bytes: usize,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) label: Option<Label>,
}

impl fmt::Display for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "buffer {}", self.buffer)?;
        if let Some(name) = &self.name {
            return write!(f, " `{name}`");
        }
        let Some(label) = &self.label else {
            return Ok(());
        };
        write!(f, " ({}", label.describe(self.bytes))?;
        if let Some(site) = label.site {
            write!(f, " of {}:{}", site.file(), site.line())?;
        }
        f.write_str(")")
    }
}
