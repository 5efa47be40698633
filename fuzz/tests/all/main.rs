//! The fuzz targets on mutated seeds, and on inputs that are built to need much time or memory.

mod hostile;
mod mutated;
mod support;
