//! Libraries beside the runtime, which are opened only if they are used: CUPTI and NCCL.

use crate::Attempt;
use crate::loader::reason;
use crate::variable::{RELATIVE, depends_on_folder};
use libloading::Library;
use std::ffi::{CStr, OsString, c_void};
use std::path::{Path, PathBuf};

/// A library: the struct of its functions, which it derefs to, and the error of opening it. A function without a result returns `$code`.
macro_rules! library {
    (
        $name:literal in $variable:literal from $since:literal;
        $(#[$doc:meta])* $library:ident: $functions:ident, $error:ident;
        $(#[$found_doc:meta])* found: $number:ty = $get:ident() >= $oldest:literal;
        $(#[$version_doc:meta])* version;
        functions return $code:ident;
        $($(#[$function_doc:meta])* $function:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;)*
    ) => {
        /// The functions of the library, each under its C name.
        #[derive(Clone, Copy, Debug)]
        #[allow(non_snake_case, reason = "C names")]
        pub struct $functions {
            $(
                $(#[$function_doc])*
                pub $function: unsafe extern "C" fn($($argument: $type),*) -> $crate::optional::result!($code $(, $result)?),
            )*
        }

        /// The functions that a resolver found.
        #[derive(Clone, Copy)]
        #[allow(non_snake_case, reason = "C names")]
        pub(crate) struct Found {
            $($function: Option<unsafe extern "C" fn($($argument: $type),*) -> $crate::optional::result!($code $(, $result)?)>,)*
        }

        impl Found {
            /// # Safety
            /// Every address is null, or a function with the signature and the behaviour that the library documents for its name.
            pub(crate) unsafe fn ask(resolve: $crate::symbols::Resolve<'_>) -> Self {
                let mut address = |name| resolve($crate::optional::name(name));
                Self {
                    // SAFETY: required of the caller; the field has the type of this name.
                    $($function: unsafe { $crate::symbols::function(address(concat!(stringify!($function), "\0"))) },)*
                }
            }
        }

        #[doc = concat!("The reason why ", $name, " cannot be used.")]
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $error {
            /// No library could be opened. The list has every attempt; it is empty if the table was filled without the library.
            NotFound {
                /// The attempts, in order.
                attempts: Vec<$crate::Attempt>,
            },
            /// The library lacks a function.
            MissingSymbol {
                /// The C name.
                symbol: String,
            },
            /// The library is too old.
            UnsupportedVersion {
                $(#[$found_doc])*
                found: $number,
                /// The oldest supported version.
                oldest: $number,
            },
        }

        impl std::fmt::Display for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    Self::NotFound { attempts } if attempts.is_empty() => {
                        f.write_str(concat!("the CUDA runtime in use has no ", $name))
                    }
                    Self::NotFound { attempts } => {
                        f.write_str(concat!("no ", $name, " found (set ", $variable, " to its path); tried"))?;
                        $crate::optional::write_attempts(f, attempts)
                    }
                    Self::MissingSymbol { symbol } => {
                        write!(f, concat!($name, " lacks {}, which every version from ", $since, " on has"), symbol)
                    }
                    Self::UnsupportedVersion { found, oldest } => write!(
                        f,
                        concat!($name, " reports version {}; {} (", $since, ") is the oldest supported version"),
                        found, oldest
                    ),
                }
            }
        }

        impl std::error::Error for $error {}

        $(#[$doc])*
        pub struct $library {
            functions: $functions,
            version: $number,
            /// Keeps the functions alive; a real library is never unloaded.
            #[allow(dead_code, reason = "is dropped with the functions")]
            owner: Option<std::sync::Arc<dyn std::any::Any + Send + Sync>>,
        }

        impl $library {
            /// # Safety
            /// The functions may be called from any thread for as long as `owner` lives.
            pub(crate) unsafe fn new(
                found: &Found,
                owner: Option<std::sync::Arc<dyn std::any::Any + Send + Sync>>,
            ) -> Result<Self, $error> {
                if [$(found.$function.is_none()),*].iter().all(|is_none| *is_none) {
                    return Err($error::NotFound { attempts: Vec::new() });
                }
                // The version first: it explains a function that is missing.
                let mut version = 0;
                // SAFETY: the place is valid for the call.
                let code = found.$get.map(|get| unsafe { get(&mut version) });
                if code.is_some_and(|code| code != $code(0) || version < $oldest) {
                    return Err($error::UnsupportedVersion { found: version, oldest: $oldest });
                }
                let missing = |symbol: &str| $error::MissingSymbol { symbol: symbol.to_owned() };
                let functions = $functions {
                    $($function: found.$function.ok_or_else(|| missing(stringify!($function)))?,)*
                };
                Ok(Self { functions, version, owner })
            }

            /// Opens the file that the variable names (a trusted path), or the first one that can be used: the name for the system's loader,
            /// or a file of this name in these folders of the toolkits. Otherwise the error of one that was found, which is more useful
            /// than those of missing ones, or all attempts.
            fn open(name: &str, folders: &[&str]) -> Result<Self, $error> {
                let named = $crate::variable($variable);
                let paths = $crate::optional::candidates(named, name, folders, &$crate::loader::toolkits());
                let (mut attempts, mut unfit) = (Vec::new(), None);
                for path in paths {
                    let path = match path {
                        Ok(path) => path,
                        Err(attempt) => {
                            attempts.push(attempt);
                            continue;
                        }
                    };
                    // SAFETY: the name is that of NVIDIA's library, or a path that the user trusts: it has the documented functions, and stays
                    // loaded.
                    let opened = unsafe {
                        $crate::optional::open_at(&path)
                            .map(|mut resolve| Self::new(&Found::ask(&mut resolve), None))
                    };
                    match opened {
                        Ok(Ok(library)) => return Ok(library),
                        Ok(Err(error)) => unfit = unfit.or(Some(error)),
                        Err(attempt) => attempts.push(attempt),
                    }
                }
                Err(unfit.unwrap_or($error::NotFound { attempts }))
            }

            $(#[$version_doc])*
            pub fn version(&self) -> $number {
                self.version
            }
        }

        impl std::ops::Deref for $library {
            type Target = $functions;

            fn deref(&self) -> &$functions {
                &self.functions
            }
        }

        impl std::fmt::Debug for $library {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($library))
                    .field("version", &self.version)
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(crate) use library;

/// The result of a function, if it is not the library's code.
macro_rules! result {
    ($code:ty) => {
        $code
    };
    ($code:ty, $result:ty) => {
        $result
    };
}
pub(crate) use result;

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
                    match self.0 {
                        $($value => Some(stringify!($name)),)*
                        _ => None,
                    }
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

/// The paths of a library: `named` alone, or else the name for the system's loader, and the files of this name in these folders of the toolkits.
/// A name with `*` is that of files only. An error for a relative path.
pub(crate) fn candidates(
    named: Option<OsString>,
    name: &str,
    folders: &[&str],
    toolkits: &[PathBuf],
) -> Vec<Result<PathBuf, Attempt>> {
    let checked = |path: PathBuf| match depends_on_folder(&path) {
        false => Ok(path),
        true => Err(Attempt {
            library: path.display().to_string(),
            reason: RELATIVE.to_owned(),
        }),
    };
    if let Some(named) = named {
        return vec![checked(named.into())];
    }
    let folders = toolkits
        .iter()
        .flat_map(|toolkit| folders.iter().map(|folder| toolkit.join(folder)));
    let by_name = Some(PathBuf::from(name)).filter(|_| !name.contains('*'));
    by_name
        .into_iter()
        .chain(folders.flat_map(|folder| files(&folder, name)))
        .map(checked)
        .collect()
}

/// The file of this name in a folder, or those that match it, in descending order.
fn files(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Some((begin, end)) = name.split_once('*') else {
        return Vec::from_iter(Some(folder.join(name)).filter(|path| path.is_file()));
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    names.retain(|name| {
        let name = name.to_string_lossy();
        name.starts_with(begin) && name.ends_with(end)
    });
    names.sort_unstable_by(|a, b| b.cmp(a));
    names.into_iter().map(|name| folder.join(name)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_candidate_and_the_current_folder_names_none() {
        let named = |name: &str| candidates(Some(name.into()), "lib.so.2", &[], &[]);
        assert_eq!(named("/x/lib.so"), [Ok(PathBuf::from("/x/lib.so"))]);
        assert_eq!(named("lib.so"), [Ok(PathBuf::from("lib.so"))]);
        let refused = named("./lib.so").remove(0).unwrap_err();
        assert!(refused.reason.contains("relative"), "{refused:?}");
    }

    #[test]
    fn a_folder_has_the_releases_for_windows() {
        let folder = std::env::temp_dir().join(format!("cuda-um-sys-cupti-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        for name in [
            "cupti64_2022.3.0.dll",
            "cupti64_2025.3.1.dll",
            "cupti.lib",
            "nvperf_host.dll",
        ] {
            std::fs::write(folder.join("bin").join(name), "").unwrap();
        }
        let newest_first = ["cupti64_2025.3.1.dll", "cupti64_2022.3.0.dll"];
        let newest_first = newest_first.map(|name| Ok(folder.join("bin").join(name)));
        let toolkits = [folder.clone()];
        let found = |name| candidates(None, name, &["lib64", "bin"], &toolkits);
        assert_eq!(found("cupti64_*.dll"), newest_first);
        let by_name = PathBuf::from("cupti.lib");
        let file = folder.join("bin/cupti.lib");
        assert_eq!(found("cupti.lib"), [Ok(by_name), Ok(file)]);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_was_tried_is_told() {
        // SAFETY: there is no such library, so none is loaded.
        let attempt = unsafe { open_at(Path::new("/nowhere/libnccl.so.2")) }
            .err()
            .unwrap();
        assert!(attempt.reason.contains("No such file"), "{attempt:?}");
        let attempts = vec![attempt];
        let text = crate::NcclError::NotFound { attempts }.to_string();
        assert!(text.contains("CUDA_UM_NCCL"), "{text}");
        assert!(text.contains("/nowhere/libnccl.so.2: "), "{text}");
    }
}
