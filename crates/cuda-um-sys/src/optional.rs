//! Libraries beside the runtime, which are opened only if they are used: CUPTI and NCCL.

use crate::Attempt;
use crate::loader::reason;
use libloading::Library;
use std::ffi::{CStr, c_void};
use std::path::Path;

/// The functions of a library: a struct with a field for each, and the addresses that fill it.
macro_rules! functions {
    ($functions:ident, $error:ident; $($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// The functions of the library, each under its C name.
        #[derive(Clone, Copy, Debug)]
        #[allow(non_snake_case, reason = "C names")]
        pub struct $functions {
            $($(#[$doc])* pub $name: $type,)*
        }

        /// The addresses of the functions, as returned by a resolver.
        #[derive(Clone, Copy)]
        #[allow(non_snake_case, reason = "C names")]
        pub(crate) struct Addresses {
            $($name: *const std::ffi::c_void,)*
        }

        impl Addresses {
            pub(crate) fn ask(resolve: $crate::symbols::Resolve<'_>) -> Self {
                Self { $($name: resolve($crate::optional::name(concat!(stringify!($name), "\0"))),)* }
            }

            fn is_empty(&self) -> bool {
                [$(self.$name,)*].iter().all(|address| address.is_null())
            }

            /// # Safety
            /// Every address is null, or a function with the signature that the library documents for its name.
            unsafe fn functions(&self) -> Result<$functions, $error> {
                let missing = |symbol: &str| $error::MissingSymbol { symbol: symbol.to_owned() };
                Ok($functions {
                    // SAFETY: required of the caller; the field has the type of this name.
                    $($name: unsafe { $crate::symbols::function::<$type>(self.$name) }.ok_or_else(|| missing(stringify!($name)))?,)*
                })
            }
        }

        // SAFETY: the addresses of functions are only converted to functions.
        unsafe impl Send for Addresses {}
        // SAFETY: as above.
        unsafe impl Sync for Addresses {}
    };
}
pub(crate) use functions;

/// C enumerations, as newtypes over integers: a later version may return other numbers.
macro_rules! numbers {
    ($all:ident; $($(#[$doc:meta])* $type:ident { $($name:ident = $value:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[repr(transparent)]
            #[derive(Clone, Copy, PartialEq, Eq, Hash)]
            pub struct $type(pub u32);

            impl $type {
                $(pub const $name: Self = Self($value);)*

                /// The C name; `None` for a number of a later version.
                pub fn name(self) -> Option<&'static str> {
                    let names = [$((stringify!($name), $value),)*];
                    names.into_iter().find(|(_, value)| *value == self.0).map(|(name, _)| name)
                }
            }

            impl std::fmt::Debug for $type {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    match self.name() {
                        Some(name) => f.write_str(name),
                        None => write!(f, "{}({})", stringify!($type), self.0),
                    }
                }
            }
        )*

        /// Every number with its C name, for the comparison with the headers.
        #[doc(hidden)]
        pub const $all: &[(&str, u32)] = &[$($((stringify!($name), $value),)*)*];
    };
}
pub(crate) use numbers;

/// A name that ends with a NUL.
pub(crate) fn name(text: &'static str) -> &'static CStr {
    CStr::from_bytes_with_nul(text.as_bytes()).expect("one NUL, at the end")
}

/// Opens a library, which is never unloaded: such libraries have threads and callbacks. Returns what finds its symbols; null for one that is
/// absent.
///
/// # Safety
/// The initialisers of the library, which run now, are sound to run in this process.
pub(crate) unsafe fn open_at(
    path: &Path,
) -> Result<impl FnMut(&CStr) -> *const c_void + use<>, Attempt> {
    // SAFETY: required of the caller.
    let library = unsafe { Library::new(path) }.map_err(|error| Attempt {
        library: path.display().to_string(),
        reason: reason(&error),
    })?;
    let library = std::mem::ManuallyDrop::new(library);
    Ok(move |name: &CStr| {
        // SAFETY: the address is not used here; the table gives it its type.
        let found = unsafe { library.get::<*const c_void>(name.to_bytes_with_nul()) };
        found.map_or(std::ptr::null(), |symbol| *symbol)
    })
}

/// The first library of these paths that can be used. Otherwise the error of one that was found, which is more useful than those of missing ones, or
/// all attempts.
pub(crate) fn first<T, E>(
    paths: impl IntoIterator<Item = impl AsRef<Path>>,
    open: impl Fn(&Path) -> Result<Result<T, E>, Attempt>,
) -> Result<T, Result<E, Vec<Attempt>>> {
    let (mut attempts, mut unfit) = (Vec::new(), None);
    for path in paths {
        match open(path.as_ref()) {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => unfit = unfit.or(Some(error)),
            Err(attempt) => attempts.push(attempt),
        }
    }
    Err(unfit.ok_or(attempts))
}

/// The text of a list of attempts, after what was looked for.
pub(crate) fn write_attempts(
    f: &mut std::fmt::Formatter<'_>,
    attempts: &[Attempt],
) -> std::fmt::Result {
    for (index, attempt) in attempts.iter().enumerate() {
        let separator = if index == 0 { "" } else { ";" };
        write!(f, "{separator} {}: {}", attempt.library, attempt.reason)?;
    }
    Ok(())
}
