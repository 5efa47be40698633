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

/// Checks that a call fails because of the real length.
fn refused<R>(outcome: Result<R>, way: &str) {
    let Err(error) = outcome else {
        panic!("{way}: went through")
    };
    let is_told = match &error {
        Error::RangeOutOfBounds { len, .. } => *len == THERE,
        Error::TooLarge { .. } => true,
        _ => false,
    };
    assert!(is_told, "{way}: {error}");
}

#[test]
fn a_buffer_that_says_more_than_it_has_is_refused() {
    on_each(|machine| {
        let backend = machine.backend();
        for says in [4, 1000, usize::MAX] {
            let mut lying = Lying {
                says,
                memory: vec![1.0; THERE],
            };
            let len = says.min(1000);
            for kind in BufferKind::ALL {
                let mut honest = backend.create::<f32>(kind, len).unwrap();
                let way = format!("{kind}, {says} elements");
                refused(honest.copy_from_buffer_at(0, &lying, 0..len), &way);
                refused(lying.copy_from_buffer_at(0, &*honest, 0..len), &way);
                refused(lying.copy_from_buffer_at(2, &*honest, 0..2), &way);
                if says < usize::MAX {
                    refused(honest.copy_from_buffer(&lying), &way);
                    refused(lying.copy_from_buffer(&*honest), &way);
                }
                assert_eq!(honest.to_vec().unwrap(), vec![0.0; len], "{way}");
            }
            refused(lying.to_vec(), "to_vec");
            let there = vec![2.0; len];
            refused(lying.copy_from_host_at(0, &there), "copy_from_host_at");
            refused(
                lying.copy_to_host_at(0, &mut vec![0.0; len]),
                "copy_to_host_at",
            );
            refused(lying.copy_from_host_at(usize::MAX, &[1.0]), "the end");
            assert_eq!(lying.memory, [1.0; THERE], "nothing was written");
            refused(lying.fill(5.0), "fill");
            lying.says = THERE;
            lying.fill(5.0).unwrap();
            assert_eq!(lying.memory, [5.0; THERE]);
        }
    });
}

#[test]
fn a_buffer_that_says_less_than_it_has_is_as_long_as_it_says() {
    on_each(|machine| {
        let backend = machine.backend();
        let mut lying = Lying {
            says: 1,
            memory: vec![1.0; THERE],
        };
        for kind in BufferKind::ALL {
            let mut honest = backend.create::<f32>(kind, 1).unwrap();
            honest.fill(4.0).unwrap();
            lying.copy_from_buffer(&*honest).unwrap();
            assert_eq!(lying.memory, [4.0, 1.0, 1.0]);
            lying.memory[0] = 6.0;
            honest.copy_from_buffer(&lying).unwrap();
            assert_eq!(honest.to_vec().unwrap(), [6.0]);
        }
        assert_eq!(lying.to_vec().unwrap(), [6.0]);
    });
}
