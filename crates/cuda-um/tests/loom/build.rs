//! Selects loom's locks.

fn main() {
    println!("cargo::rustc-cfg=cuda_um_loom");
    // The features of cuda-um, which this package does not have.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"half\", \"nvrtc\"))");
    println!("cargo::rerun-if-changed=build.rs");
}
