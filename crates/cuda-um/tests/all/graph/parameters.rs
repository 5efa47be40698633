//! Parameters and updates.

use cuda_um::{DeviceBuffer, Error, UnifiedBuffer};
use cuda_um_testkit::{Add, device};

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
