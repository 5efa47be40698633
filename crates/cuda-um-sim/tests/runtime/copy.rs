//! Explicit copies and memset.

use std::ptr::null_mut;

use crate::support::{MIB, bytes, call, h200, ok};

#[test]
fn bytes_survive_the_way_through_every_kind_of_memory() {
    let cuda = h200();
    let len = 3 * MIB + 123;
    let source: Vec<u8> = (0..len).map(|index| (index * 7 % 251) as u8).collect();
    let (device, managed, pinned, other) = (
        cuda.device(len),
        cuda.managed(len),
        cuda.pinned(len),
        cuda.device(len),
    );
    let mut back = vec![0u8; len];
    cuda.copy(device, source.as_ptr(), len);
    cuda.copy(managed, device, len);
    cuda.copy(pinned, managed, len);
    cuda.copy(other, pinned, len);
    cuda.copy(back.as_mut_ptr(), other, len);
    assert!(back == source);
    assert!(bytes(managed, len) == source);
    let counters = cuda.sim.counters();
    let len = len as u64;
    assert_eq!(
        (
            counters.copied_to_device,
            counters.copied_to_host,
            counters.copied_device_to_device
        ),
        (2 * len, 2 * len, len)
    );
}

#[test]
fn copies_into_managed_memory_stay_where_its_pages_are() {
    let cuda = h200();
    let (on_device, on_host) = (cuda.managed(MIB), cuda.managed(MIB));
    let source = vec![4u8; MIB];
    ok(cuda.prefetch(on_device, MIB, 0, null_mut()));
    bytes(on_host, MIB).fill(1);
    cuda.sync(null_mut());
    cuda.sim.reset_counters();
    cuda.copy(on_device, source.as_ptr(), MIB);
    cuda.copy(on_host, source.as_ptr(), MIB);
    let counters = cuda.sim.counters();
    assert_eq!((counters.bytes_to_device, counters.bytes_to_host), (0, 0));
    assert_eq!(
        (counters.copied_to_device, counters.copied_host_to_host),
        (MIB as u64, MIB as u64)
    );
    assert!(bytes(on_host, MIB).iter().all(|byte| *byte == 4));
    assert_eq!(cuda.sim.counters().cpu_faults, 0);
    cuda.run("add", on_device, MIB);
    assert_eq!(cuda.sim.counters().gpu_faults, 0);
    assert!(bytes(on_device, MIB).iter().all(|byte| *byte == 5));
}

#[test]
fn memset_of_managed_memory_faults_like_a_kernel() {
    let cuda = h200();
    let data = cuda.managed(MIB);
    bytes(data, MIB).fill(1);
    cuda.sim.reset_counters();
    ok(call!(
        cuda.table,
        cudaMemsetAsync(data.cast(), 0, MIB, null_mut())
    ));
    cuda.sync(null_mut());
    let counters = cuda.sim.counters();
    assert!(counters.gpu_faults > 0);
    assert_eq!(
        (counters.bytes_to_device, counters.set_bytes),
        (MIB as u64, MIB as u64)
    );
}

/// `cudaMemcpy3DParms` of a copy between memory with two rows a layer, each with its pitch.
pub(crate) fn copy_3d(
    from: (usize, usize),
    to: (usize, usize),
    extent: [usize; 3],
    direction: usize,
) -> Vec<usize> {
    let side = |(address, pitch)| [0, 0, 0, 0, address, pitch, pitch, 2];
    [&side(from)[..], &side(to), &extent, &[direction]].concat()
}

#[test]
fn rows_are_copied_and_set_by_their_pitch() {
    let cuda = h200();
    let (mut base, mut pitch) = (std::ptr::null_mut::<u8>(), 0);
    done!(cuda, cudaMallocPitch(&mut base => *mut *mut u8, &mut pitch => *mut usize, 3 => usize, 2 => usize));
    assert_eq!(pitch, 512);
    let (from, mut to) = ([1u8, 2, 3, 9, 4, 5, 6, 9], [0u8; 6]);
    let copy_in = |from_pitch: usize| {
        driver!(cuda, cudaMemcpy2D(
            base => *mut u8, 512 => usize, from.as_ptr() => *const u8, from_pitch => usize, 3 => usize, 2 => usize, 1 => u32
        ))
    };
    assert_eq!([copy_in(2), copy_in(4)], [12, 0]);
    done!(cuda, cudaMemset2D(base => *mut u8, 512 => usize, 7 => i32, 1 => usize, 2 => usize));
    done!(cuda, cudaMemcpy2D(
        to.as_mut_ptr() => *mut u8, 3 => usize, base => *const u8, 512 => usize, 3 => usize, 2 => usize, 2 => u32
    ));
    assert_eq!(to, [7, 2, 3, 7, 5, 6]);
    cuda.free(base);
}

#[test]
fn rows_and_layers_are_copied() {
    let cuda = h200();
    // Pointer, pitch, width and height.
    let mut pitched = [0_usize; 4];
    let code =
        driver!(cuda, cudaMalloc3D(&mut pitched => *mut [usize; 4], [4, 2, 2] => [usize; 3]));
    assert_eq!(
        (code, pitched[1] >= 4, pitched[2..] == [4, 2]),
        (0, true, true)
    );
    let (source, out): (Vec<u8>, _) = ((0..16).collect(), cuda.pinned(12));
    bytes(out, 12).fill(0);
    let (from, to) = ((source.as_ptr() as usize, 4), (pitched[0], pitched[1]));
    let params = copy_3d(from, to, [4, 2, 2], 1);
    done!(cuda, cudaMemcpy3D(params.as_ptr() => *const usize));
    // `CUDA_MEMCPY2D`: the last three bytes of the two rows of the second layer.
    let from = [1, 2, 2, 0, pitched[0], 0, pitched[1]];
    let to = [0, 0, 1, out as usize, 0, 0, 6];
    let params = [&from[..], &to[..], &[3, 2]].concat();
    done!(cuda, cuMemcpy2D_v2(params.as_ptr() => *const usize));
    assert_eq!(bytes(out, 12), [9, 10, 11, 0, 0, 0, 13, 14, 15, 0, 0, 0]);
    let narrow = [&from[..], &to[..6], &[2], &[3, 2]].concat();
    assert_ne!(
        driver!(cuda, cuMemcpy2D_v2(narrow.as_ptr() => *const usize)),
        0
    );
}
