//! The names of the calls that can fail: apart from `inject`, which the entry points need themselves.

use crate::entry;
use crate::inject::Fail;

impl Fail {
    /// The next call of the C function of this name does not run and returns `cudaErrorUnknown`. The name is the exported one, for example
    /// `cudaMemPrefetchAsync_v2`.
    ///
    /// # Panics
    /// The simulator has no such call in any version of CUDA, or the call cannot fail (`cudaGetLastError`): the failure would never occur.
    #[track_caller]
    pub fn call(name: &str) -> Fail {
        match entry::calls().find(|call| *call == name) {
            Some(call) => Fail::of(call),
            None => panic!(
                "no call of CUDA fails under the name `{name}`: is `{}` meant?",
                nearest(name)
            ),
        }
    }
}

/// The call whose name shares the longest beginning and end with this one.
fn nearest(name: &str) -> &'static str {
    let equal = |pair: &(u8, u8)| pair.0 == pair.1;
    let shared = |call: &&str| {
        let (one, other) = (name.bytes(), call.bytes());
        let start = one.clone().zip(other.clone()).take_while(equal).count();
        start + one.rev().zip(other.rev()).take_while(equal).count()
    };
    entry::calls().max_by_key(shared).unwrap_or_default()
}
