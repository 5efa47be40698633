//! Imports and constants for every group.

pub(super) use super::sources;
pub(super) use crate::call::{
    Attribute, Code, Cuda, LEGACY, Memory, PER_THREAD, Place, Stream, advice, fail, kind,
};
pub(super) use crate::{Case, Failure, Need, Verdict};

pub(super) const KIB: usize = 1 << 10;
pub(super) const MIB: usize = 1 << 20;
/// Device 0.
pub(super) const DEVICE: Place = Place::device(0);
pub(super) const HOST: Place = Place::HOST;

/// Cases in rows: the name and the check; the rule; the source, the calls, and properties.
macro_rules! cases {
    ($($name:literal ($check:expr): $rule:literal, $source:expr, $calls:expr $(, $property:ident($($value:expr)?))*;)*) => {
        &[$(Case::new($name, $rule, $source, $calls, $check)$(.$property($($value)?))*),*]
    };
}
pub(super) use cases;
