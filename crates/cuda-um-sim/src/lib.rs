//! A CUDA runtime in software: managed memory, streams and kernels with no GPU
