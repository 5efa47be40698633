//! The main job (batch_recall) and the examples of cuda-um
