//! The choice for devices without concurrent managed access.

/// How the host shares managed memory with a device without concurrent managed access (Windows, WSL, most Jetsons):
/// [`Device::set_non_concurrent_access`](crate::Device::set_non_concurrent_access).
///
/// While a kernel runs on such a device, the CPU may access no managed memory at all, not even memory that the kernel does not use.
/// Therefore a kernel is never launched while a host guard of managed memory lives. Allocations, fills and copies between a buffer and a
/// slice are possible meanwhile: the host does them for managed memory. Calls without managed memory and without a kernel are not affected.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::NonConcurrentAccess;
///
/// if !device.capabilities().concurrent_managed_access {
///     device.set_non_concurrent_access(NonConcurrentAccess::Wait);
/// }
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NonConcurrentAccess {
    /// While a host guard lives, work on the device is refused with [`Error::Busy`](crate::Error::Busy).
    #[default]
    Refuse,
    /// Work waits until the guards of *other* threads are dropped. It is refused if the calling thread itself has a guard, because it
    /// would wait for ever. Threads must not wait for each other in a circle: a thread that holds a guard must not wait for a thread that
    /// launches. A guard that is leaked makes all later work wait.
    Wait,
    /// [`Placement::Auto`](crate::Placement::Auto) selects mapped memory for new unified buffers. It has no such rule, and kernels access
    /// it over the link (on a Jetson, in the same memory). Work with managed memory, which is still available by request, waits as with
    /// [`Wait`](Self::Wait).
    Mapped,
}

impl NonConcurrentAccess {
    pub(crate) const ALL: [Self; 3] = [Self::Refuse, Self::Wait, Self::Mapped];
}
