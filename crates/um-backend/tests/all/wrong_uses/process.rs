//! Wrong uses that end the process, or concern all of it.

use std::process::Output;

use cuda_um_testkit::{again, is_child};
use um_backend::sim::Gpu;

use crate::wrong_uses::page::{Row, check};
use crate::wrong_uses::world::{World, row};

/// The child touches this memory, or nothing.
const TOUCH: &str = "CUDA_UM_TEST_TOUCH";

fn child(name: &str, value: &str) -> Output {
    again("wrong_uses::process::the_process")
        .env(name, value)
        .output()
        .unwrap()
}

/// The line of the child's standard error that begins like this.
fn line(output: &Output, start: &str) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let mut lines = text.lines().filter(|line| line.starts_with(start));
    lines.next().unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Reads memory through a pointer that is wrong.
fn touch() {
    let world = World::of(Gpu::H200);
    let pointer = match std::env::var(TOUCH).as_deref() {
        Ok("device") => {
            let buffer = world.on_device();
            let pointer = buffer.as_view().as_ptr();
            std::mem::forget(buffer);
            pointer
        }
        Ok("freed") => {
            let buffer = world.backend.allocate_unified::<f32>(8 << 20).unwrap();
            let pointer = buffer.as_ptr();
            buffer.close().unwrap();
            world.backend.device().trim();
            pointer
        }
        _ => return,
    };
    // SAFETY: none: the simulator ends the process.
    println!("{}", unsafe { pointer.read_volatile() });
}

#[test]
fn the_process() {
    if is_child() {
        return touch();
    }
    let mut rows = Vec::new();
    for (wrong, which) in [
        ("the CPU reads device memory, on the simulator", "device"),
        ("the CPU reads a freed buffer, on the simulator", "freed"),
    ] {
        let output = child(TOUCH, which);
        assert!(!output.status.success());
        rows.push(Row::new(wrong, line(&output, "cuda-um-sim: ")));
    }
    rows.push(row("a profile within a profile", |w| {
        w.backend
            .profile(|| w.backend.profile(|| ()).map(drop))?
            .0?;
        Ok(())
    }));
    check("The process", &rows);
}
