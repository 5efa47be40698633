//! The handler of `SIGSEGV`, which sees the host's touches of managed memory.
//!
//! A page of managed memory that is not on the host is inaccessible in the host view. A touch of it raises `SIGSEGV`; the handler finds
//! the simulator that owns the address, migrates the page as the driver would, and returns, so that the touch is tried again. Every
//! other fault goes to the handler that was installed before.
//!
//! The handler takes the simulator's lock. That is sound because the fault is synchronous: a load or store of code that does not hold the
//! lock raised it. The simulator itself reads and writes only through device views.
// Signal handlers are installed and chained by raw calls.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use cuda_um_sys::locks::RwLock;

use crate::engine::address_space::{PAGE, may_be_simulated};
use crate::engine::{Core, Machine};
use crate::misuse::Misuse;

/// The machines that are watched. Each keeps its views mapped.
static SPACES: RwLock<Vec<(Arc<Machine>, Weak<Core>)>> = RwLock::new(Vec::new());
/// The handlers that were found in the place of this one, the latest last.
static PREVIOUS: RwLock<Vec<libc::sigaction>> = RwLock::new(Vec::new());

thread_local! {
    /// How many of them are running on this thread, within each other.
    static CHAINED: Cell<usize> = const { Cell::new(0) };
}

/// The process that watches.
// Relaxed: every thread of a process stores the same number, before its simulator gives addresses to the program. A child begins with its
// parent's number.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Watches a simulator's host view.
pub(crate) fn watch(core: &Arc<Core>) {
    keep_fault_handler();
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    SPACES
        .write()
        .push((core.machine.clone(), Arc::downgrade(core)));
}

/// Ends [`watch`].
pub(crate) fn unwatch(core: &Core) {
    let is_other = |(machine, _): &(Arc<Machine>, Weak<Core>)| !Arc::ptr_eq(machine, &core.machine);
    SPACES.write().retain(is_other);
}

/// Installs the handler of `SIGSEGV`, which serves the host's touches of managed memory, in front of one that was installed after it, or if another
/// library has removed it. Python's `faulthandler` does both. The first simulator calls this.
pub fn keep_fault_handler() {
    // Without the lock, which a child made by fork may find held for ever.
    if exchange(None).sa_sigaction == own() {
        return;
    }
    let mut previous = PREVIOUS.write();
    let found = exchange(None);
    if found.sa_sigaction != own() {
        previous.retain(|known| known.sa_sigaction != found.sa_sigaction);
        previous.push(found);
        install();
    }
}

fn own() -> usize {
    on_fault as extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) as usize
}

/// Sets the action, if there is one, and returns that from before.
fn exchange(action: Option<&libc::sigaction>) -> libc::sigaction {
    let mut previous = MaybeUninit::uninit();
    let action = action.map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the pointers are valid, or null; the handler does only what the documentation of this module allows.
    let result = unsafe { libc::sigaction(libc::SIGSEGV, action, previous.as_mut_ptr()) };
    assert_eq!(result, 0, "sigaction accepts SIGSEGV");
    // SAFETY: the call succeeded, so it has written the previous action.
    unsafe { previous.assume_init() }
}

fn install() {
    // SAFETY: zero is a valid `sigaction`; every field that matters is set before use.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = own();
    // No SA_ONSTACK: the alternate stacks of Rust's threads have a few KiB, enough to report a stack overflow; serving a fault needs
    // more. (So an overflow ends the process without Rust's message.) SA_NODEFER: a fault inside the previous handler, called from
    // `chain`, must reach this handler, too.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: the set is valid.
    unsafe { libc::sigemptyset(&mut action.sa_mask) };
    exchange(Some(&action));
}

extern "C" fn on_fault(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid `siginfo_t`, and for SIGSEGV it holds the address.
    let address = unsafe { (*info).si_addr() } as usize;
    // SAFETY: errno is this thread's own; the interrupted code must find it as it was.
    let errno = unsafe { *libc::__errno_location() };
    let served = owner(address).is_some_and(|core| serve(&core, address, is_write(context)));
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    if !served {
        chain(signal, info, context);
    }
}

/// The simulator of this process whose host view has the address. A child made by fork has no memory of its parent's simulators: its own may
/// have the same addresses, and a lock that was held at the fork is never released there.
fn owner(address: usize) -> Option<Arc<Core>> {
    let spaces = SPACES.read();
    let mut found = spaces
        .iter()
        .filter(|(machine, _)| machine.space.contains(address));
    found.find_map(|(_, core)| core.upgrade().filter(|core| !core.is_inherited()))
}

/// The address at which a system call accesses `bytes` bytes of the program's memory at `address`.
///
/// For managed memory: the host touches its pages, and the address is that of the device view, which no other thread makes inaccessible.
/// For all other memory, and if a touch is not served: `address` itself. So the system call fails with `EFAULT` if a touch by the host
/// would end the process.
pub(crate) fn host_memory(address: usize, bytes: usize, write: bool) -> usize {
    if !may_be_simulated(address) || bytes == 0 {
        return address;
    }
    // In a child made by fork the lock may be held for ever.
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        return address;
    }
    let served = owner(address).and_then(|core| serve_call(&core, address, bytes, write));
    served.unwrap_or(address)
}

