//! Safe CUDA Unified Memory: buffers, advice, stream-ordered prefetch, launches
