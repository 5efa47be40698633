//! Runs `batch_recall` as a user does.

mod files;
mod output;
mod recall;
mod refusals;
