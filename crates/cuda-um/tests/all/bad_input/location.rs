//! Devices and NUMA nodes that do not exist.

use crate::bad_input::world::{Case, World, cases, run};
use cuda_um::{Advice, ErrorKind, Location, Result, UnifiedBuffer, managed::PrefetchBatch};
use cuda_um_sim::CudaVersion;

type Placed = fn(&mut World, Location) -> Result<()>;

const FUNCTIONS: [(&str, Placed); 9] = [
    ("UnifiedBuffer::advise", |w, at| {
        w.unified
            .advise(Advice::SetPreferredLocation(at))?
            .require()
    }),
    ("UnifiedBuffer::advise", |w, at| {
        w.pooled.advise(Advice::SetPreferredLocation(at))?.require()
    }),
    ("View::advise", |w, at| {
        w.unified
            .view(3..7)?
            .advise(Advice::SetAccessedBy(at))?
            .require()
    }),
    ("UnifiedBuffer::prefetch_on", |w, at| {
        w.unified.prefetch_on(at, &w.stream)?.require()
    }),
    ("View::prefetch_on", |w, at| {
        w.unified.view(3..7)?.prefetch_on(at, &w.stream)?.require()
    }),
    // Also if no page would move.
    ("View::prefetch_on", |w, at| {
        w.unified.view(3..3)?.prefetch_on(at, &w.stream)?.require()
    }),
    ("UnifiedBuffer::prefetch_on", |w, at| {
        w.mapped.prefetch_on(at, &w.stream)?.require()
    }),
    ("PrefetchBatch::prefetch_on", |w, at| {
        let mut batch = PrefetchBatch::new();
        batch.add(&w.unified).add(&w.pooled).add(&w.mapped);
        batch.prefetch_on(at, &w.stream).map(drop)
    }),
    ("PrefetchBatch::prefetch_on", |w, at| {
        PrefetchBatch::new().prefetch_on(at, &w.stream).map(drop)
    }),
];

fn each(
    location: Location,
    kind: ErrorKind,
    says: &[&str],
    cuda: CudaVersion,
) -> impl Iterator<Item = Case> {
    let says: Vec<_> = says.iter().map(|text| (*text).to_owned()).collect();
    FUNCTIONS.into_iter().map(move |(of, call)| Case {
        of,
        given: location.to_string(),
        kind,
        says: says.clone(),
        cuda,
        call: Box::new(move |world| call(world, location)),
    })
}

#[test]
fn devices_that_are_not_there() {
    for ordinal in [2, i32::MAX as u32, i32::MAX as u32 + 1, u32::MAX] {
        let says = format!("there is no device {ordinal}: the runtime has 2");
        let (location, kind) = (Location::Device(ordinal), ErrorKind::InvalidArgument);
        for cuda in [CudaVersion::V11_8, CudaVersion::V13_0] {
            run(each(location, kind, &[&says], cuda));
        }
    }
    run(cases! {
        "Runtime::device", "a device too many": |w| w.device.runtime().device(2)
            => InvalidArgument, ["there is no device 2: the runtime has 2"];
        "Runtime::device", "u32::MAX": |w| w.device.runtime().device(u32::MAX)
            => InvalidArgument, ["there is no device 4294967295: the runtime has 2"];
    });
}

#[test]
fn numa_nodes_that_are_not_there() {
    for node in [-1, i32::MIN] {
        // Accessed-by advice does not support nodes, and this error comes first.
        let says = [&*node.to_string(), "cannot be"];
        let (location, kind) = (Location::HostNuma(node), ErrorKind::InvalidArgument);
        run(each(location, kind, &says, CudaVersion::V13_0));
    }
    let absent = Location::HostNuma(4096);
    let moving = ["UnifiedBuffer::advise", "UnifiedBuffer::prefetch_on"];
    let asks_cuda = |made: &Case| moving.contains(&made.of);
    let says = ["cuda", "host NUMA node 4096", "cudaErrorInvalid"];
    // From 13.4 on CUDA reports where pages are. In older versions the library forgets the location of pages when a prefetch
    // fails, because CUDA may have moved some of them.
    let cases = each(absent, ErrorKind::Call, &says, CudaVersion::V13_4);
    // Mapped memory does not move, so CUDA does not check the node.
    run(cases.filter(asks_cuda).take(3));
}

#[test]
fn numa_nodes_as_processors_and_memory_without_advice() {
    run(cases! {
        "UnifiedBuffer::advise", "a node as a processor": |w| w.unified.advise(Advice::SetAccessedBy(Location::HostNuma(0)))
            => InvalidArgument, ["host NUMA node 0", "the host or a device"];
        "UnifiedBuffer::advise", "the current node as a processor": |w| w.unified.advise(Advice::SetAccessedBy(Location::HostNumaCurrent))
            => InvalidArgument, ["the current host NUMA node", "the host or a device"];
        "UnifiedBuffer::advise", "advice for mapped memory": |w| w.mapped.advise(Advice::SetReadMostly)?.require()
            => NotSupported, ["SetReadMostly", "managed memory", "mapped pinned memory"];
        "UnifiedBuffer::range_attributes", "mapped memory": |w| w.mapped.range_attributes()
            => NotSupported, ["range attributes", "managed memory", "mapped pinned memory"];
        "UnifiedBuffer::range_attributes", "an empty buffer": |w| UnifiedBuffer::<u32>::zeroed(&w.device, 0)?.range_attributes()
            => InvalidArgument, ["the length cannot be 0: no pages hold an empty buffer"];
    });
}
