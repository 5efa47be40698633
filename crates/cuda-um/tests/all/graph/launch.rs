//! Launches: one use of each buffer, ordered with all others; and their values: constant, or with a name that `set` changes.

use cuda_um::{Advice, DeviceBuffer, Error, UnifiedBuffer, constant, kernel::Arguments};
use cuda_um_sim::{Fail, Gpu};
use cuda_um_testkit::{Add, calls, device, fails, simulated, unpooled};

/// claim 3: the launch keeps the module, the graph and its memory
#[test]
fn buffers_and_graphs_may_be_dropped_while_a_launch_runs() {
    let (sim, device, stream) = unpooled(Gpu::default());
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let graph = stream.capture(|_| {
        let arguments = (&mut data, constant(1000u32), constant(1u32));
        add.launch(&stream, 1000, arguments)
    });
    drop(add);
    let mut exec = graph.unwrap().instantiate().unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    exec.launch(&stream, (&mut data,)).unwrap();
    drop((data, exec));
    assert!(!held.is_over(), "a drop waited");
    assert_eq!(calls(&sim, "cudaFree") + calls(&sim, "cuModuleUnload"), 0);
    drop(held);
    device.runtime().reclaim().unwrap();
}

#[test]
fn the_memory_of_a_graph_has_one_executable_graph_at_a_time() {
    let (_sim, device, stream) = device();
    let capture = || {
        let captured = stream
            .capture(|_| UnifiedBuffer::<u32>::zeroed(&device, 64)?.fill_on(constant(1), &stream));
        captured.unwrap()
    };
    let graph = capture();
    let mut exec = graph.instantiate().unwrap();
    fails!(graph.instantiate(), Error::Busy { .. });
    exec.launch(&stream, ()).unwrap();
    drop(exec);
    // An executable graph may move to another thread.
    let mut second = graph.instantiate().unwrap();
    std::thread::scope(|scope| scope.spawn(|| second.launch(&stream, ()).unwrap()).join()).unwrap();
}

#[test]
fn a_launch_on_another_stream_is_no_part_of_a_capture() {
    let (_sim, device, stream) = device();
    let other = device.create_stream().unwrap();
    let mut advised = UnifiedBuffer::<u32>::zeroed(&device, 64).unwrap();
    let mut data = DeviceBuffer::<u32>::zeroed(&device, 64).unwrap();
    let first = stream.capture(|_| {
        advised.advise(Advice::SetReadMostly)?;
        advised.fill_on(constant(3), &stream)
    });
    let mut first = first.unwrap().instantiate().unwrap();
    let second = stream.capture(|_| {
        first.launch(&other, (&mut advised,))?;
        data.fill_on(constant(1), &stream)
    });
    assert_eq!(advised.host().unwrap()[0], 3);
    let mut second = second.unwrap().instantiate().unwrap();
    second.launch(&stream, (&mut data,)).unwrap();
}

#[test]
fn a_name_has_one_type_and_one_value_in_one_capture() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut other = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut list = Arguments::new();
    list.push(&mut other);
    let mut left = None;
    let graph = stream.capture(|step| {
        let number = *left.insert(step.scalar("number", 1u32));
        list.push(step.scalar("len", 10u32));
        for number in [number, step.scalar("number", 1u32)] {
            add.launch(&stream, 10, (&mut data, constant(10u32), number))?;
        }
        let of_other_type = step.scalar("number", 1i32);
        let refused = add.launch(&stream, 10, (&mut data, constant(10u32), of_other_type));
        fails!(
            refused,
            Error::InvalidArgument { .. },
            "`number` of type i32",
            "u32"
        );
        let of_other_value = step.scalar("number", 2u32);
        let refused = add.launch(&stream, 10, (&mut data, constant(10u32), of_other_value));
        fails!(refused, Error::InvalidArgument { .. }, "another value");
        let filled = data.fill_on(step.scalar("value", 1), &stream);
        fails!(filled, Error::Capture { .. });
        Ok(())
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    exec.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(*data.host().unwrap(), [2; 10]);
    // A scalar of a capture that has ended is its value, and is no scalar of the next capture, also in a list.
    let number = left.unwrap();
    assert_eq!(number.value(), 1);
    add.launch(&stream, 10, (&mut data, 10u32, number)).unwrap();
    let graph = stream.capture(|_| add.launch(&stream, 10, (&mut data, constant(10u32), number)));
    fails!(graph, Error::Capture { .. }, "of another capture");
    list.push(constant(1u32));
    let graph = stream.capture(|step| {
        // These have the numbers of the first capture's scalars.
        let _ = (
            step.scalar("large", [0u64; 4]),
            step.scalar("larger", [0u64; 8]),
        );
        add.launch(&stream, 10, list)
    });
    fails!(graph, Error::Capture { .. }, "of another capture");
}

#[test]
fn a_change_is_of_all_launches_that_take_it_or_stops_launches() {
    let (sim, device, stream) = simulated(Gpu::default());
    let add = Add::load(&device);
    let mut data = DeviceBuffer::<u32>::zeroed(&device, 64).unwrap();
    let graph = stream.capture(|step| {
        let number = step.scalar("number", 1u32);
        add.launch(&stream, 64, (&mut data, constant(64u32), number))?;
        add.launch(&stream, 64, (&mut data, constant(64u32), number))
    });
    let graph = graph.unwrap();
    let mut exec = graph.instantiate().unwrap();
    let fails = |nth| Fail::call("cuGraphExecKernelNodeSetParams").nth(nth);
    // The second change fails, and both are undone.
    sim.fail(fails(2));
    assert!(exec.set("number", 5u32).is_err());
    exec.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(data.read_one(0).unwrap(), 2);
    exec.set("number", 10u32).unwrap();
    exec.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(data.read_one(0).unwrap(), 22);
    // The second change fails after it was made, and so does the first one of those that undo it.
    sim.fail(fails(2).after_the_call());
    sim.fail(fails(3));
    assert!(exec.set("number", 5u32).is_err());
    let refused = exec.launch(&stream, (&mut data,)).unwrap_err();
    assert!(refused.to_string().contains("could not undo"), "{refused}");
    drop(exec);
    // Another executable graph has the recorded values.
    let mut again = graph.instantiate().unwrap();
    again.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(data.read_one(0).unwrap(), 24);
}
