//! Every public function that can fail, called with the wrong thing: the error names the value and what was allowed, and nothing changed.
//!
//! `functions.txt` says for each of them which cases there are, or why there is nothing wrong to give it; `complete.rs` compares it with
//! the sources. On the simulator alone: some cases would oversubscribe a GPU.

#[path = "../support/mod.rs"]
mod support;

mod allocate;
mod complete;
mod environment;
mod foreign;
mod length;
mod location;
mod module;
mod pool;
mod range;
mod settings;
mod world;
