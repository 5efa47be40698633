//! Times between devices: two H200s by NVLink against measured ones, and the links that other topologies share.

use std::ptr::null_mut;

use cuda_um_sim::{Sim, Topology};
use cuda_um_sys::{cudaMemcpyKind, cudaStream_t};

use super::cost;
use crate::support::{Cuda, MIB, bytes, call, ok};

const READ_MOSTLY: u32 = 1;
/// Simulated times may be off by this share of the measured ones.
const TOLERANCE: f64 = 0.15;

/// Devices with peer access between all of them.
fn devices(count: usize, topology: Topology) -> Cuda {
    let cuda = Cuda::new(Sim::builder().devices(count).topology(topology));
    for from in 0..count as i32 {
        on(&cuda, from, || {
            for to in (0..count as i32).filter(|to| *to != from) {
                ok(call!(cuda.table, cudaDeviceEnablePeerAccess(to, 0)));
            }
        });
    }
    cuda
}

/// Calls a function while a device is current; device 0 is it otherwise.
fn on<R>(cuda: &Cuda, device: i32, work: impl FnOnce() -> R) -> R {
    ok(call!(cuda.table, cudaSetDevice(device)));
    let result = work();
    ok(call!(cuda.table, cudaSetDevice(0)));
    result
}

fn memory(cuda: &Cuda, device: i32, len: usize) -> *mut u8 {
    on(cuda, device, || cuda.device(len))
}

fn stream(cuda: &Cuda, device: i32) -> cudaStream_t {
    on(cuda, device, || cuda.stream())
}

fn copy(cuda: &Cuda, to: *mut u8, from: *mut u8, len: usize, stream: cudaStream_t) {
    let kind = cudaMemcpyKind::cudaMemcpyDefault;
    let copied = call!(
        cuda.table,
        cudaMemcpyAsync(to.cast(), from.cast(), len, kind, stream)
    );
    ok(copied);
}

/// A copy of device memory from 0 to 1.
fn peer_copy(len: usize) -> f64 {
    let cuda = devices(2, Topology::NvLink);
    let (from, to) = (memory(&cuda, 0, len), memory(&cuda, 1, len));
    let stream = stream(&cuda, 0);
    cost(&cuda, || {
        copy(&cuda, to, from, len, stream);
        cuda.sync(stream);
    })
}

/// Managed memory that device 0 has written.
fn written_by_0(cuda: &Cuda, len: usize) -> *mut u8 {
    let data = cuda.managed(len);
    cuda.run("write", data, len);
    data
}

/// A prefetch of managed memory from 0 to 1.
fn prefetch(len: usize) -> f64 {
    let cuda = devices(2, Topology::NvLink);
    let data = written_by_0(&cuda, len);
    let stream = stream(&cuda, 1);
    cost(&cuda, || {
        ok(cuda.prefetch(data, len, 1, stream));
        cuda.sync(stream);
    })
}

/// A kernel on 1 reads managed memory of 0.
fn faults(len: usize) -> f64 {
    let cuda = devices(2, Topology::NvLink);
    let data = written_by_0(&cuda, len);
    on(&cuda, 1, || cost(&cuda, || cuda.run("read", data, len)))
}

/// Device 1 gets a duplicate of managed memory of 0, by a prefetch or by the faults of a kernel.
fn duplicates(len: usize, by_prefetch: bool) -> f64 {
    let cuda = devices(2, Topology::NvLink);
    let data = written_by_0(&cuda, len);
    ok(cuda.advise(data, len, READ_MOSTLY, 0));
    let stream = stream(&cuda, 1);
    on(&cuda, 1, || {
        cost(&cuda, || match by_prefetch {
            true => {
                ok(cuda.prefetch(data, len, 1, stream));
                cuda.sync(stream);
            }
            false => cuda.run("read", data, len),
        })
    })
}

/// A kernel on 1 reads device memory of 0 where it is.
fn reads(len: usize) -> f64 {
    let cuda = devices(2, Topology::NvLink);
    let data = memory(&cuda, 0, len);
    on(&cuda, 1, || cost(&cuda, || cuda.run("read", data, len)))
}

