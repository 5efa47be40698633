//! `batch_recall`, run as its users run it.

mod files;
mod output;
mod recall;
mod refusals;
