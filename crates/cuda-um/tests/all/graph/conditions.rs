//! Conditions: work that runs if, or as long as, a number on the device is not 0.

use cuda_um::{Device, DeviceBuffer, Error, Result, Stream, UnifiedBuffer};
use cuda_um_sim::{CudaVersion, Gpu};
use cuda_um_testkit::{Add, Checked, device, message, simulated_with};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A machine with conditions.
fn machine() -> Option<(Option<Checked>, Device, Stream)> {
    let (sim, device, stream) = device();
    let version = device.runtime().version();
    if (version.major, version.minor) < (12, 3) {
        // Before the simulator, which looks for what is left.
        drop((stream, device));
        return None;
    }
    Some((sim, device, stream))
}

/// The number from which three rounds of an addition of 1 reach 0.
const THREE: u32 = u32::MAX - 2;

#[test]
fn a_body_runs_as_often_as_the_number_says() {
    let Some((_sim, device, stream)) = machine() else {
        return;
    };
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut go_on = DeviceBuffer::from_slice(&device, &[0u32]).unwrap();
    let mut once = UnifiedBuffer::from_slice(&device, &[0u32]).unwrap();
    let graph = stream
        .capture(|recording| {
            recording.while_on(&mut go_on, |go_on| {
                add.launch(&stream, 100, (&mut data, 100u32, 10u32))?;
                recording.if_on(&once, || {
                    add.launch(&stream, 100, (&mut data, 100u32, 1u32))?;
                    copy.fill_on(7, &stream)
                })?;
                add.launch(&stream, 1, (go_on, 1u32, 1u32))
            })?;
            add.launch(&stream, 100, (&mut data, 100u32, 1000u32))
        })
        .unwrap();
    let set = "cuda_um_set_condition";
    let kernels = [set, "add", set, "add", "add", set, "add"];
    assert_eq!(graph.kernels().collect::<Vec<_>>(), kernels);
    let dot = graph.to_dot();
    assert!(
        dot.contains("subgraph cluster_1_2 { label=\"if 1_2\";"),
        "{dot}"
    );
    assert!(
        dot.contains("1 -> 2") && dot.contains("1_2 -> 1_3"),
        "{dot}"
    );
    let mut exec = graph.instantiate().unwrap();
    let mut expected = 0;
    for (rounds, is_once, each) in [(0, 0, 0), (THREE, 0, 30), (THREE, 1, 33)] {
        go_on.copy_from_host(&[rounds]).unwrap();
        once.host_mut().unwrap()[0] = is_once;
        exec.launch(&stream, (&mut data, &mut copy, &mut go_on, &once))
            .unwrap();
        expected += each + 1000;
        assert_eq!(data.host().unwrap()[99], expected);
        assert_eq!(copy.to_vec().unwrap()[99], 7 * is_once);
        assert_eq!(go_on.to_vec().unwrap(), [0]);
    }
    // Bodies are not updated.
    let fill = |stream: &Stream| stream.capture(|recording| recording.if_on(&once, || Ok(())));
    let refused = exec
        .update(&fill(&stream).unwrap())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("work 1 is if"), "{refused}");
}

#[test]
fn bodies_share_streams_and_memory_with_the_graph() {
    let Some((_sim, device, stream)) = machine() else {
        return;
    };
    let (add, other) = (Add::load(&device), device.create_stream().unwrap());
    let on = UnifiedBuffer::from_slice(&device, &[1u32]).unwrap();
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let graph = stream
        .capture(|recording| {
            recording.fork(&other)?;
            add.launch(&other, 1000, (&mut data, 1000u32, 50_000u32))?;
            recording.if_on(&on, || {
                // After the work on the other stream, and in the body on both.
                add.launch(&stream, 1000, (&mut data, 1000u32, 50_000u32))?;
                add.launch(&other, 1000, (&mut data, 1000u32, 50_000u32))?;
                let mut own = DeviceBuffer::<u32>::zeroed(&device, 1000)?;
                stream.copy(&copy, &mut own)?;
                add.launch(&stream, 1000, (&mut own, 1000u32, 1u32))?;
                stream.copy(&own, &mut copy)
            })?;
            add.launch(&other, 1000, (&mut data, 1000u32, 1u32))
        })
        .unwrap();
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&stream, (&on, &mut data, &mut copy)).unwrap();
    exec.launch(&stream, (&on, &mut data, &mut copy)).unwrap();
    assert_eq!(data.host().unwrap()[999], 2 * 150_001);
    assert_eq!(copy.to_vec().unwrap()[999], 2);
}

#[test]
fn what_a_body_refuses() {
    let Some((_sim, device, stream)) = machine() else {
        return;
    };
    let (add, on) = (
        Add::load(&device),
        UnifiedBuffer::from_slice(&device, &[1u32; 2]).unwrap(),
    );
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let refused = |result: Result<()>| match result {
        Err(Error::Capture { call, .. }) => call,
        other => panic!("not refused: {other:?}"),
    };
    let graph = stream.capture(|recording| {
        let length = recording.if_on(&on, || Ok(())).unwrap_err();
        assert!(matches!(length, Error::LengthMismatch { .. }), "{length}");
        let (number, before) = (recording.parameter(1u32), stream.record()?);
        recording.if_on(&on.view(..1)?, || {
            let launched = add.launch(&stream, 10, (&mut data, 10u32, number));
            assert_eq!(
                refused(launched),
                "a parameter of a graph in the body of a condition"
            );
            let waited = refused(stream.wait(&before));
            assert_eq!(
                waited,
                "a wait for an event that was recorded outside of the capture"
            );
            data.fill_on(3, &stream)
        })
    });
    graph.unwrap();
    // A body that failed is not launched, also if the closure of the capture goes on.
    let graph = stream.capture(|recording| {
        let failed = recording.if_on(&on.view(..1)?, || stream.synchronize());
        assert_eq!(refused(failed), "Stream::synchronize");
        data.fill_on(4, &stream)
    });
    assert_eq!(refused(graph.map(drop)), "the end of a capture");
    let panic = catch_unwind(AssertUnwindSafe(|| {
        stream.capture(|recording| recording.if_on(&on.view(..1)?, || panic!("of the body")))
    }));
    assert_eq!(message(&*panic.unwrap_err()), "of the body");
    data.fill_on(5, &stream).unwrap();
    assert_eq!(*data.host().unwrap(), [5; 10]);
}

#[test]
fn an_older_runtime_says_which_version_has_conditions() {
    let (_sim, device, stream) = simulated_with(|sim| sim.cuda(CudaVersion::V12_2).gpu(Gpu::H200));
    let on = DeviceBuffer::from_slice(&device, &[1u32]).unwrap();
    let graph = stream.capture(|recording| recording.if_on(&on, || Ok(())));
    match graph.unwrap_err() {
        Error::NotSupported { what, needs, .. } => {
            assert_eq!(
                (&*what, &*needs),
                ("cudaGraphConditionalHandleCreate", "CUDA 12.3")
            );
        }
        other => panic!("{other}"),
    }
}
