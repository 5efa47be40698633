//! Each operation against a reference on the host, for 1 to 8 devices and each kind of memory.

use super::World;
use cuda_um::collective::{Number, Reduce, group};
use cuda_um::{Device, DeviceBuffer, DeviceCopy, Devices, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::calls;
use std::fmt::Debug;

const MACHINES: [(Gpu, usize); 6] = [
    (Gpu::H200, 1),
    (Gpu::H200, 2),
    (Gpu::H200, 4),
    (Gpu::H200, 8),
    (Gpu::Gh200, 2),
    (Gpu::NoConcurrentAccess, 2),
];

/// An odd number, so that parts are not aligned.
const COUNT: usize = 237;

fn unified<T: DeviceCopy>(device: &Device, values: &[T]) -> UnifiedBuffer<T> {
    UnifiedBuffer::from_slice(device, values).unwrap()
}

/// Element `i` of rank `rank`.
fn value(rank: usize, i: usize) -> u64 {
    (rank as u64 + 1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(i as u32 % 64)
        ^ i as u64
}

fn parts<T>(ranks: usize, of: impl Fn(usize, usize) -> T, count: usize) -> Vec<Vec<T>> {
    let rank = |rank| (0..count).map(|i| of(rank, i)).collect();
    (0..ranks).map(rank).collect()
}

/// What a reduction does with two elements, in the order of the ranks.
type Combine<T> = fn(T, T) -> T;

fn reduces<T: Number + Debug + PartialEq>(
    of: impl Fn(u64) -> T,
    reductions: &[(Reduce, Combine<T>)],
    average: impl Fn(&[T]) -> T,
) {
    for (gpu, devices) in MACHINES {
        let world = World::new(gpu, devices);
        let all = COUNT * devices;
        let values = parts(devices, |rank, i| of(value(rank, i)), all);
        let column = |i: usize| values.iter().map(move |part| part[i]);
        let by = |(how, combine): &(Reduce, Combine<T>)| {
            let reduced = (0..all).map(|i| column(i).reduce(combine).unwrap());
            (*how, reduced.collect::<Vec<_>>())
        };
        let averages = (0..all).map(|i| average(&column(i).collect::<Vec<_>>()));
        let mut expected: Vec<_> = reductions.iter().map(by).collect();
        expected.push((Reduce::Average, averages.collect()));

        let each = || world.devices.iter().zip(&values);
        let sources: Vec<_> = each().map(|(device, part)| unified(device, part)).collect();
        for (how, expected) in expected {
            let zeroed = |device| DeviceBuffer::<T>::zeroed(device, all).unwrap();
            let mut targets: Vec<_> = world.devices.iter().map(zeroed).collect();
            world
                .all(&sources, &mut targets, |rank, source, target| {
                    rank.all_reduce(source, target, how)
                })
                .unwrap();
            for target in &targets {
                assert_eq!(target.to_vec().unwrap(), expected, "all_reduce {how:?}");
            }
            let mut in_place: Vec<_> = each().map(|(device, part)| unified(device, part)).collect();
            world
                .all(&sources, &mut in_place, |rank, _, buffer| {
                    rank.all_reduce_in_place(buffer, how)
                })
                .unwrap();
            for buffer in &in_place {
                assert_eq!(*buffer.host().unwrap(), expected, "in place {how:?}");
            }
            let zeroed = |device| UnifiedBuffer::<T>::zeroed(device, COUNT).unwrap();
            let mut targets: Vec<_> = world.devices.iter().map(zeroed).collect();
            world
                .all(&sources, &mut targets, |rank, source, target| {
                    rank.reduce_scatter(source, target, how)
                })
                .unwrap();
            for (target, expected) in targets.iter().zip(expected.chunks(COUNT)) {
                assert_eq!(*target.host().unwrap(), *expected, "reduce_scatter {how:?}");
            }
        }
    }
}

#[test]
fn integers_are_reduced_to_the_bit() {
    macro_rules! each {
        ($($type:ty)*) => {$(
            let reductions: [(Reduce, Combine<$type>); 4] = [
                (Reduce::Sum, |a, b| a.wrapping_add(b)),
                (Reduce::Product, |a, b| a.wrapping_mul(b)),
                (Reduce::Max, |a, b| a.max(b)),
                (Reduce::Min, |a, b| a.min(b)),
            ];
            reduces(|bits| bits as $type, &reductions, |all| {
                all.iter().fold(0, |sum: $type, it| sum.wrapping_add(*it)) / all.len() as $type
            });
        )*};
    }
    each!(i8 u32 i64);
}

#[test]
fn floats_are_reduced_in_the_order_of_the_ranks() {
    let reductions: [(Reduce, Combine<f32>); 4] = [
        (Reduce::Sum, |a, b| a + b),
        (Reduce::Product, |a, b| a * b),
        (Reduce::Max, f32::max),
        (Reduce::Min, f32::min),
    ];
    let of = |bits: u64| (bits >> 40) as f32 / 1000.0 - 8000.0;
    reduces(of, &reductions, |all| {
        let share = 1.0 / all.len() as f32;
        all.iter()
            .map(|it| it * share)
            .reduce(|a, b| a + b)
            .unwrap()
    });
}

#[test]
#[cfg(feature = "half")]
fn half_precision_is_rounded_after_each_step() {
    use half::bf16;
    let reductions: [(Reduce, Combine<bf16>); 1] = [(Reduce::Sum, |a, b| a + b)];
    let of = |bits: u64| bf16::from_f64((bits >> 50) as f64 / 16.0);
    reduces(of, &reductions, |all| {
        let share = bf16::from_f64(1.0 / all.len() as f64);
        all.iter()
            .map(|it| *it * share)
            .reduce(|a, b| a + b)
            .unwrap()
    });
}

#[test]
fn elements_of_any_type_are_gathered_broadcast_and_sent() {
    #[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
    #[repr(C)]
    struct Odd([u8; 5]);
    let of = |rank, i| Odd(value(rank, i).to_ne_bytes()[..5].try_into().unwrap());
    for (gpu, devices) in MACHINES {
        let world = World::new(gpu, devices);
        let values = parts(devices, of, COUNT);
        let each = || world.devices.iter().zip(&values);
        let sources: Vec<_> = each().map(|(device, part)| unified(device, part)).collect();
        let zeroed = |count| {
            let zeroed = move |device| DeviceBuffer::<Odd>::zeroed(device, count).unwrap();
            world.devices.iter().map(zeroed).collect::<Vec<_>>()
        };

        let mut gathered = zeroed(COUNT * devices);
        world
            .all(&sources, &mut gathered, |rank, source, target| {
                rank.all_gather(source, target)
            })
            .unwrap();
        let expected = values.concat();
        for target in &gathered {
            assert_eq!(target.to_vec().unwrap(), expected);
        }

        let mut in_place = zeroed(COUNT * devices);
        for (rank, target) in in_place.iter_mut().enumerate() {
            let mut part = target.view_mut(rank * COUNT..(rank + 1) * COUNT).unwrap();
            part.copy_from_host(&values[rank]).unwrap();
        }
        world
            .all(&sources, &mut in_place, |rank, _, target| {
                rank.all_gather_in_place(target)
            })
            .unwrap();
        for target in &in_place {
            assert_eq!(target.to_vec().unwrap(), expected);
        }

        let root = devices - 1;
        let mut buffers: Vec<_> = each().map(|(device, part)| unified(device, part)).collect();
        world
            .all(&sources, &mut buffers, |rank, _, buffer| {
                rank.broadcast(buffer, root)
            })
            .unwrap();
        for buffer in &buffers {
            assert_eq!(*buffer.host().unwrap(), values[root]);
        }

        if devices == 1 {
            continue;
        }
        // Each rank sends to the next one, and receives from the one before, in one group.
        let mut received = zeroed(COUNT);
        let sends = world.ranks.iter().zip(&sources);
        let sends = sends.map(|(rank, source)| rank.send(source, (rank.rank() + 1) % devices));
        let receives = world.ranks.iter().zip(&mut received);
        let receives = receives
            .map(|(rank, target)| rank.receive(target, (rank.rank() + devices - 1) % devices));
        group(sends.chain(receives)).unwrap();
        for (rank, target) in received.iter().enumerate() {
            let from = (rank + devices - 1) % devices;
            assert_eq!(target.to_vec().unwrap(), values[from]);
        }
    }
}

#[test]
fn operations_are_ordered_with_other_uses_of_their_buffers() {
    let world = World::new(Gpu::H200, 2);
    let _hold = world.sim.hold(7);
    let zeroed = |device| UnifiedBuffer::<u32>::zeroed(device, COUNT).unwrap();
    let mut sources: Vec<_> = world.devices.iter().map(zeroed).collect();
    for (device, source) in world.devices.iter().zip(&mut sources) {
        source.fill_on(5, &device.create_stream().unwrap()).unwrap();
    }
    let mut targets: Vec<_> = world.devices.iter().map(zeroed).collect();
    world
        .all(&sources, &mut targets, |rank, source, target| {
            rank.all_reduce(source, target, Reduce::Sum)
        })
        .unwrap();
    // Dropped in use; and written after the read of the operation.
    sources.pop();
    sources[0]
        .fill_on(9, &world.devices[0].create_stream().unwrap())
        .unwrap();
    for target in &targets {
        assert!(target.host().unwrap().iter().all(|it| *it == 10));
    }
    assert!(sources[0].host().unwrap().iter().all(|it| *it == 9));
}

#[test]
fn managed_buffers_are_on_the_device_before_the_operation() {
    let world = World::new(Gpu::H200, 2);
    let ones = vec![1u8; 8 << 20];
    let mut buffers: Vec<_> = world.devices.iter().map(|it| unified(it, &ones)).collect();
    for buffer in &buffers {
        buffer.prefetch(cuda_um::Location::Host).unwrap();
        drop(buffer.host().unwrap());
    }
    world.sim.reset_counters();
    world
        .all(&[(), ()], &mut buffers, |rank, (), buffer| {
            rank.all_reduce_in_place(buffer, Reduce::Sum)
        })
        .unwrap();
    world
        .streams
        .iter()
        .for_each(|it| it.synchronize().unwrap());
    let counters = world.sim.counters();
    assert_eq!(counters.gpu_faults, 0, "{counters:?}");
    assert_eq!(counters.bytes_to_device, 16 << 20, "{counters:?}");
    // A ring over the link: each byte of both halves passes it once in each step.
    let link = cuda_um::cost::CostModel::h200().remote_rate;
    let least = std::time::Duration::from_secs_f64((8 << 20) as f64 / link);
    assert!(world.sim.device_time(1).unwrap() > least);
}

/// NCCL may count on it.
#[test]
fn peer_access_stays_once_there_are_ranks() {
    let world = World::new(Gpu::H200, 2);
    let devices = Devices::of(world.devices.iter().cloned()).unwrap();
    devices.enable_peer_access().unwrap().close().unwrap();
    assert_eq!(calls(&world.sim, "cudaDeviceDisablePeerAccess"), 0);
}
