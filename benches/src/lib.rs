//! Measurements of cuda-um beside raw CUDA and its peers
