//! A profile of a program that works through cudarc.

use crate::support::{LEN, scale, world};
use cuda_um::Location;
use cudarc::driver::PushKernelArg;
use um_profile::Profiler;

#[test]
fn after_a_prefetch_there_are_no_faults_and_buffers_have_names() {
    let Some(world) = world() else { return };
    if world.runtime().version().major < 12 {
        eprintln!("skipped: the simulator has no libcupti of CUDA 11");
        return;
    }
    let (stream, function) = (world.stream(), world.scale());
    let device = Location::from(world.shared().device());
    let profiler = Profiler::start(world.runtime()).unwrap();
    let (mut a, mut b) = (world.slice(&stream, 0.0), world.slice(&stream, 0.0));
    a.set_name("input");
    b.set_name("output");
    a.prefetch_on(Location::Host, stream.ours()).unwrap();
    a.host_mut().unwrap().fill(2.0);
    a.prefetch_on(device, stream.ours()).unwrap();
    b.prefetch_on(device, stream.ours()).unwrap();
    scale!(stream.theirs(), function, &a, &mut b, 2.0);
    b.prefetch_on(Location::Host, stream.ours()).unwrap();
    assert_eq!(b.host().unwrap()[LEN - 1], 4.0);
    let trace = profiler.stop().unwrap();
    let names: Vec<_> = trace
        .buffers
        .iter()
        .map(|buffer| buffer.name.clone())
        .collect();
    for name in ["input", "output"] {
        assert!(names.iter().any(|found| found == name), "{names:?}");
    }
    let faults = |record: &&cuda_um_trace::Record| {
        use cuda_um_trace::RecordKind::{CpuFault, GpuFault};
        matches!(record.kind, CpuFault { .. } | GpuFault { .. })
    };
    assert_eq!(
        trace.records.iter().filter(faults).count(),
        0,
        "{:?}",
        trace.records
    );
}
