//! The capabilities of the device.

use std::sync::Arc;
use std::thread;

use um_backend::sim::Gpu;
use um_backend::{CudaDevice, CudaFeature};

use crate::support::on_each;

#[test]
fn ask() {
    on_each(|machine| {
        let backend = machine.backend();
        let device: Arc<CudaDevice> = Arc::new(backend.device().clone());
        let has = |feature| device.supports_feature(feature).unwrap();
        let good = backend.supports_unified_memory().unwrap();
        assert_eq!(good, machine.has_good_managed_memory());
        assert_eq!(good, device.managed_memory_obstacle().is_none());
        assert!(!good || has(CudaFeature::ManagedMemory));
        assert_eq!(
            has(CudaFeature::ConcurrentManagedAccess),
            machine.is_concurrent()
        );
        match machine.gpu {
            Some(gpu) => {
                assert_eq!(good, gpu != Gpu::Maxwell);
                let faults = !matches!(gpu, Gpu::Maxwell | Gpu::NoConcurrentAccess);
                assert_eq!(machine.is_concurrent(), faults);
                assert_eq!(has(CudaFeature::Integrated), gpu == Gpu::NoConcurrentAccess);
                assert_eq!(has(CudaFeature::MemoryPools), gpu != Gpu::Maxwell);
                assert!(has(CudaFeature::ManagedMemory));
                assert!(has(CudaFeature::UnifiedAddressing));
                assert!(has(CudaFeature::MapHostMemory));
                assert!(has(CudaFeature::HostRegister));
                assert_eq!(has(CudaFeature::DirectHostAccess), gpu == Gpu::Gh200);
                assert_eq!(has(CudaFeature::PageableMemoryAccess), gpu == Gpu::Gh200);
                assert_eq!(
                    has(CudaFeature::PageableUsesHostPageTables),
                    gpu == Gpu::Gh200
                );
            }
            None => assert!(has(CudaFeature::UnifiedAddressing)),
        }
        // Another thread gets the same answers through the `Arc`.
        let answers = |device: &CudaDevice| {
            CudaFeature::ALL.map(|feature| device.supports_feature(feature).unwrap())
        };
        let shared = Arc::clone(&device);
        let there = thread::spawn(move || answers(&shared)).join().unwrap();
        assert_eq!(there, answers(&device));
        let memory = device.memory_info().unwrap();
        assert!(memory.free_bytes > 0 && memory.free_bytes <= memory.total_bytes);
    });
}
