//! Managed memory: the state of its pages, and the driver that migrates them.

mod advice;
mod allocation;
mod driver;
mod eviction;
mod fault_plan;
mod migration;
mod page;
mod page_fault;
mod prefetch;
mod reach;
mod table;

pub(crate) use advice::{AdviceChange, Attribute, AttributeValue};
pub(crate) use allocation::{Attach, Left, Managed, SYSTEM};
pub(crate) use driver::UvmDriver;
pub(crate) use migration::{HOST_CACHE_BYTES, source};
pub(crate) use page::{BLOCK_PAGES, HOST, LEAF_PAGES, Processor, Processors, common};
pub(crate) use table::{ManagedMemory, Spread};
