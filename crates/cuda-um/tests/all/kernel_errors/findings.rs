//! What the simulator finds in kernels, as their caller reads it.

use super::{SIZES, launch};
use cuda_um::{Device, Module, UnifiedBuffer, kernel::Arguments};
use cuda_um_sim::{Gpu, Misuse};
use cuda_um_testkit::simulated;

#[test]
fn a_kernel_that_cannot_run_names_itself_and_the_instruction() {
    let (_sim, device, _) = simulated(Gpu::H200);
    let ptx = SIZES.replacen(
        "    ret;",
        "    tcgen05.wait::ld.sync.aligned;\n    ret;",
        1,
    );
    let error = Module::load(&device, &ptx).unwrap().kernel("sizes");
    let text = error.unwrap_err().to_string();
    for says in [
        "kernel sizes: ",
        "cannot run the kernel `sizes`: line 6: ",
        "`tcgen05.wait::ld.sync.aligned;`",
    ] {
        assert!(text.contains(says), "{text}");
    }
    assert!(
        !text.contains("another device, driver or version"),
        "{text}"
    );
}

/// Launches `pair(first, second)` with this body, which has the two addresses in `%rd0` and `%rd1`; returns the error of the kernel.
fn pair(body: &str, launched: impl FnOnce(&Device, &dyn Fn(Arguments<'_>))) -> Option<String> {
    let ptx = format!(
        ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry pair(.param .u64 first, .param .u64 second)\n{{\n\
         .reg .b64 %rd<2>;\n.reg .b32 %r0;\nld.param.u64 %rd0, [first];\nld.param.u64 %rd1, [second];\n{body}\nret;\n}}\n"
    );
    let (sim, device, stream) = simulated(Gpu::H200);
    let kernel = Module::load(&device, &ptx).unwrap().kernel("pair").unwrap();
    launched(&device, &|arguments| {
        launch(&kernel, &stream, arguments).unwrap();
    });
    let error = stream.synchronize().err()?;
    sim.breaks("the kernel leaves its arguments");
    sim.misuses(1, "the kernel leaves its arguments", |misuse| {
        matches!(misuse, Misuse::KernelFault { .. })
    });
    assert!(error.is_sticky());
    let error = error.to_string();
    let (_, text) = error
        .split_once("kernel `pair`, line 10: ")
        .expect("names the kernel");
    let (text, _) = text.split_once("; the device is unusable").unwrap();
    Some(text.to_owned())
}

const WRITE_FIRST: &str = "st.global.u32 [%rd0], %r0;";
const WRITE_SECOND: &str = "st.global.u32 [%rd1], %r0;";

fn says(said: Option<String>, parts: &[&str]) {
    let said = said.expect("the kernel is at fault");
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

fn list<'a>(
    one: impl cuda_um::kernel::KernelArg + 'a,
    other: impl cuda_um::kernel::KernelArg + 'a,
) -> Arguments<'a> {
    let mut list = Arguments::new();
    list.push(one);
    list.push(other);
    list
}

#[test]
fn a_kernel_may_use_what_its_arguments_lend() {
    let shared = |device: &Device, launch: &dyn Fn(Arguments<'_>)| {
        let data = UnifiedBuffer::<u8>::zeroed(device, 8).unwrap();
        launch(list(&data, 0u64));
    };
    let read_only = "a write through an argument that is read-only";
    says(pair(WRITE_FIRST, shared), &[read_only, "(parameter 0)"]);
    // Parts of one buffer: each has its own access.
    let parts = |device: &Device, launch: &dyn Fn(Arguments<'_>)| {
        let mut data = UnifiedBuffer::<u8>::zeroed(device, 8).unwrap();
        let mut whole = data.as_view_mut();
        let (written, read) = whole.as_view_mut().split_at(4).unwrap();
        launch(list(written, read.into_view()));
    };
    let both = "ld.global.u32 %r0, [%rd1]; st.global.u32 [%rd0], %r0;";
    assert_eq!(pair(both, parts), None);
    says(pair(WRITE_SECOND, parts), &[read_only, "(parameter 1)"]);
    // The extent of a view: with exactly what the kernel accesses, and with one element less.
    for body in [
        "ld.global.u32 %r0, [%rd0+400];",
        "st.global.u32 [%rd0+400], %r0;",
    ] {
        let view_to = |end| {
            move |device: &Device, launch: &dyn Fn(Arguments<'_>)| {
                let mut data = UnifiedBuffer::<u32>::zeroed(device, 1000).unwrap();
                let mut other = UnifiedBuffer::<u32>::zeroed(device, 200).unwrap();
                launch(list(data.view_mut(50..end).unwrap(), &mut other));
            }
        };
        assert_eq!(pair(body, view_to(151)), None);
        let beyond = "the address is 0 bytes after the end of the argument";
        says(
            pair(body, view_to(150)),
            &[beyond, "4 bytes at 0x", "(parameter 0)"],
        );
    }
}
