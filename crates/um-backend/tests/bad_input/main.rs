//! Every public function that can fail, called with wrong input: the error names the value and the allowed values, and nothing changes.
//!
//! `functions.txt` lists the cases of each function, or the reason why it takes no wrong input; `complete.rs` compares it with the
//! sources. The tests run only on the simulator, because some cases would oversubscribe a GPU.

mod backend;
mod buffers;
mod complete;
mod environment;
mod erased;
mod make;
mod place;
mod world;
