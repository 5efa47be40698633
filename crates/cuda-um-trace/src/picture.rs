//! Pictures of a trace: a page, and a file for Perfetto.

mod data;
mod escape;
mod html;
mod item;
mod json;
mod lanes;
mod perfetto;
mod put;
mod table;
mod tables;

pub use html::html;
pub use perfetto::perfetto;
