//! Wrong uses, and the message of each: these tests produce the messages, and compare them with `docs/errors.md`.
#![allow(
    unsafe_code,
    reason = "wrong launches, and wrong pointers in processes that end"
)]

mod page;
mod world;

mod compiler;
mod copies;
mod environment;
mod failures;
mod kernels;
mod memory;
mod modules;
mod places;
mod process;
mod several_devices;
mod shared;
mod types;
