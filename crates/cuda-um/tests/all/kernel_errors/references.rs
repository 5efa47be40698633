//! The complaints of CPU references.

use super::{SIZES, launch};
use cuda_um::{Device, DeviceBuffer, Module, PinnedBuffer, UnifiedBuffer, kernel::Arguments};
use cuda_um_sim::{CpuReference, Gpu, Misuse, ReferenceError};
use cuda_um_testkit::{ADD_PTX, Add, simulated, simulated_with};

#[test]
fn a_kernel_without_a_reference_names_itself_and_the_way_out() {
    let (sim, device, _) = simulated(Gpu::H200);
    sim.misuses(1, "the test looks it up", |misuse| {
        matches!(misuse, Misuse::NoReference { .. })
    });
    let ptx = SIZES.replace("sizes", "sizes_without_a_reference");
    let error = Module::load(&device, &ptx)
        .unwrap()
        .kernel("sizes_without_a_reference");
    let text = error.unwrap_err().to_string();
    for says in [
        "kernel sizes_without_a_reference: ",
        "none is registered for the kernel `sizes_without_a_reference`",
        "`cuda_um_sim::register_kernel`",
    ] {
        assert!(text.contains(says), "{text}");
    }
    assert!(
        !text.contains("another device, driver or version"),
        "{text}"
    );
}

#[test]
fn what_a_reference_complains_of_reaches_the_caller() {
    let size: CpuReference = |launch| launch.value::<u64>(1).map(drop);
    let outside: CpuReference = |launch| launch.slice::<u8>(0, 1 << 40).map(drop);
    let own: CpuReference = |_| Err(ReferenceError::Failed("rounds differ".to_owned()));
    let panics: CpuReference = |_| panic!("my assertion");
    for (reference, says) in [
        (
            size,
            "kernel `add`: parameter 1 has 4 bytes, its CPU reference expects 8",
        ),
        (
            outside,
            "kernel `add`: parameter 0 was passed 16 bytes of a buffer, and the kernel reads the bytes 0 to 1099511627776 from its address on",
        ),
        (own, "kernel `add`: rounds differ"),
        (
            panics,
            "kernel `add`: its CPU reference panicked: my assertion",
        ),
    ] {
        // SAFETY: the references write nothing.
        #[allow(unsafe_code, reason = "a reference that fails")]
        let (sim, device, stream) =
            simulated_with(|builder| unsafe { builder.kernel("add", reference) });
        sim.breaks("the reference fails");
        sim.misuses(1, "the reference fails", |misuse| {
            matches!(misuse, Misuse::KernelFault { .. })
        });
        let add = Add(Module::load(&device, ADD_PTX)
            .unwrap()
            .kernel("add")
            .unwrap());
        let mut data = DeviceBuffer::<u32>::zeroed(&device, 4).unwrap();
        add.launch(&stream, 4, (&mut data, 4u32, 1u32)).unwrap();
        let error = stream.synchronize().unwrap_err();
        assert!(error.is_sticky());
        assert!(error.to_string().contains(says), "{error}");
    }
}

/// Launches `pair(first, second)` with this reference; returns the error of the kernel.
fn pair(
    reference: CpuReference,
    launched: impl FnOnce(&Device, &dyn Fn(Arguments<'_>)),
) -> Option<String> {
    let ptx = ".version 6.4\n.target sm_50\n.address_size 64\n.entry pair(.param .u64 first, .param .u64 second) { ret; }\n";
    // SAFETY: the tests pass memory that the references may use, or the simulator refuses.
    #[allow(unsafe_code, reason = "the kernel exists only as its references")]
    let (sim, device, stream) =
        simulated_with(|builder| unsafe { builder.kernel("pair", reference) });
    let kernel = Module::load(&device, ptx).unwrap().kernel("pair").unwrap();
    launched(&device, &|arguments| {
        launch(&kernel, &stream, arguments).unwrap();
    });
    let error = stream.synchronize().err()?.to_string();
    sim.breaks("the kernel leaves its arguments");
    sim.misuses(1, "the kernel leaves its arguments", |misuse| {
        matches!(misuse, Misuse::KernelFault { .. })
    });
    let (_, text) = error
        .split_once("kernel `pair`: ")
        .expect("names the kernel");
    let (text, _) = text.split_once("; the device is unusable").unwrap();
    Some(text.to_owned())
}

fn list<'a>(
    one: impl cuda_um::KernelArg + 'a,
    other: impl cuda_um::KernelArg + 'a,
) -> Arguments<'a> {
    let mut list = Arguments::new();
    list.push(one);
    list.push(other);
    list
}