/// Half of the bytes to each device.
fn uploads(len: usize) -> f64 {
    let cuda = devices(2, Topology::NvLink);
    let (pinned, half) = (cuda.pinned(len), len / 2);
    let to = [0, 1].map(|device| (memory(&cuda, device, half), stream(&cuda, device)));
    cost(&cuda, || {
        for (part, (to, stream)) in to.into_iter().enumerate() {
            copy(&cuda, to, pinned.wrapping_add(part * half), half, stream);
        }
        to.into_iter().for_each(|(_, stream)| cuda.sync(stream));
    })
}

fn upload(len: usize) -> f64 {
    let cuda = devices(2, Topology::NvLink);
    let (pinned, to, stream) = (cuda.pinned(len), memory(&cuda, 0, len), stream(&cuda, 0));
    cost(&cuda, || {
        copy(&cuda, to, pinned, len, stream);
        cuda.sync(stream);
    })
}

/// All bytes to device 0, half of them through device 1.
fn relayed(len: usize) -> f64 {
    relayed_in(&devices(2, Topology::NvLink), len)
}

fn relayed_in(cuda: &Cuda, len: usize) -> f64 {
    let (pinned, half) = (cuda.pinned(len), len / 2);
    let (to, through) = (memory(cuda, 0, len), memory(cuda, 1, half));
    let (direct, around) = (stream(cuda, 0), stream(cuda, 1));
    cost(cuda, || {
        copy(cuda, to, pinned, half, direct);
        copy(cuda, through, pinned.wrapping_add(half), half, around);
        copy(cuda, to.wrapping_add(half), through, half, around);
        cuda.sync(direct);
        cuda.sync(around);
    })
}

