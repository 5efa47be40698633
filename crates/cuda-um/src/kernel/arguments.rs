//! The list of a launch's arguments.

use crate::context::capture::{self, KernelNode, NamedLaunch, refused};
use crate::context::tracked::{Part, Tracked};
use crate::context::tracker::Access;
use crate::error::{Error, Result};
use crate::kernel::launch::LaunchConfig;
use crate::kernel::module::Kernel;
use crate::resource::allocation::Allocation;
use bytemuck::NoUninit;
use cuda_um_sys::DeclaredArgument;
use smallvec::SmallVec;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// The arguments of a launch, in order, as a list: for kernels whose parameters are known only at run time.
///
/// A tuple does the same. Neither allocates for up to 16 arguments, of which those above 8 bytes have at most 512 bytes.
#[derive(Default)]
pub struct Arguments<'a> {
    // Invariant in `'a`, by `SmallVec`.
    /// The values above 8 bytes.
    large: SmallVec<[u64; 64]>,
    parameters: SmallVec<[Parameter; 16]>,
    parts: SmallVec<[Part<'a>; 16]>,
    scalars_of: Option<u64>,
    /// The error of the first argument that could not be passed.
    pub(super) error: Option<Error>,
    /// As an [`InPlace`](crate::buffer::InPlace) that is in the list.
    _on_this_thread: PhantomData<*const ()>,
}

impl<'a> Arguments<'a> {
    /// Creates an empty list.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    // Inlined, so that the length is known.
    #[inline]
    pub(super) fn push_value<V: NoUninit>(&mut self, value: &V, kind: Kind) {
        self.push_bytes(bytemuck::bytes_of(value), kind);
    }

    /// A named scalar. All of a list are of one capture, because the indices are.
    pub(super) fn named(&mut self, capture: u64, index: u32) -> Result<Kind> {
        match *self.scalars_of.get_or_insert(capture) == capture {
            true => Ok(Kind(index)),
            false => Err(of_another_capture()),
        }
    }

    pub(super) fn captured(&self, kernel: &Kernel, config: LaunchConfig) -> Result<KernelNode> {
        let mut scalars = Vec::new();
        for (index, parameter) in self.parameters.iter().enumerate() {
            if parameter.kind == Kind::PLAIN {
                let bytes = parameter.bytes;
                let call = format_args!(
                    "a launch of kernel `{}` with a plain value for parameter {index} ({bytes} bytes)",
                    kernel.name
                );
                return Err(refused(
                    call,
                    "each launch of the graph would take the value of now: pass `constant(value)` if it never changes, or `step.scalar(\"name\", value)`, which `set(\"name\", …)` changes",
                ));
            }
            if let Some(scalar) = parameter.kind.scalar() {
                let current = capture::current().filter(|it| Some(it.id()) == self.scalars_of);
                current
                    .ok_or_else(of_another_capture)?
                    .check_scalar(scalar)?;
                scalars.push((index, scalar));
            }
        }
        let named = || NamedLaunch {
            node: std::ptr::null_mut(),
            function: kernel.function.0,
            shape: (config.grid, config.block, config.shared_bytes),
            values: self.parameters.iter().map(|it| self.value(it)).collect(),
            scalars: scalars.clone(),
        };
        Ok(KernelNode {
            module: Arc::clone(&kernel.module) as Arc<_>,
            named: (!scalars.is_empty()).then(|| Box::new(named())),
        })
    }

    fn value(&self, parameter: &Parameter) -> Vec<u64> {
        match parameter.is_large() {
            false => vec![parameter.word],
            true => {
                let words = (parameter.bytes as usize).div_ceil(size_of::<u64>());
                self.large[parameter.word as usize..][..words].to_vec()
            }
        }
    }

    #[inline]
    pub(super) fn push_bytes(&mut self, value: &[u8], kind: Kind) {
        let mut word = [0; size_of::<u64>()];
        if value.len() <= word.len() {
            word[..value.len()].copy_from_slice(value);
        } else {
            let start = self.large.len();
            word = (start as u64).to_ne_bytes();
            let words = value.len().div_ceil(word.len());
            self.large.resize(start + words, 0);
            let place = bytemuck::cast_slice_mut::<u64, u8>(&mut self.large[start..]);
            place[..value.len()].copy_from_slice(value);
        }
        self.parameters.push(Parameter {
            word: u64::from_ne_bytes(word),
            bytes: u32::try_from(value.len()).unwrap_or(u32::MAX),
            kind,
        });
    }