/// The host touches a range in a system call; returns its address in the device view. `None` if a touch there would end the process, or
/// the range is not managed memory.
fn serve_call(core: &Core, address: usize, bytes: usize, write: bool) -> Option<usize> {
    let machine = &core.machine;
    let mut state = core.state.lock();
    let (base, pages) = match state.memory.managed_range(address, bytes) {
        Ok(range) => range,
        Err(_) => return None,
    };
    let faulting = state.host_faults(base, pages, write);
    if !faulting.is_empty() && state.host_must_wait(base) {
        state
            .misuse
            .report(Misuse::HostTouchDuringKernel { address });
        if machine.crash_on_misuse {
            return None;
        }
    }
    for page in faulting {
        let cost = state
            .host_touch(base, base + page * PAGE, Some(write))
            .ok()?;
        state.now += cost;
    }
    Some(machine.space.device_address(address))
}

/// Whether the fault was a store; `None` if the processor does not say.
#[cfg(target_arch = "x86_64")]
fn is_write(context: *mut libc::c_void) -> Option<bool> {
    // SAFETY: with SA_SIGINFO the third argument is the interrupted `ucontext_t`.
    let error =
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_ERR as usize] };
    Some(error & 2 != 0)
}

/// Whether the fault was a store. The instruction says so, because not every system passes the syndrome register on: qemu 7 does not, whose
/// own `host_signal_write` has these masks. An atomic that acquires counts as a load.
#[cfg(target_arch = "aarch64")]
fn is_write(context: *mut libc::c_void) -> Option<bool> {
    const STORES: [(u32, u32); 11] = [
        // Several structures of vectors, and one, without and with a new base.
        (0xbfff_0000, 0x0c00_0000),
        (0xbfe0_0000, 0x0c80_0000),
        (0xbfdf_0000, 0x0d00_0000),
        (0xbfc0_0000, 0x0d80_0000),
        // Exclusive or releasing.
        (0x3f40_0000, 0x0800_0000),
        // One register, with an offset of 12 bits or another one; 128 bits.
        (0x3bc0_0000, 0x3900_0000),
        (0x3fc0_0000, 0x3d80_0000),
        (0x3bc0_0000, 0x3800_0000),
        (0x3fe0_0000, 0x3c80_0000),
        // Two registers.
        (0x3a40_0000, 0x2800_0000),
        // `dc zva`, by which the C library clears memory.
        (0xffff_ffe0, 0xd50b_7420),
    ];
    // SAFETY: with SA_SIGINFO the third argument is the interrupted `ucontext_t`, whose instruction could be read: it ran.
    let instruction = unsafe {
        let counter = (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc;
        (counter as usize as *const u32).read()
    };
    let is = |(mask, value): &(u32, u32)| instruction & mask == *value;
    Some(STORES.iter().any(is))
}

/// Whether the fault was a store; `None` if the processor does not say.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn is_write(_context: *mut libc::c_void) -> Option<bool> {
    None
}

/// Serves a fault in a simulator's host view; returns false if the touch must end the process.
fn serve(core: &Core, address: usize, write: Option<bool>) -> bool {
    let machine = &core.machine;
    let mut state = core.state.lock();
    let found = state
        .memory
        .holding_page(address)
        .map(|allocation| (allocation.base, allocation.is_managed()));
    let Some((base, true)) = found else {
        let freed = state.memory.was_freed(address);
        let misuse = if freed {
            Misuse::UseAfterFree { address }
        } else {
            Misuse::HostTouchOfDeviceMemory { address }
        };
        report(&misuse);
        state.misuse.report(misuse);
        return false;
    };
    if state.host_must_wait(base) {
        let misuse = Misuse::HostTouchDuringKernel { address };
        if machine.crash_on_misuse {
            report(&misuse);
            return false;
        }
        state.misuse.report(misuse);
    }
    match state.host_touch(base, address, write) {
        Ok(cost) => {
            state.now += cost;
            true
        }
        Err(_) => false,
    }
}

/// Writes the misuse directly to standard error before the process ends: no other code can report it afterwards.
fn report(misuse: &Misuse) {
    let text = format!("cuda-um-sim: {misuse:x?}\n");
    // SAFETY: the buffer is valid for its length.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// Passes the fault to the handler that was installed before, or ends the process as without a handler. A handler that passes it on, to this one,
/// is passed by: the fault goes to the one before it.
fn chain(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let depth = CHAINED.get();
    let previous = PREVIOUS.read().iter().rev().nth(depth).copied();
    CHAINED.set(depth + 1);
    let handler = previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    match (previous, handler) {
        (Some(previous), handler) if handler != libc::SIG_DFL && handler != libc::SIG_IGN => {
            if previous.sa_flags & libc::SA_SIGINFO != 0 {
                // SAFETY: the flag says that the previous handler has this signature; the arguments are the kernel's.
                unsafe {
                    let handler: extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void) =
                        std::mem::transmute(handler);
                    handler(signal, info, context);
                }
            } else {
                // SAFETY: without the flag the previous handler takes only the signal's number.
                unsafe {
                    let handler: extern "C" fn(i32) = std::mem::transmute(handler);
                    handler(signal);
                }
            }
        }
        _ => {
            // SAFETY: zero is a valid `sigaction` and means the default; the faulting instruction runs again and ends
            // the process.
            unsafe {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, null_mut());
            }
        }
    }
    CHAINED.set(depth);
}
