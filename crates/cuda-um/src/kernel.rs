//! Kernels: modules, arguments, launches.

pub(crate) mod argument;
pub(crate) mod arguments;
pub(crate) mod declared;
pub(crate) mod foreign;
pub(crate) mod launch;
pub(crate) mod module;
