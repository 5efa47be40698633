//! Implementations whose length is not that of their memory: every copy fails with an error that has the real length.

use std::any::Any;

use um_backend::{
    Buffer, BufferKind, Device, HostBuffer, Result,
    cuda_um::Error,
    memory::{BufferMemory, BufferMemoryMut},
};

use crate::support::on_each;

/// Three elements of host memory.
#[derive(Debug)]
struct Lying {
    says: usize,
    memory: Vec<f32>,
}

const THERE: usize = 3;

impl Buffer<f32> for Lying {
    fn len(&self) -> usize {
        self.says
    }

    fn device(&self) -> Option<&Device> {
        None
    }

    fn memory(&self) -> BufferMemory<'_, f32> {
        BufferMemory::Host(&self.memory)
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, f32> {
        BufferMemoryMut::Host(&mut self.memory)
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<f32>>> {
        Ok(Box::new(HostBuffer::zeroed(len)?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }
}

#[test]
fn a_buffer_that_says_more_than_it_has_is_refused() {
    on_each(|machine| {
        let backend = machine.backend();
        for says in [4, 1000, usize::MAX] {
            let memory = vec![1.0; THERE];
            let mut lying = Lying { says, memory };
            let len = says.min(1000);
            let mut refusals = vec![
                lying.to_vec().map(drop),
                lying.copy_from_host_at(0, &vec![2.0; len]),
                lying.copy_from_host_at(usize::MAX, &[1.0]),
                lying.copy_to_host_at(0, &mut vec![0.0; len]),
                lying.fill(5.0),
            ];
            for kind in BufferKind::ALL {
                let mut honest = backend.create::<f32>(kind, len).unwrap();
                refusals.extend([
                    honest.copy_from_buffer_at(0, &lying, 0..len),
                    lying.copy_from_buffer_at(0, &*honest, 0..len),
                    lying.copy_from_buffer_at(2, &*honest, 0..2),
                ]);
                if says < usize::MAX {
                    refusals.push(honest.copy_from_buffer(&lying));
                    refusals.push(lying.copy_from_buffer(&*honest));
                }
                assert_eq!(honest.to_vec().unwrap(), vec![0.0; len], "{kind}");
            }
            for (way, refusal) in refusals.into_iter().enumerate() {
                match refusal.unwrap_err() {
                    Error::RangeOutOfBounds { len: THERE, .. } | Error::TooLarge { .. } => {}
                    error => panic!("{way}, {says} elements: {error}"),
                }
            }
            assert_eq!(lying.memory, [1.0; THERE], "nothing was written");
        }
        // One that says less than it has is as long as it says.
        let (says, memory) = (1, vec![1.0; THERE]);
        let mut lying = Lying { says, memory };
        let other = backend.create_from(BufferKind::Cuda, &[4.0f32]).unwrap();
        lying.copy_from_buffer(&*other).unwrap();
        assert_eq!(
            (&lying.memory[..], lying.to_vec().unwrap()),
            (&[4.0, 1.0, 1.0][..], vec![4.0])
        );
    });
}
