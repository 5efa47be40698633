//! Pictures of a trace: a page, a drawing, and a file for Perfetto.

mod data;
mod escape;
mod html;
mod item;
mod json;
mod lanes;
mod perfetto;
mod put;
mod svg;
mod table;
mod tables;

pub use html::html;
pub use perfetto::perfetto;
pub use svg::svg;
