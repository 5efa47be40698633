//! One function for every implementation.

use um_backend::{Buffer, CudaError, DType, UnifiedBuffer};

use super::{contents, numbers};
use crate::support::on_each;

fn process(buffer: &mut dyn Buffer<f32>) -> Result<f32, CudaError> {
    assert!(!buffer.is_empty() && buffer.capacity() >= buffer.len());
    assert_eq!(buffer.dtype(), DType::F32);
    buffer.fill(0.5)?;
    let mut values = vec![0.0; buffer.len()];
    buffer.copy_to_host(&mut values)?;
    let filled: f32 = values.iter().sum();
    buffer.copy_from_host(&numbers(buffer.len()))?;
    let mut copy = buffer.clone_empty(buffer.len())?;
    copy.copy_from_buffer(buffer)?;
    copy.copy_to_host(&mut values)?;
    buffer.set_zero()?;
    Ok(filled + values.iter().sum::<f32>())
}

#[test]
fn swap() {
    on_each(|machine| {
        let backend = machine.backend();
        let mut in_device_memory = backend.create_buffer::<f32>(8, DType::F32).unwrap();
        let mut unified = backend.allocate_unified::<f32>(8).unwrap();
        let mut pinned = backend.create_pinned::<f32>(8).unwrap();
        let mut host = backend.create_host::<f32>(8).unwrap();
        let all: [(&mut dyn Buffer<f32>, &str); 4] = [
            (&mut in_device_memory, "cuda:0"),
            (&mut unified, "cuda:0"),
            (&mut pinned, "cuda:0"),
            (&mut host, "host"),
        ];
        for (buffer, place) in all {
            assert_eq!(process(buffer).unwrap(), 4.0 + 28.0);
            assert_eq!(
                buffer
                    .device()
                    .map_or("host".to_owned(), um_backend::Device::to_string),
                place
            );
            assert_eq!(contents(buffer), [0.0; 8]);
        }
        assert!(
            (&unified as &dyn Buffer<f32>)
                .as_any()
                .is::<UnifiedBuffer<f32>>()
        );
    });
}
