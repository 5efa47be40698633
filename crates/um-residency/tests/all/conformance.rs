//! The contract of `Buffer` for each role and home, and copies to and from other buffers.

use std::fs::File;
use std::io::Write;

use crate::support::{MIB, each_machine};
use um_backend::conformance::{self, Make};
use um_backend::cuda_um::UnifiedBuffer;
use um_backend::{Buffer, Element, HostBuffer};
use um_residency::{Arena, Budget, Homed, Role};

fn check<T: Element>(what: &str, make: Make<'_, T>) {
    if let Err(failure) = conformance::all(make) {
        panic!("{what}: {failure}");
    }
    let host = |len| Ok(Box::new(HostBuffer::<T>::zeroed(len)?) as Box<dyn Buffer<T>>);
    for outcome in [
        conformance::pair(make, &host),
        conformance::pair(&host, make),
    ] {
        outcome.unwrap_or_else(|failure| panic!("{what}: {failure}"));
    }
}

fn of_type<T: Element>(arena: &Arena) {
    for role in [Role::ReadOnly, Role::ReadWrite, Role::Scratch] {
        let pinned =
            |len| Ok(Box::new(Homed::<T>::zeroed(arena, len, role)?) as Box<dyn Buffer<T>>);
        check(&format!("pinned, {role:?}, {}", T::DTYPE), &pinned);
    }
    let registered = |len: usize| {
        let vector = um_backend::HostBuffer::<T>::zeroed(len)?.into_vec();
        let homed = Homed::from_vec(arena, vector, Role::ReadWrite)?;
        Ok(Box::new(homed) as Box<dyn Buffer<T>>)
    };
    if arena.device().capabilities().host_register {
        check("registered", &registered);
    }
    let unified = |len: usize| {
        let home = UnifiedBuffer::zeroed(arena.device(), len)?;
        let homed = Homed::from_unified(arena, home, Role::ReadWrite)?;
        Ok(Box::new(homed) as Box<dyn Buffer<T>>)
    };
    if arena.device().capabilities().concurrent_managed_access {
        check("unified", &unified);
    }
    let in_file = |len: usize| {
        let file = zeros(len * size_of::<T>());
        let homed = Homed::from_file(arena, file, (3, len), Role::ReadWrite)?;
        Ok(Box::new(homed) as Box<dyn Buffer<T>>)
    };
    check("file", &in_file);
}

/// A file of three bytes and zeros.
fn zeros(bytes: usize) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&vec![0; bytes + 3]).unwrap();
    file
}

#[test]
fn homed_buffers_keep_the_contract() {
    each_machine(|machine| {
        let arena = Arena::new(&machine.device, Budget::Bytes(4 * MIB)).unwrap();
        of_type::<f32>(&arena);
        of_type::<u8>(&arena);
    });
}
