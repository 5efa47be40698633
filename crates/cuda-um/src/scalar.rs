//! Scalars in captures: constant, or with a name.

use bytemuck::{NoUninit, Pod};

/// A value that work takes, and what it is in a capture: a plain value, which a capture refuses, a [`constant`], or a named scalar
/// ([`Recording::scalar`](crate::graph::Recording::scalar)). Outside of captures it is the value.
///
/// A function that takes `impl Into<Scalar<f32>>` accepts a plain `f32` as well:
///
/// ```
/// use cuda_um::{Kernel, LaunchConfig, Result, Scalar, Stream, constant, kernel::WriteArg};
///
/// fn scale(kernel: &Kernel, stream: &Stream, data: impl WriteArg<f32>, factor: impl Into<Scalar<f32>>) -> Result<()> {
///     let data = data.into_view_mut()?;
///     let (config, len) = (LaunchConfig::linear(data.len(), 256), constant(data.len()));
///     // SAFETY: thread i multiplies element i, if there is one, by the factor.
///     unsafe { kernel.launch(stream, config, (data, factor.into(), len)) }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scalar<T> {
    value: T,
    role: Role,
}

/// What a value is in a capture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Role {
    Plain,
    Constant,
    /// The scalar of this index in this capture.
    Named {
        capture: u64,
        index: u32,
    },
}

/// A value that is the same in each launch of a graph: a length, a shape, a number that never changes.
///
/// It is an argument of kernels. In a capture ([`Stream::capture`](crate::Stream::capture)) each value needs this or a name; elsewhere the value
/// itself does the same.
#[inline]
pub fn constant<T>(value: T) -> Scalar<T> {
    Scalar {
        value,
        role: Role::Constant,
    }
}

impl<T> Scalar<T> {
    pub(crate) fn named(value: T, capture: u64, index: u32) -> Self {
        Self {
            value,
            role: Role::Named { capture, index },
        }
    }

    /// The value.
    #[inline]
    pub fn value(self) -> T {
        self.value
    }

    #[inline]
    pub(crate) fn role(&self) -> Role {
        self.role
    }

    /// Why a capture refuses a fill with the value, if it does.
    pub(crate) fn refusal_of_fill(&self) -> Option<&'static str> {
        match self.role {
            Role::Plain => Some(
                "each launch of the graph would fill with the value of now: pass `constant(value)` if it never changes; a kernel that fills takes a named scalar",
            ),
            Role::Constant => None,
            Role::Named { .. } => Some(
                "CUDA's fills take no named scalar: use a kernel that fills (`um_kernels::Fill`)",
            ),
        }
    }
}

impl<T: NoUninit> Scalar<T> {
    /// The same scalar for a parameter of another type, bit by bit. Its name and the type that
    /// [`GraphExec::set`](crate::graph::GraphExec::set) takes stay.
    ///
    /// # Panics
    ///
    /// If the types differ in size.
    pub fn cast<U: Pod>(self) -> Scalar<U> {
        Scalar {
            value: bytemuck::cast(self.value),
            role: self.role,
        }
    }
}

impl<T> From<T> for Scalar<T> {
    #[inline]
    fn from(value: T) -> Self {
        Self {
            value,
            role: Role::Plain,
        }
    }
}
