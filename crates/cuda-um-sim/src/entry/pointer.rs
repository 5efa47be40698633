//! Pointers as C passes them.
//!
//! The signatures of the entry points have these types in place of raw pointers. A value exists only if C calls such a function, which is
//! `unsafe`: the caller vouches for the properties that CUDA documents of that argument.
// Only this file reads and writes through the caller's pointers.
#![allow(unsafe_code)]

use cuda_um_sys::DeclaredArgument;
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;

use crate::engine::{
    Code, FAT_BINARY, FAT_BINARY_HEADER, FAT_BINARY_WRAPPER, HostWork, NATIVE, Parameter,
};

/// The address for a result; null is an invalid value.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    pub(crate) const NULL: Out<T> = Out(std::ptr::null_mut());

    /// The address of a value of this crate.
    pub(crate) fn of(value: &mut T) -> Out<T> {
        Out(value)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes the result.
    pub(crate) fn put(self, value: T) -> Result<(), Code> {
        self.put_at(0, value)
    }

    /// Writes an element of an array of results.
    pub(crate) fn put_at(self, index: usize, value: T) -> Result<(), Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller of the entry point vouches for a writable `T` there, or for as many as it
        // said the array has.
        unsafe { self.0.add(index).write_unaligned(value) };
        Ok(())
    }

    /// Reads the value at the address.
    pub(crate) fn get(self) -> Result<T, Code>
    where
        T: Copy,
    {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller of the entry point vouches for a readable `T` there.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The address after the value, in a struct of the caller.
    pub(crate) fn after(self) -> Self {
        Out(self.0.wrapping_add(1))
    }

    /// The same address with another type, for arguments whose type depends on another argument.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }
}

/// An array of the caller.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Array<T>(*const T);

impl<T: Copy> Array<T> {
    /// The array at an address.
    pub(crate) fn at(address: usize) -> Array<T> {
        Array(std::ptr::with_exposed_provenance(address))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Copies `len` elements.
    pub(crate) fn to_vec(self, len: usize) -> Result<Vec<T>, Code> {
        if len == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller of the entry point vouches for `len` readable elements there.
        Ok((0..len)
            .map(|index| unsafe { self.0.add(index).read_unaligned() })
            .collect())
    }
}

/// A NUL-terminated text.
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn get(&self) -> Result<&CStr, Code> {
        if self.0.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        // SAFETY: not null, and the caller of the entry point vouches for a NUL-terminated text that lives as long as
        // the call, as this value does.
        Ok(unsafe { CStr::from_ptr(self.0) })
    }

    /// The name of a file: bytes on Linux.
    pub(crate) fn path(&self) -> Result<PathBuf, Code> {
        let name = self.get()?;
        #[cfg(unix)]
        let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name.to_bytes());
        #[cfg(not(unix))]
        let path = name.to_string_lossy().into_owned();
        Ok(path.into())
    }
}

/// The image of a module: a text that ends with NUL, native code, or a fat binary.
#[repr(transparent)]
pub(crate) struct Image(*const u8);

impl Image {
    /// Copies the image; of native code the first bytes.
    pub(crate) fn get(&self) -> Result<Vec<u8>, Code> {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let text = Text(self.0.cast());
        let text = text.get()?.to_bytes();
        if text.len() < 4 || text.starts_with(NATIVE) {
            return Ok(text.to_vec());
        }
        if text.starts_with(&FAT_BINARY_WRAPPER.to_le_bytes()) {
            let wrapper = Array(self.0).to_vec(16)?;
            return Image(word(&wrapper[8..]) as *const u8).get();
        }
        if text.starts_with(&FAT_BINARY.to_le_bytes()) {
            let header = Array(self.0).to_vec(FAT_BINARY_HEADER)?;
            return Array(self.0).to_vec(FAT_BINARY_HEADER + word(&header[8..]) as usize);
        }
        Ok(text.to_vec())
    }
}

/// Arguments of a launch: an array of pointers to each.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Arguments(*const *const u8);

impl Arguments {
    /// The arguments at an address.
    pub(crate) fn at(address: usize) -> Arguments {
        Arguments(std::ptr::with_exposed_provenance(address))
    }

    /// Copies the arguments, whose sizes the module declares, with the memory that the caller declares for each, if it does.
    pub(crate) fn copy(
        &self,
        sizes: &[usize],
        declared: &[DeclaredArgument],
    ) -> Result<Vec<Parameter>, Code> {
        let pointers = Array(self.0).to_vec(sizes.len())?;
        let pointers = pointers.into_iter().zip(sizes).enumerate();
        let copied = pointers.map(|(index, (pointer, size))| {
            let memory = declared.get(index).filter(|declared| declared.is_memory);
            Ok(Parameter {
                bytes: Array(pointer).to_vec(*size)?,
                memory: memory.copied(),
            })
        });
        copied.collect()
    }
}

