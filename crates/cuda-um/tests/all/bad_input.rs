//! Calls public functions with invalid arguments. The error must name the value and the allowed values, and nothing may change.
//!
//! These tests run only on the simulator, because some cases would oversubscribe a GPU.

mod allocate;
mod foreign;
mod imports;
mod location;
mod module;
mod pool;
mod range;
mod view;
mod world;
