//! Values of recorded launches: constant, or with a name that `set` changes.

use cuda_um::kernel::Arguments;
use cuda_um::{DeviceBuffer, Error, UnifiedBuffer, constant};
use cuda_um_sim::{Fail, Gpu};
use cuda_um_testkit::{Add, device, simulated};

#[test]
fn a_named_scalar_is_set_in_all_launches_that_take_it() {
    let (_sim, device, stream) = device();
    let (add, other) = (Add::load(&device), device.create_stream().unwrap());
    let [mut a, mut b] = [(); 2].map(|()| UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap());
    let graph = stream
        .capture(|step| {
            let number = step.scalar("number", 1u32);
            step.fork(&other)?;
            add.launch(&stream, 10, (a.view_mut(60..)?, constant(10u32), number))?;
            add.launch(&other, 100, (&mut b, step.scalar("len", 100u32), number))?;
            add.launch(&stream, 10, (a.view_mut(60..)?, constant(10u32), number))
        })
        .unwrap();
    let mut exec = graph.instantiate().unwrap();
    exec.launch(&stream, (&mut a, &mut b)).unwrap();
    exec.set("number", 10u32).unwrap();
    exec.set("len", 50u32).unwrap();
    exec.launch(&stream, (&mut a, &mut b)).unwrap();
    let expected = [[0].as_slice(), &[22; 10], &[0]].concat();
    assert_eq!(a.host().unwrap()[59..71], expected);
    assert_eq!(b.host().unwrap()[49..51], [11, 1]);
    // Another executable graph has the recorded values.
    let mut other = graph.instantiate().unwrap();
    other.launch(&stream, (&mut a, &mut b)).unwrap();
    assert_eq!(
        (a.host().unwrap()[60], b.host().unwrap()[99]),
        (22 + 2, 1 + 1)
    );
}

#[test]
fn launches_in_flight_keep_the_earlier_value() {
    let (sim, device, stream) = simulated(Gpu::default());
    let add = Add::load(&device);
    let mut sum = DeviceBuffer::<u32>::zeroed(&device, 64).unwrap();
    let graph = stream.capture(|step| {
        let arguments = (&mut sum, constant(64u32), step.scalar("number", 1u32));
        add.launch(&stream, 64, arguments)
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    let pause = sim.pause();
    for number in [1u32, 10, 100, 1000] {
        exec.set("number", number).unwrap();
        exec.launch(&stream, (&mut sum,)).unwrap();
    }
    drop(pause);
    assert_eq!(sum.to_vec().unwrap(), [1111; 64]);
}

#[test]
fn a_plain_value_is_refused_in_a_capture() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    data.set_name("data");
    let graph = stream.capture(|step| {
        let plain = add.launch(&stream, 100, (&mut data, constant(100u32), 1u32));
        let told = plain.unwrap_err().to_string();
        assert!(
            told.starts_with(
                "a launch of kernel `add` with a plain value for parameter 2 (4 bytes)"
            ) && told.contains("`constant(value)`")
                && told.contains("`step.scalar("),
            "{told}"
        );
        for refused in [
            data.fill(1),
            data.fill_on(1, &stream),
            data.fill_on(step.scalar("value", 1), &stream),
        ] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused, Error::Capture { .. }), "{refused}");
            assert!(refused.to_string().contains("`data`"), "{refused}");
        }
        data.fill_on(constant(3), &stream)
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    exec.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(*data.host().unwrap(), [3; 100]);
    // Outside of captures, all of them are values.
    add.launch(&stream, 100, (&mut data, constant(100u32), 1u32))
        .unwrap();
    assert_eq!(*data.host().unwrap(), [4; 100]);
}

