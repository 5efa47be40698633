//! Calls every public function that can fail with an invalid argument. The error must name the value and the allowed values,
//! and nothing may change.
//!
//! For each function, `functions.txt` lists the cases, or the reason why there is no invalid argument; `complete.rs` compares
//! it with the sources. These tests run only on the simulator, because some cases would oversubscribe a GPU.

mod allocate;
mod complete;
mod environment;
mod foreign;
mod imports;
mod length;
mod location;
mod module;
mod pool;
mod range;
mod settings;
mod view;
mod world;
