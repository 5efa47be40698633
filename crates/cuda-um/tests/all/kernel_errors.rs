//! What is wrong with a kernel or its arguments is an error before the launch, or the text of the kernel's failure.

use cuda_um::{
    Device, DeviceBuffer, Error, ErrorKind, Kernel, LaunchConfig, Module, PinnedBuffer, Result,
    Stream, UnifiedBuffer,
    kernel::{Arguments, ByValue},
};
use cuda_um_sim::{CpuReference, CudaVersion, Gpu, Misuse, ReferenceError, Sim, register_kernel};
use cuda_um_testkit::{ADD_PTX, Add, device, simulated, simulated_with};

/// A kernel with one parameter of each common size, and its module.
const SIZES: &str = ".version 6.4
.target sm_50
.address_size 64
.visible .entry sizes(.param .u64 data, .param .u32 count, .param .u8 flag, .param .align 8 .b8 shape[32])
{
    ret;
}
.visible .entry nothing()
{
    ret;
}
";

fn load(device: &Device, name: &str) -> Kernel {
    // SAFETY: the kernels touch no memory, and neither do the references.
    #[allow(unsafe_code, reason = "the references match their kernels")]
    unsafe {
        register_kernel("sizes", |_| Ok(()));
        register_kernel("nothing", |_| Ok(()));
    }
    let module = Module::load(device, SIZES).unwrap();
    module.kernel(name).unwrap()
}

/// Launches a kernel that touches no memory, or whose arguments are refused.
fn launch(
    kernel: &Kernel,
    stream: &Stream,
    arguments: impl cuda_um::kernel::KernelArgs,
) -> Result<()> {
    // SAFETY: see above.
    #[allow(unsafe_code, reason = "launches kernels that touch no memory")]
    unsafe {
        kernel.launch(stream, LaunchConfig::linear(1, 1), arguments)
    }
}

fn refused(outcome: Result<()>, text: &str) {
    let error = outcome.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.to_string(), text);
}

fn arguments_are_checked(device: &Device, stream: &Stream) {
    let kernel = load(device, "sizes");
    assert_eq!(kernel.parameter_bytes(), Some(&[8, 4, 1, 32][..]));
    let data = DeviceBuffer::<u8>::zeroed(device, 8).unwrap();
    launch(&kernel, stream, (&data, 1u32, true, [1u64, 2, 3, 4])).unwrap();
    launch(&kernel, stream, (0u64, 1f32, 1i8, ByValue([1u8; 32]))).unwrap();
    refused(
        launch(&kernel, stream, (&data, 1u32, true)),
        "kernel sizes has 4 parameters (bytes: [8, 4, 1, 32]), and 3 arguments (bytes: [8, 4, 1]) were given: pass one for each parameter",
    );
    refused(
        launch(&kernel, stream, (&data, 1u32, true, [0u64; 4], 5u32)),
        "kernel sizes has 4 parameters (bytes: [8, 4, 1, 32]), and 5 arguments (bytes: [8, 4, 1, 32, 4]) were given: pass one for each parameter",
    );
    refused(
        launch(&kernel, stream, (&data, 1u64, true, [0u64; 4])),
        "kernel sizes: parameter 1 has 4 bytes, and its argument has 8: pass a value of the parameter's type",
    );
    refused(
        launch(&kernel, stream, (&data, 1u32, true, [0u64; 3])),
        "kernel sizes: parameter 3 has 32 bytes, and its argument has 24: pass a value of the parameter's type",
    );
    let mut list = Arguments::new();
    list.push(1u32);
    refused(
        launch(&kernel, stream, list),
        "kernel sizes has 4 parameters (bytes: [8, 4, 1, 32]), and 1 arguments (bytes: [4]) were given: pass one for each parameter",
    );
    let nothing = load(device, "nothing");
    assert_eq!(nothing.parameter_bytes(), Some(&[][..]));
    launch(&nothing, stream, ()).unwrap();
    launch(&nothing, stream, Arguments::new()).unwrap();
    assert!(matches!(
        launch(&nothing, stream, (1u32,)).unwrap_err(),
        Error::ArgumentCount { kernel, .. } if kernel == "nothing"
    ));
    stream.synchronize().unwrap();
}

#[test]
fn arguments_are_checked_against_the_parameters() {
    let (_sim, device, stream) = device();
    arguments_are_checked(&device, &stream);
}

