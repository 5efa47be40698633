//! Models of staged copies.

mod staging;
mod workers_alone;
