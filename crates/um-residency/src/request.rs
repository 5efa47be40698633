//! Lists of buffers with the access to each: the argument of `working_set`.

use um_backend::Element;

use crate::access::Access;
use crate::error::Result;
use crate::guard::{ReadGuard, WriteGuard};
use crate::held::Held;
use crate::homed::Homed;
use crate::set::Requests;

/// A buffer that a step reads.
#[derive(Debug)]
pub struct Input<'a, T>(pub &'a Homed<T>);

/// A buffer of which a step writes all elements. The old ones are not transferred: before the write, the elements have unspecified values, which
/// may be those of another buffer of the arena. This is the only access that shows them: use [`InOut`] for a step that writes a part.
#[derive(Debug)]
pub struct Output<'a, T>(pub &'a Homed<T>);

/// A buffer that a step reads and writes, or of which it writes a part.
#[derive(Debug)]
pub struct InOut<'a, T>(pub &'a Homed<T>);

/// Buffers that a step uses together: [`Input`], [`Output`] and [`InOut`], tuples of up to 12 of them, arrays and vectors; also nested.
pub trait WorkingSet<'a>: Sealed<'a> {}

pub(crate) use sealed::Sealed;

mod sealed {
    use super::{Held, Requests, Result};

    pub trait Sealed<'a> {
        /// The guards, in the same shape.
        type Guards;

        /// Adds the buffers to the list.
        #[doc(hidden)]
        fn request(&self, requests: &mut Requests<'a>) -> Result<()>;

        /// Makes the guards, in the order of the list.
        #[doc(hidden)]
        fn guards(self, held: &mut impl Iterator<Item = Held>) -> Self::Guards;
    }
}

macro_rules! requests {
    ($($request:ident $access:ident $guard:ident;)*) => {$(
        impl<'a, T: Element> Sealed<'a> for $request<'a, T> {
            type Guards = $guard<'a, T>;

            fn request(&self, requests: &mut Requests<'a>) -> Result<()> {
                requests.add(self.0.handle(), Access::$access)
            }

            fn guards(self, held: &mut impl Iterator<Item = Held>) -> Self::Guards {
                $guard::new(held.next().expect("a guard for each request"))
            }
        }
        impl<'a, T: Element> WorkingSet<'a> for $request<'a, T> {}

        impl<T> Clone for $request<'_, T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $request<'_, T> {}
    )*};
}
requests! {
    Input Read ReadGuard;
    Output Write WriteGuard;
    InOut ReadWrite WriteGuard;
}

macro_rules! tuples {
    ($($set:ident)*) => {
        impl<'a, $($set: WorkingSet<'a>),*> Sealed<'a> for ($($set,)*) {
            type Guards = ($($set::Guards,)*);

            #[allow(non_snake_case, reason = "one variable for each type")]
            fn request(&self, requests: &mut Requests<'a>) -> Result<()> {
                let ($($set,)*) = self;
                $($set.request(requests)?;)*
                Ok(())
            }

            #[allow(non_snake_case, reason = "one variable for each type")]
            fn guards(self, held: &mut impl Iterator<Item = Held>) -> Self::Guards {
                let ($($set,)*) = self;
                ($($set.guards(held),)*)
            }
        }
        impl<'a, $($set: WorkingSet<'a>),*> WorkingSet<'a> for ($($set,)*) {}
    };
}
tuples!(A);
tuples!(A B);
tuples!(A B C);
tuples!(A B C D);
tuples!(A B C D E);
tuples!(A B C D E F);
tuples!(A B C D E F G);
tuples!(A B C D E F G H);
tuples!(A B C D E F G H I);
tuples!(A B C D E F G H I J);
tuples!(A B C D E F G H I J K);
tuples!(A B C D E F G H I J K L);

impl<'a, S: WorkingSet<'a>> Sealed<'a> for Vec<S> {
    type Guards = Vec<S::Guards>;

    fn request(&self, requests: &mut Requests<'a>) -> Result<()> {
        self.iter().try_for_each(|set| set.request(requests))
    }

    fn guards(self, held: &mut impl Iterator<Item = Held>) -> Self::Guards {
        self.into_iter().map(|set| set.guards(held)).collect()
    }
}
impl<'a, S: WorkingSet<'a>> WorkingSet<'a> for Vec<S> {}

impl<'a, S: WorkingSet<'a>, const N: usize> Sealed<'a> for [S; N] {
    type Guards = [S::Guards; N];

    fn request(&self, requests: &mut Requests<'a>) -> Result<()> {
        self.iter().try_for_each(|set| set.request(requests))
    }

    fn guards(self, held: &mut impl Iterator<Item = Held>) -> Self::Guards {
        self.map(|set| set.guards(held))
    }
}
impl<'a, S: WorkingSet<'a>, const N: usize> WorkingSet<'a> for [S; N] {}
