//! Files are read into buffers, and written from them, through the one pointer.

use std::io::{Read, Seek, Write};

use um_backend::UnifiedBuffer;

use crate::support::kernel::Double;
use crate::support::on_each;

/// More than one block of 2 MiB.
const LEN: usize = (5 << 20) / 4 + 3;

fn bytes(values: &[f32]) -> Vec<u8> {
    values
        .iter()
        .flat_map(|value| value.to_ne_bytes())
        .collect()
}

#[test]
#[cfg_attr(
    thread_sanitizer,
    ignore = "the simulator has no system calls under ThreadSanitizer"
)]
fn a_file_goes_into_a_fresh_buffer_and_comes_from_a_device() {
    on_each(|machine| {
        let backend = machine.backend();
        let double = Double::load(backend.device());
        let values: Vec<f32> = (0..LEN).map(|index| index as f32).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes(&values)).unwrap();
        file.rewind().unwrap();
        // The pages of a fresh buffer are on the device.
        let mut buffer: UnifiedBuffer<f32> = backend.allocate_unified(LEN).unwrap();
        let mut whole = buffer.as_slice_mut().unwrap();
        file.read_exact(bytemuck::cast_slice_mut(&mut whole))
            .unwrap();
        drop(whole);
        double.launch(backend.device(), &mut buffer).unwrap();
        let mut written = tempfile::tempfile().unwrap();
        written
            .write_all(bytemuck::cast_slice(&buffer.as_slice().unwrap()))
            .unwrap();
        written.rewind().unwrap();
        let mut back = Vec::new();
        written.read_to_end(&mut back).unwrap();
        let doubled: Vec<f32> = values.iter().map(|value| value * 2.0).collect();
        assert!(back == bytes(&doubled), "{:?}", machine.gpu);
    });
}

/// The calls that a report advises exist, under these names.
#[test]
fn advice_of_reports_can_be_typed() {
    use um_backend::cuda_um::{Placement, UnifiedOptions};
    on_each(|machine| {
        let backend = machine.backend();
        let mut buffer = backend.allocate_unified::<f32>(1000).unwrap();
        buffer.prefetch_to_device(None).unwrap();
        buffer.prefetch_to_host().unwrap();
        buffer.set_read_mostly().unwrap();
        buffer.unset_read_mostly().unwrap();
        buffer.set_preferred_location(0).unwrap();
        buffer.copy_from_host(&[1.0; 1000]).unwrap();
        let _ = UnifiedOptions::default().placement(Placement::Mapped);
    });
}
