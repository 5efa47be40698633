#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cosine_top_k;
mod error;
mod exact;
mod load;
mod metric;
mod sharded;
mod workspace;
mod world;

pub use cosine_top_k::{
    CosineTopK, Scalar, TargetScalar, TopKShape, cosine_top_k_cpu, row_inverse_norms_cpu,
};
pub use error::{Result, SearchError};
pub use exact::{
    ExactTopK, Filter, FilterKernels, Format, PiecewiseTargets, PreparedTargets, SearchBuffers,
    SearchCounts, SearchPath,
};
pub use metric::Metric;
pub use sharded::{Shard, ShardedSearch};
pub use world::World;

#[cfg(doctest)]
#[doc = include_str!("../../ranks.md")]
struct Ranks;
