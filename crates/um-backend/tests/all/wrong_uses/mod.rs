//! Wrong uses, and the message of each: these tests produce the messages, and compare them with `docs/errors.md`.
#![allow(unsafe_code, reason = "wrong launches")]

mod environment;
mod page;
mod sections;
mod world;
