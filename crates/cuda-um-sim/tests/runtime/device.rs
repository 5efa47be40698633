//! Devices, attributes, peers, memory info.

use cuda_um_sim::{Gpu, Sim};
use cuda_um_sys::{cudaDeviceAttr, cudaError};

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

fn attribute(cuda: &Cuda, attribute: u32, device: i32) -> Result<i32, cudaError> {
    let mut value = 0;
    match call!(
        cuda.table,
        cudaDeviceGetAttribute(&mut value, cudaDeviceAttr(attribute), device)
    ) {
        cudaError::cudaSuccess => Ok(value),
        error => Err(error),
    }
}

#[test]
fn each_generation_has_its_abilities() {
    // Compute capability, managed, concurrent, pageable access, host page tables, direct host access, pools, integrated.
    let expected = [
        (Gpu::H200, [9, 0, 1, 1, 0, 0, 0, 1, 0]),
        (Gpu::Gh200, [9, 0, 1, 1, 1, 1, 1, 1, 0]),
        (Gpu::Hmm, [8, 9, 1, 1, 1, 0, 0, 1, 0]),
        (Gpu::Gb10, [12, 1, 1, 1, 1, 1, 0, 1, 1]),
        (Gpu::Pascal, [6, 0, 1, 1, 0, 0, 0, 1, 0]),
        (Gpu::Maxwell, [5, 2, 1, 0, 0, 0, 0, 0, 0]),
        (Gpu::NoConcurrentAccess, [8, 7, 1, 0, 0, 0, 0, 1, 1]),
    ];
    for (gpu, values) in expected {
        let cuda = Cuda::new(Sim::builder().gpu(gpu));
        for (number, value) in [75, 76, 83, 89, 88, 100, 101, 115, 18]
            .into_iter()
            .zip(values)
        {
            assert_eq!(
                attribute(&cuda, number, 0),
                Ok(value),
                "attribute {number} of {gpu:?}"
            );
        }
        for always in [19, 41, 99] {
            assert_eq!(
                attribute(&cuda, always, 0),
                Ok(1),
                "attribute {always} of {gpu:?}"
            );
        }
    }
}

#[test]
fn devices_have_names_and_addresses() {
    let cuda = Cuda::new(Sim::builder().devices(2));
    let driver = cuda.table.driver().unwrap();
    let mut name = [0 as std::ffi::c_char; 64];
    assert_eq!(
        call!(driver, cuDeviceGetName(name.as_mut_ptr(), 64, 1)).0,
        0
    );
    let name: Vec<u8> = name
        .iter()
        .map(|byte| *byte as u8)
        .take_while(|byte| *byte != 0)
        .collect();
    assert_eq!(name, b"Simulated NVIDIA H200");
    let mut id = [0 as std::ffi::c_char; 16];
    ok(call!(
        cuda.table,
        cudaDeviceGetPCIBusId(id.as_mut_ptr(), 16, 1)
    ));
    assert_eq!(
        id[..12]
            .iter()
            .map(|byte| *byte as u8 as char)
            .collect::<String>(),
        "0000:02:00.0"
    );
    assert_eq!(
        call!(cuda.table, cudaDeviceGetPCIBusId(id.as_mut_ptr(), 4, 1)),
        cudaError::cudaErrorInvalidValue
    );
}

#[test]
fn memory_info_counts_allocations_and_resident_managed_pages() {
    let cuda = h200();
    let free = || {
        let (mut free, mut total) = (0, 0);
        ok(call!(cuda.table, cudaMemGetInfo(&mut free, &mut total)));
        assert!(free < total);
        free
    };
    let before = free();
    let device = cuda.device(8 * MIB);
    assert_eq!(free(), before - 8 * MIB);
    let managed = cuda.managed(8 * MIB);
    assert_eq!(
        free(),
        before - 8 * MIB,
        "managed memory takes nothing until it is there"
    );
    cuda.run("write", managed, 8 * MIB);
    assert_eq!(free(), before - 16 * MIB);
    bytes(managed, 8 * MIB).fill(1);
    assert_eq!(free(), before - 8 * MIB);
    cuda.free(device);
    cuda.free(managed);
    assert_eq!(free(), before);
}

#[test]
fn allocations_reclaim_the_page_cache_of_an_integrated_device() {
    for (gpu, cached) in [(Gpu::Gb10, 40 * MIB), (Gpu::H200, 0)] {
        let sized = Sim::builder().gpu(gpu).total_memory_bytes(64 << 20);
        let cuda = Cuda::new(sized.page_cache_bytes(40 << 20));
        let free = || {
            let (mut free, mut total) = (0, 0);
            ok(call!(cuda.table, cudaMemGetInfo(&mut free, &mut total)));
            free
        };
        // SAFETY: the function takes any number.
        let available = || unsafe { cuda.table.simulated_available().unwrap()(0) };
        assert_eq!((free(), available()), (56 * MIB - cached, 56 * MIB));
        let device = cuda.device(48 * MIB);
        assert_eq!(available(), 8 * MIB);
        assert_eq!(free(), if cached > 0 { 0 } else { 8 * MIB });
        cuda.free(device);
        // SAFETY: as above.
        let none = unsafe { cuda.table.simulated_available().unwrap()(9) };
        assert_eq!((available(), none), (56 * MIB, 0));
    }
}

#[test]
fn a_machine_without_peers_says_so() {
    let cuda = Cuda::new(Sim::builder().gpu(Gpu::Maxwell).devices(2));
    assert_eq!(
        call!(cuda.table, cudaDeviceEnablePeerAccess(1, 0)),
        cudaError::cudaErrorPeerAccessUnsupported
    );
}
