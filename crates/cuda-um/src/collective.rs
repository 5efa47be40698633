//! Collective operations over the buffers of several devices, of one process or of many: [NCCL](https://docs.nvidia.com/deeplearning/nccl/),
//! opened at run time (`libnccl.so.2`, 2.17 or newer; `CUDA_UM_NCCL` names another file).
//!
//! A [`Communicator`] is one rank: one device. Its methods make an [`Operation`], which runs alone ([`Operation::run`]) or with those of
//! other ranks and with further ones of the same rank ([`group`](fn@group)).
//!
//! ```
//! # let sim = cuda_um_sim::Sim::builder().devices(2).build().unwrap();
//! # let runtime = cuda_um::Runtime::from_table(sim.table())?;
//! use cuda_um::collective::{Communicator, Reduce, group};
//! use cuda_um::UnifiedBuffer;
//!
//! let devices = [runtime.device(0)?, runtime.device(1)?];
//! let ranks = Communicator::all(&devices)?;
//! let mut a = UnifiedBuffer::from_slice(&devices[0], &[1.0f32, 2.0])?;
//! let mut b = UnifiedBuffer::from_slice(&devices[1], &[10.0f32, 20.0])?;
//! group([
//!     ranks[0].all_reduce_in_place(&mut a, Reduce::Sum),
//!     ranks[1].all_reduce_in_place(&mut b, Reduce::Sum),
//! ])?;
//! assert_eq!(*b.host()?, [11.0, 22.0]); // waits for the work
//! # Ok::<(), cuda_um::Error>(())
//! ```
//!
//! # Rules
//!
//! - All ranks make the same calls in the same order, with the same lengths. What one [`group`](fn@group) has of several ranks is checked before any
//!   call. What other threads and processes call is not known here: NCCL then waits, or writes wrong elements.
//! - A thread that has several ranks makes their calls in one group.
//! - Each operation is a tracked use of its buffers, as a launch of a kernel: guards, later work and drops are ordered after it.
//! - Managed buffers are migrated to the device first, because page faults within a kernel that waits for other devices are slow. No memory is
//!   registered with NCCL.
//! - The library sets no variable of the environment. NCCL's use of NVLink multicast has no setting in the configuration that all versions
//!   accept: `NCCL_NVLS_ENABLE=0`, before the start of the process, turns it off, and is recommended in virtual machines.
//! - From the first communicator on, peer access that this library enabled stays enabled, because NCCL may count on it.
//! - A communicator whose call failed is aborted, because NCCL does not say what its ranks have done: make another one.

mod communicator;
mod group;
mod operation;

pub use communicator::{Communicator, UniqueId};
pub use group::group;
pub use operation::{Number, Operation, Reduce};
