//! What is wrong with a kernel or its arguments is an error before the launch, or the text of the kernel's failure.

use cuda_um::kernel::Arguments;
use cuda_um::{Device, DeviceBuffer, Error, Module, Stream, UnifiedBuffer};
use cuda_um_sim::{CudaVersion, Gpu, Misuse};
use cuda_um_testkit::{ADD_PTX, Add, device, fails, simulated, simulated_with};

#[test]
fn arguments_are_checked_against_the_parameters_from_cuda_12_4_on() {
    let check = |device: &Device, stream: &Stream| {
        let (add, version) = (Add::load(device), device.runtime().version());
        let mut data = DeviceBuffer::<u32>::zeroed(device, 100).unwrap();
        let launched = add.launch(stream, 100, (&mut data, 100u64, 1u32));
        if (version.major, version.minor) < (12, 4) {
            launched.unwrap();
            return stream.synchronize().unwrap();
        }
        fails!(launched, Error::Arguments { ref kernel, .. } if kernel == "add");
        let mut list = Arguments::new();
        list.push(&mut data);
        fails!(add.launch(stream, 100, list), Error::Arguments { .. });
        for refused in [
            add.launch(stream, 100, (&mut data, 100u32)),
            add.launch(stream, 100, (&mut data, 100u32, 1u32, 1u32)),
        ] {
            fails!(refused, Error::Arguments { .. });
        }
        assert_eq!(data.to_vec().unwrap(), [0; 100]);
    };
    let (_sim, here, stream) = device();
    check(&here, &stream);
    let (_sim, older, stream) = simulated_with(|builder| builder.cuda(CudaVersion::V12_2));
    check(&older, &stream);
}

#[test]
fn a_kernel_that_cannot_run_names_itself_and_the_instruction() {
    let (_sim, device, _) = simulated(Gpu::H200);
    let ptx = ADD_PTX.replacen("ret;", "tcgen05.wait::ld.sync.aligned;", 1);
    let kernel = Module::load(&device, &ptx).unwrap().kernel("add");
    let says = [
        "kernel add: ",
        "`add`: line 37: ",
        "`tcgen05.wait::ld.sync.aligned;`",
    ];
    let text = fails!(kernel, Error::Call { .. }, says[0], says[1], says[2]);
    assert!(
        !text.contains("another device, driver or version"),
        "{text}"
    );
}

/// The text with which `add` fails, for so many elements of this argument.
fn failure(
    count: usize,
    lend: impl FnOnce(&mut UnifiedBuffer<u32>, &dyn Fn(Arguments<'_>)),
) -> Option<String> {
    let (sim, device, stream) = simulated(Gpu::H200);
    let (add, mut data) = (
        Add::load(&device),
        UnifiedBuffer::zeroed(&device, 1000).unwrap(),
    );
    lend(&mut data, &|mut arguments| {
        arguments.push(count as u32);
        arguments.push(1u32);
        add.launch(&stream, count, arguments).unwrap();
    });
    let error = stream.synchronize().err()?;
    sim.breaks("the kernel leaves its arguments");
    sim.misuses(1, "the kernel leaves its arguments", |misuse| {
        matches!(misuse, Misuse::KernelFault { .. })
    });
    assert!(error.is_sticky());
    Some(error.to_string())
}

#[test]
fn a_kernel_may_use_what_its_arguments_lend() {
    let part = |count| {
        failure(count, |data, launch| {
            let mut arguments = Arguments::new();
            arguments.push(data.view_mut(50..150).unwrap());
            launch(arguments);
        })
    };
    assert_eq!(part(100), None);
    let read_only = failure(10, |data, launch| {
        let mut arguments = Arguments::new();
        arguments.push(&*data);
        launch(arguments);
    });
    for (failure, says) in [
        (
            part(101),
            "the address is 0 bytes after the end of the argument",
        ),
        (read_only, "a write through an argument that is read-only"),
    ] {
        let text = failure.expect("the kernel is at fault");
        for part in [
            "kernel `add`, line ",
            says,
            "(parameter 0)",
            "the device is unusable",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
