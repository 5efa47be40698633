//! Small programs for each group of instructions, all PTX of this repository, wrong kernels, and changed texts.

mod files;
mod kernels;
mod support;
