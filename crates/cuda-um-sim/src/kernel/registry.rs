//! The CPU references of this process.

use std::collections::HashMap;
use std::sync::LazyLock;

use cuda_um_sys::locks::RwLock;

use super::{CpuReference, LaunchContext, ReferenceError};

/// The references that are registered under a name.
#[derive(Clone, Copy)]
pub(crate) enum Registered {
    One(CpuReference),
    /// Different functions: the simulator cannot decide between them.
    Several,
}

#[derive(Default)]
struct Registry {
    by_name: HashMap<String, Registered>,
    /// The names in the modules with a text.
    by_module: HashMap<String, HashMap<String, Registered>>,
}

static REGISTRY: LazyLock<RwLock<Registry>> = LazyLock::new(RwLock::default);

/// Registers a kernel's CPU reference for every simulator of this process, by the kernel's name.
///
/// Registering the same function again has no effect. A second function under one name does not replace the first: the name is then
/// ambiguous, and a simulator refuses to look such a kernel up ([`Misuse::AmbiguousReference`](crate::Misuse)), unless it has a
/// reference of its own ([`Builder::kernel`](crate::Builder::kernel)) or one for its module ([`register_module`]).
///
/// # Safety
///
/// Launchers trust the kernel's source, and on a simulator the reference runs in its place. For every kernel of this name that is looked up
/// in this process, `reference` touches no memory that the kernel does not touch in the same way: it takes [`slice`](LaunchContext::slice)
/// only of memory that the kernel reads, and [`slice_mut`](LaunchContext::slice_mut) only of memory that the kernel writes. So with
/// `cuda_um` it reads only memory that the launch borrows by `&` or `&mut`, and writes only memory that the launch borrows by `&mut`.
pub unsafe fn register_kernel(name: &str, reference: CpuReference) {
    add(&mut REGISTRY.write().by_name, name, reference);
}

/// Registers CPU references for the kernels of all modules with exactly this PTX. They come before the references of [`register_kernel`],
/// and kernels of other modules with the same names keep theirs: a library registers its kernels in this way.
///
/// # Safety
///
/// As for [`register_kernel`], for the kernels with these names in the module.
pub unsafe fn register_module(ptx: &str, references: &[(&str, CpuReference)]) {
    let mut registry = REGISTRY.write();
    let names = registry.by_module.entry(ptx.to_owned()).or_default();
    for (name, reference) in references {
        add(names, name, *reference);
    }
}

fn add(names: &mut HashMap<String, Registered>, name: &str, reference: CpuReference) {
    match names.get_mut(name) {
        None => drop(names.insert(name.to_owned(), Registered::One(reference))),
        Some(Registered::One(earlier)) if std::ptr::fn_addr_eq(*earlier, reference) => {}
        Some(known) => *known = Registered::Several,
    }
}

/// The references of a kernel: those of its module, otherwise those of its name.
pub(crate) fn registered(ptx: &str, name: &str) -> Option<Registered> {
    let registry = REGISTRY.read();
    let of_module = registry.by_module.get(ptx);
    let found = of_module.and_then(|names| names.get(name));
    let found = found.or_else(|| registry.by_name.get(name)).copied();
    found.or_else(|| (name == SET_CONDITION).then_some(Registered::One(set_condition)))
}

/// The kernel of cuda-um that copies a number to a condition of a graph.
const SET_CONDITION: &str = "cuda_um_set_condition";

fn set_condition(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let value = launch.slice::<u32>(0, 1)?[0];
    launch.set_condition(launch.value(1)?, value)
}
