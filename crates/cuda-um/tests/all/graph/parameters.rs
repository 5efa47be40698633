//! Parameters and updates.

use cuda_um::{DeviceBuffer, Error, UnifiedBuffer};
use cuda_um_sim::{Fail, Gpu};
use cuda_um_testkit::{Add, device, simulated};

#[test]
fn numbers_and_buffers_are_replaced_in_all_launches() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let [mut first, mut second] =
        [(); 2].map(|()| UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap());
    let mut handles = None;
    let graph = stream
        .capture(|recording| {
            let rounds = recording.parameter(1u32);
            let part = first.view(50..).unwrap();
            handles = Some((rounds, recording.buffer(&part)));
            for _ in 0..2 {
                add.launch(&stream, 10, (first.view_mut(60..).unwrap(), 10u32, rounds))?;
            }
            Ok(())
        })
        .unwrap();
    let (rounds, part) = handles.unwrap();
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&stream, (&mut first,)).unwrap();
    exec.set(rounds, 10).unwrap();
    exec.launch(&stream, (&mut first,)).unwrap();
    assert_eq!(
        first.host().unwrap()[59..71],
        [[0].as_slice(), &[22; 10], &[0]].concat()
    );
    // The element 60 of the first buffer is the element 10 of the parameter.
    exec.set_buffer(part, &second.view(..50).unwrap()).unwrap();
    let error = exec.launch(&stream, (&mut first,)).unwrap_err();
    assert!(
        error.to_string().contains("uses its bytes 40..200"),
        "{error}"
    );
    exec.launch(&stream, (&mut second,)).unwrap();
    assert_eq!(
        second.host().unwrap()[9..21],
        [[0].as_slice(), &[20; 10], &[0]].concat()
    );
    // Another executable graph has the recorded values.
    graph
        .instantiate()
        .unwrap()
        .launch(&stream, (&mut first,))
        .unwrap();
    assert_eq!(first.host().unwrap()[60], 24);
}

#[test]
fn impossible_parameters_are_refused() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut filled = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut handles = None;
    let graph = stream
        .capture(|recording| {
            let parts = (recording.buffer(&data), recording.buffer(&filled));
            handles = Some((recording.parameter(1u32), parts));
            add.launch(&stream, 100, (&mut data, 100u32, 1u32))?;
            filled.fill_on(1, &stream)
        })
        .unwrap();
    let (rounds, (of_data, of_filled)) = handles.unwrap();
    let refused = add
        .launch(&stream, 1, (&mut data, 1u32, rounds))
        .unwrap_err();
    assert!(matches!(refused, Error::Capture { .. }), "{refused}");
    let mut exec = graph.instantiate().unwrap();
    let short = UnifiedBuffer::<u32>::zeroed(&device, 99).unwrap();
    let long = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    assert!(matches!(
        exec.set_buffer(of_data, &short),
        Err(Error::LengthMismatch {
            expected: 100,
            found: 99,
            ..
        })
    ));
    let fill = exec.set_buffer(of_filled, &long).unwrap_err();
    assert!(
        fill.to_string().contains("uses the buffer in a fill"),
        "{fill}"
    );
    let other_kind = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    assert!(matches!(
        exec.set_buffer(of_data, &other_kind),
        Err(Error::InvalidArgument { .. })
    ));
    let mut other = stream.capture(|_| Ok(())).unwrap().instantiate().unwrap();
    assert!(matches!(
        other.set(rounds, 2),
        Err(Error::InvalidArgument { .. })
    ));
    exec.launch(&stream, (&mut data, &mut filled)).unwrap();
    assert_eq!(data.host().unwrap()[99], 1);
}

#[test]
fn an_update_takes_the_work_of_a_graph_of_the_same_shape() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let [mut a, mut b] = [(); 2].map(|()| UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap());
    let capture = |data: &mut UnifiedBuffer<u32>, rounds: u32| {
        stream
            .capture(|_| {
                data.fill_on(rounds, &stream)?;
                add.launch(&stream, 10, (&mut *data, 10u32, rounds))
            })
            .unwrap()
    };
    let mut exec = capture(&mut a, 1).instantiate().unwrap();
    exec.launch(&stream, (&mut a,)).unwrap();
    exec.update(&capture(&mut b, 20)).unwrap();
    assert!(exec.launch(&stream, (&mut a,)).is_err());
    exec.launch(&stream, (&mut b,)).unwrap();
    assert_eq!((a.host().unwrap()[0], b.host().unwrap()[0]), (2, 40));
    let reversed = stream
        .capture(|_| {
            add.launch(&stream, 10, (&mut a, 10u32, 1u32))?;
            a.fill_on(0, &stream)
        })
        .unwrap();
    let refused = exec.update(&reversed).unwrap_err();
    assert!(
        refused.to_string().contains("one whose work 0 is add"),
        "{refused}"
    );
    // Nothing has changed.
    exec.launch(&stream, (&mut b,)).unwrap();
    assert_eq!(b.host().unwrap()[0], 40);
}

