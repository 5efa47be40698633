//! A dyn Buffer for tensor frameworks over CUDA Unified Memory, device memory and host memory
