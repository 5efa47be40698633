//! Wrong uses, and the message of each: these tests produce the messages, and compare them with `docs/errors.md`.
#![allow(unsafe_code, reason = "wrong launches")]

mod page;
mod world;

mod copies;
mod environment;
mod kernels;
mod memory;
mod places;
mod several_devices;
mod shared;
mod types;
