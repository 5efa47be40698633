//! Models of staged copies.

mod small;
mod staging;
mod workers_alone;