/// The figures are of two H200s over NVLink with CUDA 13.0: microseconds, or GB/s.
#[test]
fn two_h200s_take_the_times_that_were_measured() {
    let gb_s = |bytes: usize, rate: f64| bytes as f64 / rate / 1e3;
    let at =
        |name: &'static str, work: fn(usize) -> f64, len, rate| (name, work(len), gb_s(len, rate));
    let rows = [
        ("peer copy of 64 KiB", peer_copy(64 << 10), 8.0),
        at("peer copy of 1 MiB", peer_copy, MIB, 98.0),
        at("peer copy of 16 MiB", peer_copy, 16 * MIB, 321.0),
        at("peer copy of 256 MiB", peer_copy, 256 * MIB, 391.0),
        at("prefetch of 1 MiB", prefetch, MIB, 28.0),
        at("prefetch of 16 MiB", prefetch, 16 * MIB, 152.0),
        at("prefetch of 256 MiB", prefetch, 256 * MIB, 183.0),
        at("faults of a kernel", faults, 256 * MIB, 12.4),
        at(
            "read-mostly duplicate by a prefetch",
            |len| duplicates(len, true),
            256 * MIB,
            67.9,
        ),
        at(
            "read-mostly duplicate by faults",
            |len| duplicates(len, false),
            256 * MIB,
            12.8,
        ),
        at("a kernel reads the other's memory", reads, 256 * MIB, 367.0),
        at("uploads to both at once", uploads, 256 * MIB, 110.0),
        at("upload to one", upload, 256 * MIB, 55.3),
        at("half of it through the other", relayed, 256 * MIB, 95.7),
    ];
    let mut wrong = Vec::new();
    for (name, simulated, measured) in rows {
        let line = format!("{name}: {simulated:.1} us simulated, {measured:.1} us measured");
        println!("{line}");
        if (simulated / measured - 1.0).abs() > TOLERANCE {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The time of copies of device memory at once: of each pair from the first to the second.
fn at_once(cuda: &Cuda, pairs: &[(i32, i32)], len: usize) -> f64 {
    let copies: Vec<_> = pairs
        .iter()
        .map(|&(from, to)| {
            let stream = stream(cuda, from);
            (memory(cuda, to, len), memory(cuda, from, len), stream)
        })
        .collect();
    cost(cuda, || {
        for &(to, from, stream) in &copies {
            copy(cuda, to, from, len, stream);
        }
        copies.iter().for_each(|&(_, _, stream)| cuda.sync(stream));
    })
}

#[test]
fn copies_share_what_their_topology_has_once() {
    let len = 8 * MIB;
    let time = |count, topology, pairs: &[(i32, i32)]| {
        let cuda = devices(count, topology);
        at_once(&cuda, pairs, len) / at_once(&cuda, &pairs[..1], len)
    };
    // The host enqueues one copy after the other: half a microsecond each, of 29.
    let near = |ratio: f64, expected: f64| {
        assert!(
            (ratio / expected - 1.0).abs() < 0.15,
            "{ratio}, not {expected}"
        );
    };
    for topology in [Topology::NvLink, Topology::NvSwitch, Topology::Pcie] {
        near(time(2, topology, &[(0, 1), (1, 0)]), 1.0);
        near(time(2, topology, &[(0, 1), (0, 1)]), 2.0);
    }
    // One device sends to many: over links of pairs at once, through one port one after the other.
    let (spread, ring) = ([(0, 1), (0, 2), (0, 3)], [(0, 1), (1, 2), (2, 3), (3, 0)]);
    near(time(4, Topology::NvLink, &spread), 1.0);
    near(time(4, Topology::NvSwitch, &spread), 3.0);
    near(time(4, Topology::Pcie, &spread), 3.0);
    near(time(8, Topology::NvSwitch, &ring), 1.0);
    near(time(8, Topology::NvSwitch, &[(0, 7), (1, 7), (2, 7)]), 3.0);
}

#[test]
fn a_relay_over_pcie_gains_nothing() {
    let len = 32 * MIB;
    let relayed = relayed_in(&devices(2, Topology::Pcie), len);
    assert!(
        relayed > upload(len) * 0.95,
        "one link of device 0 takes all: {relayed} us"
    );
}

#[test]
fn without_peer_access_copies_pass_the_host() {
    let cuda = Cuda::new(Sim::builder().devices(2));
    let len = 8 * MIB;
    let around = at_once(&cuda, &[(0, 1)], len);
    let direct = at_once(&devices(2, Topology::NvLink), &[(0, 1)], len);
    assert!(around > direct * 10.0, "{around} us, direct {direct} us");
    // The driver of managed memory uses NVLink in any case, and PCIe only with access.
    let migration = |topology| {
        let cuda = Cuda::new(Sim::builder().devices(2).topology(topology));
        let data = written_by_0(&cuda, len);
        cost(&cuda, || {
            ok(cuda.prefetch(data, len, 1, null_mut()));
            cuda.sync(null_mut());
        })
    };
    assert!((migration(Topology::NvLink) / prefetch(len) - 1.0).abs() < 0.01);
    assert!(migration(Topology::Pcie) > 3.0 * prefetch(len));
}

#[test]
fn a_prefetch_takes_the_link_of_its_target() {
    let cuda = devices(2, Topology::NvLink);
    let (len, stream) = (8 * MIB, stream(&cuda, 0));
    let data = [cuda.managed(len), cuda.managed(len)];
    let prefetch = |to: [i32; 2]| {
        for data in data {
            bytes(data, len)
                .chunks_mut(4096)
                .for_each(|page| page[0] = 1);
        }
        cost(&cuda, || {
            ok(cuda.prefetch(data[0], len, to[0], null_mut()));
            ok(cuda.prefetch(data[1], len, to[1], stream));
            ok(call!(cuda.table, cudaDeviceSynchronize()));
        })
    };
    let (one, both) = (prefetch([0, 0]), prefetch([0, 1]));
    assert!((one / both - 2.0).abs() < 0.1, "{one} us, {both} us");
}

#[test]
fn a_link_says_what_it_is() {
    let attribute = |topology, attribute: u32| {
        let cuda = Cuda::new(Sim::builder().devices(2).topology(topology));
        let (mut value, get) = (9, cuda.table.cudaDeviceGetP2PAttribute.unwrap());
        // SAFETY: the place is valid for the call.
        ok(unsafe { get(&mut value, cuda_um_sys::cudaDeviceP2PAttr(attribute), 0, 1) });
        value
    };
    for (topology, expected) in [
        (Topology::Pcie, [1, 1, 0, 0]),
        (Topology::NvLink, [0, 1, 1, 1]),
        (Topology::NvSwitch, [0, 1, 1, 1]),
    ] {
        let values = [1, 2, 3, 4].map(|number| attribute(topology, number));
        assert_eq!(values, expected, "{topology:?}");
    }
}
