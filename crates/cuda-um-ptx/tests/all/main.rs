//! Small programs for each group of instructions, all PTX of this repository, wrong kernels, and changed texts.

mod files;
mod instructions;
mod kernels;
mod machine;
mod mutants;
mod parser;
mod support;
mod wrong;