#[test]
fn a_kernel_that_writes_an_argument_passed_as_shared_is_an_error() {
    let write: CpuReference = |launch| launch.slice_mut::<u8>(0, 4).map(drop);
    let both: CpuReference = |launch| launch.in_place::<u8>(1, 0, 4).map(drop);
    let expected = "parameter 0 was passed to be read (`&`), and the kernel writes it: pass `&mut`, or only read it";
    for reference in [write, both] {
        let said = pair(reference, |device, launch| {
            let data = UnifiedBuffer::<u8>::zeroed(device, 8).unwrap();
            launch(list(&data, &data));
        });
        assert_eq!(said.as_deref(), Some(expected));
        let said = pair(reference, |device, launch| {
            let data = PinnedBuffer::<u8>::zeroed(device, 8).unwrap();
            launch(list(data.view(..4).unwrap(), 0u64));
        });
        assert_eq!(said.as_deref(), Some(expected), "also as a view");
    }
    // Parts of one buffer: each has its own access.
    let read_second: CpuReference = |launch| {
        launch.slice::<u8>(1, 4)?;
        launch.slice_mut::<u8>(0, 4).map(drop)
    };
    let write_second: CpuReference = |launch| launch.slice_mut::<u8>(1, 4).map(drop);
    let parts = |device: &Device, launch: &dyn Fn(Arguments<'_>)| {
        let mut data = UnifiedBuffer::<u8>::zeroed(device, 8).unwrap();
        let mut whole = data.as_view_mut();
        let (written, read) = whole.as_view_mut().split_at(4).unwrap();
        launch(list(written, read.into_view()));
    };
    assert_eq!(pair(read_second, parts), None);
    let said = pair(write_second, parts);
    assert_eq!(said, Some(expected.replace("parameter 0", "parameter 1")));
    // The same memory through an address that was passed as a number.
    let by_number: CpuReference = |launch| launch.slice_mut::<u8>(1, 4).map(drop);
    let said = pair(by_number, |device, launch| {
        let data = UnifiedBuffer::<u8>::zeroed(device, 8).unwrap();
        launch(list(&data, data.as_ptr() as u64));
    });
    assert_eq!(said.as_deref(), Some(expected));
    // An empty slice is no access.
    let nothing: CpuReference = |launch| launch.slice_mut::<u8>(0, 0).map(drop);
    let said = pair(nothing, |device, launch| {
        let data = UnifiedBuffer::<u8>::zeroed(device, 8).unwrap();
        launch(list(&data, 0u64));
    });
    assert_eq!(said, None);
}

#[test]
fn a_kernel_that_leaves_its_argument_within_a_slab_is_an_error() {
    let reads: CpuReference = |launch| launch.slice::<u32>(0, 101).map(drop);
    let writes: CpuReference = |launch| launch.slice_mut::<u32>(0, 101).map(drop);
    let reads_a_window: CpuReference = |launch| launch.slice_at::<u32>(0, 100..101).map(drop);
    let in_place: CpuReference = |launch| launch.in_place::<u32>(0, 1, 101).map(drop);
    for (reference, access) in [
        (reads, "reads the bytes 0 to 404"),
        (writes, "writes the bytes 0 to 404"),
        (reads_a_window, "reads the bytes 400 to 404"),
        (in_place, "reads the bytes 0 to 404"),
    ] {
        let said = |bytes: usize| {
            Some(format!(
                "parameter 0 was passed {bytes} bytes of a buffer, and the kernel {access} from its address on"
            ))
        };
        // A buffer: with exactly what the kernel accesses, and with one element less, beside others in a slab.
        let of_len = |len| {
            move |device: &Device, launch: &dyn Fn(Arguments<'_>)| {
                let mut data = UnifiedBuffer::<u32>::zeroed(device, len).unwrap();
                let mut other = UnifiedBuffer::<u32>::zeroed(device, 200).unwrap();
                launch(list(&mut data, &mut other));
            }
        };
        assert_eq!(pair(reference, of_len(101)), None);
        assert_eq!(pair(reference, of_len(100)), said(400));
        assert_eq!(pair(reference, of_len(0)), said(0));
        // A view of a larger buffer: the extent is the view's.
        let of_view = pair(reference, |device, launch| {
            let mut data = DeviceBuffer::<u32>::zeroed(device, 1000).unwrap();
            let mut other = UnifiedBuffer::<u32>::zeroed(device, 200).unwrap();
            launch(list(data.view_mut(50..150).unwrap(), &mut other));
        });
        assert_eq!(of_view, said(400));
        // An address as a number declares nothing.
        let of_number = pair(reference, |device, launch| {
            let mut data = UnifiedBuffer::<u32>::zeroed(device, 1000).unwrap();
            let mut other = UnifiedBuffer::<u32>::zeroed(device, 200).unwrap();
            launch(list(data.as_view_mut().as_mut_ptr() as u64, &mut other));
        });
        assert_eq!(of_number, None);
    }
    // One range as input and output: the input has an extent of its own.
    let of_both = pair(in_place, |device, launch| {
        let mut data = UnifiedBuffer::<u32>::zeroed(device, 100).unwrap();
        let both = data.as_view_mut().in_place();
        launch(list(both, both));
    });
    assert!(
        of_both
            .unwrap()
            .starts_with("parameter 1 was passed 400 bytes")
    );
}
