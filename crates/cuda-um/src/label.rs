//! The names of buffers in errors, events and traces.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// `Debug` for a type, by the values of some of its fields.
macro_rules! debug {
    ([$($generics:tt)*] $of:ty, $name:expr, |$it:ident| $($field:ident: $value:expr),*) => {
        impl<$($generics)*> std::fmt::Debug for $of {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $it = self;
                f.debug_struct($name)
                    $(.field(stringify!($field), &$value))*
                    .finish_non_exhaustive()
            }
        }
    };
}

/// The properties of a buffer that are fixed when it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    /// The type of the buffer (`"UnifiedBuffer"`), and the name and the size of the element type. A function, because labels are copied.
    of: fn() -> (&'static str, &'static str, usize),
    /// The caller that made the buffer; `None` for slabs.
    pub(crate) site: Option<&'static Location<'static>>,
}

impl Label {
    pub(crate) fn new(
        of: fn() -> (&'static str, &'static str, usize),
        site: &'static Location<'static>,
    ) -> Self {
        let site = Some(site);
        Self { of, site }
    }

    pub(crate) fn slab() -> Self {
        Self {
            of: || ("slab", "u8", 1),
            site: None,
        }
    }

    pub(crate) fn element_bytes(&self) -> usize {
        (self.of)().2
    }

    /// `UnifiedBuffer<f32>[1024]`
    pub(crate) fn describe(&self, bytes: usize) -> String {
        // `MaybeUninit<T>` is shown as `T`: the elements will be initialised.
        let (what, element, element_bytes) = (self.of)();
        let inner = element
            .split_once("MaybeUninit<")
            .map_or(element, |(_, inner)| inner.trim_end_matches('>'));
        let element = inner.rsplit("::").next().unwrap_or(inner);
        let len = bytes / element_bytes.max(1);
        format!("{what}<{element}>[{len}]")
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
