//! PTX that the driver refuses, and kernels that a module does not have.

use um_backend::cuda_um::{Kernel, Module};
use um_backend::sim::Gpu;

use crate::wrong_uses::page::check;
use crate::wrong_uses::world::{World, row_on, rows};

const HEAD: &str = ".version 6.4\n.target sm_50\n.address_size 64\n";

fn load(world: &World, text: &str) -> um_backend::cuda_um::Result<Module> {
    Module::load(world.backend.device(), text)
}

/// A kernel of this name, in a module with `mini_add` and with `mini_mul`, which uses an instruction that the simulator lacks.
fn kernel(world: &World, name: &str) -> um_backend::cuda_um::Result<Kernel> {
    let entries = ".visible .entry mini_add()\n{\n ret;\n}\n.visible .entry mini_mul()\n{\n tcgen05.wait::ld.sync.aligned;\n ret;\n}\n";
    load(world, &format!("{HEAD}{entries}"))?.kernel(name)
}

#[test]
fn modules() {
    let mut rows = rows! {
        "`Module::load(device, \"hello\")`" => |w| load(w, "hello");
        "an empty text" => |w| load(w, "");
        "PTX with a NUL" => |w| load(w, ".\0");
        "a binary image as text" => |w| load(w, "\u{7f}ELF\u{2}\u{1}");
        "an entry without a body" => |w| load(w, &format!("{HEAD}.entry f("));
        "PTX of a version that the driver does not know" => |w| load(w, ".version 9.9\n.target sm_60\n");
        "`kernel(\"mini_ad\")`, misspelt" => |w| kernel(w, "mini_ad");
        "a kernel with an instruction that the simulator lacks" => |w| kernel(w, "mini_mul");
        "`allow_shared_bytes(10 << 20)`" => |w| kernel(w, "mini_add")?.allow_shared_bytes(10 << 20);
    };
    let pascal = World::of(Gpu::Pascal);
    rows.push(row_on(&pascal, "PTX for a newer GPU", |w| {
        load(w, ".version 7.8\n.target sm_90\n")?;
        Ok(())
    }));
    check("Modules", &rows);
}
