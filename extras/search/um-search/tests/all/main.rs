//! The tests of both searches. They run on the simulator, or on a GPU with `CUDA_UM_TEST_RUNTIME=cuda`.

mod cosine_top_k;
mod exact;
mod exact_inputs;
mod exact_shared;
#[allow(
    clippy::single_range_in_vec_init,
    reason = "one shard has one range of rows"
)]
mod sharded;
mod subscriber;
mod support;
