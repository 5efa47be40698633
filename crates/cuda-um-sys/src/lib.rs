//! Bindings of the CUDA runtime, loaded at run time: one binary for CUDA 11.8 to 13.x