#[test]
fn the_driver_tells_the_parameters_of_an_image_from_12_4_on() {
    for version in [CudaVersion::V12_2, CudaVersion::V12_9] {
        let (_sim, device, stream) = simulated_with(|builder| builder.cuda(version));
        arguments_are_checked(&device, &stream);
        let image = format!("{SIZES}\0");
        // SAFETY: the image is text with a NUL at its end.
        #[allow(unsafe_code, reason = "the simulator has no binary images")]
        let module = unsafe { Module::load_image(&device, image.as_bytes()) }.unwrap();
        let kernel = module.kernel("sizes").unwrap();
        let outcome = launch(&kernel, &stream, (0u64, 0u64, 0u64, [0u64; 4]));
        if version >= CudaVersion::V12_9 {
            assert_eq!(kernel.parameter_bytes(), Some(&[8, 4, 1, 32][..]));
            refused(
                outcome,
                "kernel sizes: parameter 1 has 4 bytes, and its argument has 8: pass a value of the parameter's type",
            );
        } else {
            assert_eq!(kernel.parameter_bytes(), None);
            outcome.unwrap();
        }
        stream.synchronize().unwrap();
    }
}

#[test]
fn text_that_the_driver_refuses_is_explained() {
    let (_sim, device, _) = simulated(Gpu::Pascal);
    for (ptx, says) in [
        (
            "hello",
            "CUDA_ERROR_INVALID_IMAGE (200): device kernel image is invalid: not PTX: no `.version` with a number",
        ),
        ("", "not PTX: no `.version`"),
        (
            ".version 6.4\n.target sm_60\n.entry f(",
            "CUDA_ERROR_INVALID_PTX (218): a PTX JIT compilation failed: ptxas fatal   : not PTX: entry `f` has no body",
        ),
        (
            ".version 9.9\n.target sm_60\n",
            ": update the driver, or compile for an older version",
        ),
        (
            ".version 7.8\n.target sm_90a\n",
            "CUDA_ERROR_NO_BINARY_FOR_GPU (209): no kernel image is available for execution on the device: the PTX has the target sm_90, \
             and device 0 (",
        ),
        (
            ".version 7.8\n.target sm_90\n",
            "is sm_60: compile for sm_60 or older",
        ),
    ] {
        let error = Module::load(&device, ptx).unwrap_err().to_string();
        assert!(
            error.starts_with("cuModuleLoadDataEx: module on device 0: ") && error.contains(says),
            "{error}"
        );
        assert_eq!(error.lines().count(), 1);
        let both = "the PTX has version 9.9, and the driver (CUDA ";
        assert_eq!(error.contains(both), ptx.contains("9.9"), "{error}");
    }
}

#[test]
fn the_error_of_a_missing_kernel_lists_those_that_there_are() {
    // Not every simulated GPU loads the PTX.
    let (_sim, device, _) = simulated(Gpu::H200);
    let error = |ptx: &str, name| {
        let module = Module::load(&device, ptx).unwrap();
        module.kernel(name).unwrap_err().to_string()
    };
    let text = error(SIZES, "size");
    assert!(
        text.contains("kernel size: CUDA_ERROR_NOT_FOUND (500)"),
        "{text}"
    );
    assert!(
        text.ends_with("named symbol not found: the module has sizes, nothing"),
        "{text}"
    );
    let text = error(".version 6.4\n.target sm_60\n.address_size 64\n", "size");
    assert!(text.ends_with("the module has no kernels"), "{text}");
    let mut many = ".version 6.4\n.target sm_60\n.address_size 64\n".to_owned();
    (0..20).for_each(|n| many += &format!(".visible .entry k{n}()\n{{\n    ret;\n}}\n"));
    let text = error(&many, "k20");
    assert!(text.ends_with("k14, k15 and 4 more"), "{text}");
}

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
        let (written, read) = whole.split_at_mut(4).unwrap();
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

#[test]
fn modules_with_kernels_of_one_name_do_not_disturb_each_other() {
    fn store<const N: u32>(
        launch: &mut cuda_um_sim::LaunchContext<'_>,
    ) -> std::result::Result<(), ReferenceError> {
        launch.slice_mut::<u32>(0, 1)?[0] = N;
        Ok(())
    }
    let ptx = |note: &str| {
        format!(
            "// {note}\n.version 6.4\n.target sm_50\n.address_size 64\n.entry shared_name(.param .u64 out) {{ ret; }}\n"
        )
    };
    // SAFETY: the kernels exist only as these references.
    #[allow(unsafe_code, reason = "a library's and a user's reference")]
    unsafe {
        cuda_um_sim::register_module(&ptx("a library"), &[("shared_name", store::<1>)]);
        register_kernel("shared_name", store::<2>);
    }
    let sim = Sim::builder().build().unwrap();
    let device = cuda_um::Runtime::from_table(sim.table())
        .unwrap()
        .device(0)
        .unwrap();
    let stream = device.create_stream().unwrap();
    for (note, expected) in [("a library", 1), ("a user", 2)] {
        let kernel = Module::load(&device, &ptx(note))
            .unwrap()
            .kernel("shared_name")
            .unwrap();
        let mut out = DeviceBuffer::<u32>::zeroed(&device, 1).unwrap();
        launch(&kernel, &stream, (&mut out,)).unwrap();
        assert_eq!(out.read_one(0).unwrap(), expected);
    }
    assert_eq!(sim.misuse(), []);
}
