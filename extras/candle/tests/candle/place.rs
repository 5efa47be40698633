//! The place of tensors, and the profile of a program.

use crate::support::{numbers, world};
use candle_core::Tensor;
use cuda_um::sys::RuntimeVersion;
use cuda_um::{Advice, Location, UnifiedBuffer};
use cuda_um_trace::MigrationReport;
use um_profile::Profiler;

#[test]
fn prefetches_and_advice_reach_the_memory() {
    let Some(world) = world() else { return };
    let Some(unified) = world.owning() else {
        return;
    };
    let tensor = unified.zeros::<f32>((1024, 1024)).unwrap();
    for location in [Location::Host, Location::Device(0)] {
        unified.prefetch(&tensor, location).unwrap();
        world.candle().synchronize().unwrap();
        assert_eq!(
            unified.attributes(&tensor).unwrap().last_prefetch,
            Some(location)
        );
    }
    // CUDA takes no advice for memory of its pools, but for memory that is lent.
    let refused = unified.advise(&tensor, Advice::SetReadMostly).unwrap_err();
    assert!(
        refused.to_string().contains("cudaMallocManaged"),
        "{refused}"
    );
    let buffer = UnifiedBuffer::<f32>::zeroed(unified.ours(), 1024).unwrap();
    let advised = |tensor: &Tensor| {
        let read_mostly = || unified.attributes(tensor).unwrap().read_mostly;
        unified.advise(tensor, Advice::SetReadMostly).unwrap();
        assert!(read_mostly());
        unified.advise(tensor, Advice::UnsetReadMostly).unwrap();
        assert!(!read_mostly());
        Ok(())
    };
    // SAFETY: the work moves nothing out of the storage.
    unsafe { unified.lend(buffer, 1024, advised) }.unwrap();
    // candle moves this memory, too: its place is known where the driver can be asked.
    let is_told = unified.ours().runtime().version() >= RuntimeVersion::new(13, 4);
    let place = unified.residency(&tensor).unwrap();
    assert_eq!(place, is_told.then_some(Location::Device(0)));
}

#[test]
fn after_a_prefetch_there_are_no_faults_and_tensors_have_names() {
    let Some(world) = world() else { return };
    let Some(unified) = world.owning() else {
        return;
    };
    let profiler = match Profiler::start(world.runtime.as_ref().unwrap()) {
        Ok(profiler) => profiler,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let n = 512;
    let (a, b) = (
        unified.zeros::<f32>((n, n)).unwrap(),
        world.ordinary(&numbers(n * n), (n, n)),
    );
    let output = unified.zeros::<f32>((n, n)).unwrap();
    let names = [
        unified.name(&a, "input").unwrap(),
        unified.name(&output, "output").unwrap(),
    ];
    for tensor in [&a, &output] {
        unified.prefetch(tensor, Location::Host).unwrap();
    }
    unified
        .host_mut(&a, |elements: &mut [f32]| elements.fill(2.0))
        .unwrap();
    unified.prefetch(&a, Location::Device(0)).unwrap();
    let product = a.matmul(&b).unwrap();
    unified.prefetch(&output, Location::Device(0)).unwrap();
    let output = unified.copy(&product).unwrap();
    unified.prefetch(&output, Location::Host).unwrap();
    let read = unified
        .host(&output, |elements: &[f32]| elements[n * n - 1])
        .unwrap();
    assert_eq!(read, product.to_vec2::<f32>().unwrap()[n - 1][n - 1]);
    let trace = profiler.stop().unwrap();
    let named: Vec<_> = trace
        .buffers
        .iter()
        .map(|buffer| buffer.name.clone())
        .collect();
    for name in ["input", "output"] {
        assert!(named.iter().any(|found| found == name), "{named:?}");
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
    drop(names);
}

#[test]
fn faults_are_those_of_the_named_tensor() {
    let Some(world) = world() else { return };
    let Some(unified) = world.owning() else {
        return;
    };
    let profiler = match Profiler::start(world.runtime.as_ref().unwrap()) {
        Ok(profiler) => profiler,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let tensor = unified.zeros::<f32>((1024, 1024)).unwrap();
    let named = unified.name(&tensor, "weights").unwrap();
    unified.prefetch(&tensor, Location::Device(0)).unwrap();
    let write = |elements: &mut [f32]| elements[0] = 1.0;
    // The access imports the memory for a moment.
    unified.host_mut(&tensor, write).unwrap();
    let trace = profiler.stop().unwrap();
    let report = MigrationReport::of(&trace, &unified.ours().cost_model()).to_string();
    let line = report.lines().find(|line| line.starts_with("weights"));
    assert!(
        line.is_some_and(|line| line.contains("MiB") && line.contains("1")),
        "{report}"
    );
    drop(named);
}
