//! Every public function that can fail, called with the wrong thing: the error names the value and what was allowed, and nothing changed.
//!
//! `functions.txt` says for each of them which cases there are, or why there is nothing wrong to give it; `complete.rs` compares it with
//! the sources. On the simulator alone: some cases would oversubscribe a GPU.

mod backend;
mod buffers;
mod complete;
mod environment;
mod make;
mod place;
mod world;
