//! CUDA kernels of cuda-um, with typed launchers and CPU twins
