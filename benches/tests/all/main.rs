//! The tests of the program and of its peers.

mod peer;
mod um_bench;
