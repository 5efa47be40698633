//! Small programs for each group of instructions, all PTX of this repository, wrong kernels, changed texts, and `math` and whole programs beside other
//! implementations and a GPU.

#[macro_use]
mod support;

mod answers;
mod files;
mod foreign;
#[path = "../generated/mod.rs"]
mod generated;
mod instructions;
mod kernels;
mod machine;
mod math;
mod mutants;
mod parser;
mod wrong;