    #[inline(always)]
    pub(super) fn push_buffer(&mut self, raw: &'a Allocation, bytes: Range<usize>, access: Access) {
        let start = raw.kernel_address() as usize;
        self.parameters.push(Parameter {
            word: (start + bytes.start) as u64,
            bytes: size_of::<u64>() as u32,
            kind: Kind::ADDRESS,
        });
        self.parts.push(raw.part_of(bytes, access));
    }

    /// Calls `launch` with the address of each value. The driver only reads them.
    #[inline]
    pub(super) fn with_addresses<R>(
        &mut self,
        launch: impl FnOnce(&Self, &mut [*mut c_void]) -> R,
    ) -> R {
        let (mut few, mut many) = ([std::ptr::null_mut(); 16], Vec::new());
        let addresses = match self.parameters.len() {
            count @ ..=16 => &mut few[..count],
            count => {
                many.resize(count, std::ptr::null_mut());
                &mut many[..]
            }
        };
        let large = self.large.as_mut_ptr();
        for (parameter, address) in self.parameters.iter_mut().zip(&mut *addresses) {
            *address = match parameter.is_large() {
                false => (&raw mut parameter.word).cast(),
                true => large.wrapping_add(parameter.word as usize).cast(),
            };
        }
        launch(self, addresses)
    }

    /// The arguments for the simulator, which compares them with the accesses of the kernel.
    pub(super) fn declared(&self) -> SmallVec<[DeclaredArgument; 16]> {
        let mut parts = self.parts.iter();
        let declared = self.parameters.iter().map(|parameter| {
            let is_address = parameter.kind == Kind::ADDRESS;
            let part = is_address.then(|| parts.next()).flatten();
            part.map_or(DeclaredArgument::VALUE, |part| DeclaredArgument {
                is_memory: true,
                may_write: part.access.is_write(),
                bytes: part.bytes.len(),
            })
        });
        declared.collect()
    }

    pub(crate) fn parts(&self) -> &[Part<'a>] {
        &self.parts
    }

    #[inline]
    pub(super) fn check_sizes(&self, kernel: &str, expected: &[u32]) -> Result<()> {
        let sizes = self.parameters.iter().map(|parameter| parameter.bytes);
        // Compared one by one: a call of `memcmp` for a few numbers takes longer.
        match sizes.len() == expected.len() && sizes.zip(expected).all(|(a, b)| a == *b) {
            true => Ok(()),
            false => Err(self.do_not_fit(kernel.to_owned(), expected)),
        }
    }

    #[cold]
    fn do_not_fit(&self, kernel: String, expected: &[u32]) -> Error {
        let sizes = self.parameters.iter().map(|parameter| parameter.bytes);
        Error::Arguments {
            kernel,
            expected_bytes: expected.to_vec(),
            found_bytes: sizes.collect(),
        }
    }
}

#[cold]
fn of_another_capture() -> Error {
    refused(
        "a launch with a named scalar of another capture",
        "each capture has scalars of its own: make one with `Recording::scalar` of this capture",
    )
}

struct Parameter {
    /// The value or address; for a value above 8 bytes, its position among the large ones.
    word: u64,
    bytes: u32,
    kind: Kind,
}

/// What an argument is: the address of the next part of a buffer, a value, or the named scalar of this index. One word, because every launch
/// writes it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind(u32);

impl Kind {
    pub(super) const ADDRESS: Self = Self(u32::MAX);
    /// A value that a capture refuses.
    pub(super) const PLAIN: Self = Self(u32::MAX - 1);
    pub(super) const CONSTANT: Self = Self(u32::MAX - 2);

    fn scalar(self) -> Option<u32> {
        (self.0 < Self::CONSTANT.0).then_some(self.0)
    }
}

impl Parameter {
    #[inline]
    fn is_large(&self) -> bool {
        self.bytes > size_of::<u64>() as u32
    }
}

debug!([] Arguments<'_>, "Arguments", |it| parameters: it.parameters.len());
