//! The simulated machine, without C types: decides the effect of each call. `entry` only translates.
//!
//! [`State`] consists of parts, each with its own file or folder and its own methods: `memory` (addresses and allocations), `managed`
//! (pages, and the driver that migrates them), `device`, `pool`, `stream`, `module`, `records`. A call that changes several parts is a
//! method of `State`, in a file named after the call: `allocate`, `copy`, `prefetch`, `launch` and so on.

mod access;
mod activity;
#[cfg_attr(not(target_os = "linux"), path = "address_space_unsupported.rs")]
pub(crate) mod address_space;
mod advise;
mod allocate;
mod attach;
mod attribute;
mod bytes;
mod contexts;
mod copy;
mod core;
mod detail;
mod device;
mod event;
mod foreign;
mod globals;
mod graph;
mod handle;
mod hold;
mod host;
mod image;
mod kernel_launch;
mod launch;
mod link;
mod machine;
mod managed;
mod memory;
mod memset;
mod misuse_log;
mod module;
mod operation;
mod pitched;
mod place;
mod pool;
mod prefetch;
mod records;
mod registered;
mod release;
mod state;
mod status;
mod stream;
mod system_memory;
mod thread;
mod thread_sanitizer;

pub(crate) use self::core::{Core, OnWait};
pub(crate) use activity::{Cause, MapCause, Record, What};
pub(crate) use address_space::AddressSpace;
pub(crate) use contexts::primary_context;
pub(crate) use copy::Direction;
pub(crate) use detail::{call_failed, last_text, take_detail};
pub(crate) use foreign::{calls_are_forbidden, contain, send_events};
pub(crate) use graph::{CaptureInfo, CaptureMode, ConditionKind, NodeParams, UpdateFailure};
pub(crate) use image::{FAT_BINARY, FAT_BINARY_HEADER, FAT_BINARY_WRAPPER, Linked, NATIVE};
pub(crate) use kernel_launch::{LaunchShape, Parameter};
pub(crate) use machine::Machine;
pub(crate) use managed::{AdviceChange, Attach, Attribute, AttributeValue, Processor};
pub(crate) use memory::{Kind, Memory, Registered};
pub(crate) use module::{Function, Image as ModuleImage};
pub(crate) use operation::HostWork;
pub(crate) use pitched::{Pitched, Plane};
pub(crate) use place::Place;
pub(crate) use pool::{Home, Pool, PoolAttribute, Pools};
pub(crate) use prefetch::Batch;
pub(crate) use state::State;
pub(crate) use status::Code;
pub(crate) use stream::{Hold, Stream, StreamKind};
pub(crate) use thread::{ThreadState, begin_call};
