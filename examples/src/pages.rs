//! The code of the pages that no published crate contains: documentation tests, which use only the public interface.
#![expect(dead_code, reason = "only their documentation is used")]

#[doc = include_str!("../../README.md")]
struct FrontPage;
#[doc = include_str!("../../docs/choosing.md")]
struct Choosing;
#[doc = include_str!("../../docs/graphs.md")]
struct Graphs;
#[doc = include_str!("../../docs/larger-than-memory.md")]
struct LargerThanMemory;
#[doc = include_str!("../../docs/reference.md")]
struct Reference;
#[doc = include_str!("../../docs/weights.md")]
struct Weights;
#[doc = include_str!("../../docs/without-a-gpu.md")]
struct WithoutAGpu;