/// Arguments of a launch as one buffer: a list of keys and values.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Packed(*const usize);

impl Packed {
    pub(crate) const NONE: Packed = Packed(std::ptr::null());

    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }

    /// Copies the arguments, each at its offset in the buffer.
    pub(crate) fn copy(&self, places: &[(usize, usize)]) -> Result<Vec<Parameter>, Code> {
        /// `CU_LAUNCH_PARAM_END`, `CU_LAUNCH_PARAM_BUFFER_POINTER` and `CU_LAUNCH_PARAM_BUFFER_SIZE`.
        const END: usize = 0;
        const POINTER: usize = 1;
        const BYTES: usize = 2;
        let (mut buffer, mut bytes, mut at) = (std::ptr::null(), 0, 0);
        loop {
            let entry = Array(self.0.wrapping_add(at)).to_vec(1)?[0];
            if entry == END {
                break;
            }
            let value = Array(self.0.wrapping_add(at + 1)).to_vec(1)?[0];
            match entry {
                POINTER => buffer = value as *const u8,
                BYTES => bytes = Array(value as *const usize).to_vec(1)?[0],
                _ => return Err(Code::INVALID_VALUE),
            }
            at += 2;
        }
        let buffer = Array(buffer).to_vec(bytes)?;
        let parameters = places.iter().map(|&(offset, size)| {
            let bytes = buffer
                .get(offset..offset + size)
                .ok_or(Code::INVALID_VALUE)?;
            Ok(Parameter {
                bytes: bytes.to_vec(),
                memory: None,
            })
        });
        parameters.collect()
    }
}

/// The options of `cuModuleLoadDataEx`: an array of their numbers. The array of their values is a separate argument.
#[repr(transparent)]
pub(crate) struct JitOptions(*const u32);

impl JitOptions {
    /// `CU_JIT_ERROR_LOG_BUFFER`: its value is the address of a buffer.
    const ERROR_LOG: u32 = 5;
    /// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`: its value is the size of the buffer, and on return the size of the log.
    const ERROR_LOG_BYTES: u32 = 6;

    /// Writes the log of the compiler into the buffer for errors, if there is one.
    pub(crate) fn log(&self, values: Out<usize>, count: usize, log: &str) -> Result<(), Code> {
        let options = Array(self.0).to_vec(count)?;
        let given = Array(values.0.cast_const()).to_vec(count)?;
        let find = |number| options.iter().position(|option| *option == number);
        let (Some(buffer), Some(bytes)) = (find(Self::ERROR_LOG), find(Self::ERROR_LOG_BYTES))
        else {
            return Ok(());
        };
        let Some(room) = given[bytes].checked_sub(1) else {
            return Ok(());
        };
        let log = &log.as_bytes()[..log.len().min(room)];
        let target = Out(given[buffer] as *mut u8);
        let text = log.iter().copied().chain([0]);
        text.enumerate()
            .try_for_each(|(at, byte)| target.put_at(at, byte))?;
        values.put_at(bytes, log.len())
    }
}

/// A host function with its argument.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct HostFunction(Option<unsafe extern "C" fn(*mut c_void)>);

/// An argument for a host function: opaque here.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct UserData(*mut c_void);

// SAFETY: the pointer is passed only to the caller's function, on another thread. The caller that enqueues a host function vouches for
// that, as CUDA documents.
unsafe impl Send for UserData {}
// SAFETY: a reference gives only a copy of the pointer, which is as above.
unsafe impl Sync for UserData {}

/// A callback of a stream: it gets the stream, the status of the work before it, and its data.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct StreamCallback(Option<unsafe extern "C" fn(usize, u32, *mut c_void)>);

impl StreamCallback {
    pub(crate) fn is_null(self) -> bool {
        self.0.is_none()
    }

    /// Calls it.
    pub(crate) fn call(self, stream: usize, data: UserData) {
        if let Some(callback) = self.0 {
            // SAFETY: the caller of `cudaStreamAddCallback` vouches that the function may be called once with this data.
            unsafe { callback(stream, 0, data.0) };
        }
    }
}

impl HostFunction {
    /// Its call with an argument.
    pub(crate) fn with(self, data: UserData) -> Result<HostWork, Code> {
        let function = self.0.ok_or(Code::INVALID_VALUE)?;
        let given = [function as usize, data.0 as usize];
        let run = std::sync::Arc::new(move || {
            let data = data;
            // SAFETY: the caller of the function of CUDA vouches that the function may be called with this data.
            unsafe { function(data.0) };
        });
        Ok(HostWork { run, given })
    }
}