#[test]
fn a_name_has_one_type_and_one_value() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut left = None;
    let graph = stream.capture(|step| {
        let number = *left.insert(step.scalar("number", 1u32));
        add.launch(&stream, 10, (&mut data, constant(10u32), number))?;
        let again = step.scalar("number", 1u32);
        add.launch(&stream, 10, (&mut data, constant(10u32), again))?;
        let of_other_type = step.scalar("number", 1i32);
        let refused = add.launch(&stream, 10, (&mut data, constant(10u32), of_other_type));
        let told = refused.unwrap_err().to_string();
        assert!(
            told.contains("`number` of type i32") && told.contains("u32"),
            "{told}"
        );
        let of_other_value = step.scalar("number", 2u32);
        let refused = add.launch(&stream, 10, (&mut data, constant(10u32), of_other_value));
        let told = refused.unwrap_err().to_string();
        assert!(told.contains("another value"), "{told}");
        Ok(())
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    exec.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(*data.host().unwrap(), [2; 10]);
    // A scalar of a capture that has ended is its value, and is no scalar of the next capture.
    let number = left.unwrap();
    assert_eq!(number.value(), 1);
    add.launch(&stream, 10, (&mut data, 10u32, number)).unwrap();
    let other = stream.capture(|_| add.launch(&stream, 10, (&mut data, constant(10u32), number)));
    let told = other.unwrap_err().to_string();
    assert!(told.contains("of another capture"), "{told}");
}

#[test]
fn a_list_of_arguments_takes_no_scalar_of_one_capture_to_another() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let mut list = Arguments::new();
    list.push(&mut data);
    let first = stream.capture(|step| {
        list.push(step.scalar("len", 10u32));
        Ok(())
    });
    first.unwrap();
    list.push(constant(1u32));
    let second = stream.capture(|step| {
        // It has the number of the first capture's scalar.
        let _ = step.scalar("large", [0u64; 4]);
        add.launch(&stream, 10, list)
    });
    let told = second.unwrap_err().to_string();
    assert!(told.contains("of another capture"), "{told}");
}

#[test]
fn an_unknown_name_and_a_value_of_another_type_are_refused() {
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    let graph = stream.capture(|step| {
        let _unused = step.scalar("unused", 1u32);
        let (len, number) = (step.scalar("len", 10u32), step.scalar("number", 1u32));
        add.launch(&stream, 10, (&mut data, len, number))
    });
    let mut exec = graph.unwrap().instantiate().unwrap();
    for name in ["numbr", "unused"] {
        let unknown = exec.set(name, 2u32).unwrap_err();
        assert!(matches!(unknown, Error::InvalidArgument { .. }));
        let told = unknown.to_string();
        assert!(
            told.contains(&format!("`{name}`")) && told.ends_with("`len` (u32), `number` (u32)"),
            "{told}"
        );
    }
    let of_other_type = exec.set("number", 2.0f32).unwrap_err();
    assert!(matches!(of_other_type, Error::InvalidArgument { .. }));
    let told = of_other_type.to_string();
    assert!(
        told.contains("`number` of type f32") && told.contains("type u32"),
        "{told}"
    );
    let mut without = stream.capture(|_| Ok(())).unwrap().instantiate().unwrap();
    assert!(without.set("number", 2u32).is_err());
    exec.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(*data.host().unwrap(), [1; 10]);
}

#[test]
fn a_change_that_cannot_be_undone_stops_launches() {
    let (sim, device, stream) = simulated(Gpu::default());
    let add = Add::load(&device);
    let mut data = UnifiedBuffer::<u32>::zeroed(&device, 64).unwrap();
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
    assert_eq!(data.host().unwrap()[0], 2);
    // The second change fails after it was made, and so does the first one of those that undo it.
    sim.fail(fails(2).after_the_call());
    sim.fail(fails(3));
    assert!(exec.set("number", 5u32).is_err());
    let refused = exec.launch(&stream, (&mut data,)).unwrap_err();
    assert!(refused.to_string().contains("could not undo"), "{refused}");
    drop(exec);
    let mut again = graph.instantiate().unwrap();
    again.launch(&stream, (&mut data,)).unwrap();
    assert_eq!(data.host().unwrap()[0], 4);
}