#[test]
fn a_buffer_is_replaced_again_from_the_recorded_place() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let [mut first, mut last] =
        [(); 2].map(|()| UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap());
    let mut longer = UnifiedBuffer::<u32>::zeroed(&device, 128).unwrap();
    let mut parameter = None;
    let graph = stream.capture(|recording| {
        parameter = Some(recording.buffer(&first));
        add.launch(&stream, 10, (first.view_mut(..10)?, 10u32, 1u32))
    });
    let (parameter, mut exec) = (parameter.unwrap(), graph.unwrap().instantiate().unwrap());
    exec.set_buffer(parameter, &longer.view(16..116).unwrap())
        .unwrap();
    exec.launch(&stream, (&mut longer,)).unwrap();
    exec.set_buffer(parameter, &last).unwrap();
    exec.launch(&stream, (&mut last,)).unwrap();
    assert_eq!(longer.host().unwrap()[15..17], [0, 1]);
    assert_eq!(
        last.host().unwrap()[..11],
        [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]
    );
}

#[test]
fn one_buffer_does_not_take_the_place_of_two() {
    let (_sim, device, stream) = device();
    let (add, other) = (Add::load(&device), device.create_stream().unwrap());
    let [mut a, mut b] = [(); 2].map(|()| UnifiedBuffer::<u32>::zeroed(&device, 64).unwrap());
    let mut parameters = None;
    let graph = stream.capture(|recording| {
        recording.fork(&other)?;
        parameters = Some((recording.buffer(&a), recording.buffer(&b)));
        // At the same time.
        add.launch(&stream, 64, (&mut a, 64u32, 1u32))?;
        add.launch(&other, 64, (&mut b, 64u32, 10u32))
    });
    let ((of_a, of_b), mut exec) = (parameters.unwrap(), graph.unwrap().instantiate().unwrap());
    exec.set_buffer(of_a, &b).unwrap();
    let twice = exec.launch(&stream, (&mut a, &mut b)).unwrap_err();
    assert!(twice.to_string().contains("in the place of two"), "{twice}");
    exec.set_buffer(of_b, &a).unwrap();
    exec.launch(&stream, (&mut a, &mut b)).unwrap();
    assert_eq!((a.host().unwrap()[0], b.host().unwrap()[0]), (10, 1));
}

#[test]
fn a_new_buffer_is_aligned_as_the_recorded_one() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let [mut bytes, other] = [64, 80].map(|len| UnifiedBuffer::<u8>::zeroed(&device, len).unwrap());
    let mut parameter = None;
    let graph = stream.capture(|recording| {
        parameter = Some(recording.buffer(&bytes));
        let numbers = bytes.view_mut(..)?.cast::<u32>()?;
        add.launch(&stream, 16, (numbers, 16u32, 1u32))
    });
    let (parameter, mut exec) = (parameter.unwrap(), graph.unwrap().instantiate().unwrap());
    let odd = exec.set_buffer(parameter, &other.view(1..65).unwrap());
    let odd = odd.unwrap_err().to_string();
    assert!(odd.contains("not a multiple of 16"), "{odd}");
    exec.set_buffer(parameter, &other.view(16..).unwrap())
        .unwrap();
}

#[test]
fn a_change_that_cannot_be_undone_stops_launches() {
    let (sim, device, stream) = simulated(Gpu::default());
    let add = Add::load(&device);
    let [mut a, mut b] = [(); 2].map(|()| UnifiedBuffer::<u32>::zeroed(&device, 64).unwrap());
    let mut parameter = None;
    let graph = stream.capture(|recording| {
        parameter = Some(recording.buffer(&a));
        add.launch(&stream, 64, (&mut a, 64u32, 1u32))?;
        add.launch(&stream, 64, (&mut a, 64u32, 1u32))
    });
    let (parameter, graph) = (parameter.unwrap(), graph.unwrap());
    let mut exec = graph.instantiate().unwrap();
    let fails = |nth| Fail::call("cuGraphExecKernelNodeSetParams").nth(nth);
    // The second change fails, and is undone.
    sim.fail(fails(2));
    assert!(exec.set_buffer(parameter, &b).is_err());
    exec.launch(&stream, (&mut a,)).unwrap();
    assert_eq!(a.host().unwrap()[0], 2);
    // The second change fails after it was made, and so does the first one of those that undo it.
    sim.fail(fails(2).after_the_call());
    sim.fail(fails(3));
    assert!(exec.set_buffer(parameter, &b).is_err());
    let refused = exec.launch(&stream, (&mut a, &mut b)).unwrap_err();
    assert!(refused.to_string().contains("could not undo"), "{refused}");
    exec.update(&graph).unwrap();
    exec.launch(&stream, (&mut a,)).unwrap();
    assert_eq!((a.host().unwrap()[0], b.host().unwrap()[0]), (4, 0));
}
