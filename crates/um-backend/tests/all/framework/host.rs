//! Slices for the host, from any buffer, and owned by the caller.

use um_backend::{
    Buffer, BufferKind, HostMut, HostRef, Result,
    memory::{BufferMemory, BufferMemoryMut},
};

use crate::support::opaque::OpaqueBuffer;
use crate::support::{on_each, on_each_preset};

/// What a framework writes once, for every kind.
fn add_one(buffer: &mut dyn Buffer<f32>) -> Result<f32> {
    let mut elements = buffer.host_mut()?;
    elements.iter_mut().for_each(|element| *element += 1.0);
    elements.close()?;
    Ok(buffer.host()?.iter().sum())
}

/// What must compile: a borrow may become shorter. The documentation tests `Variance` in `lib.rs` have what must not.
type Borrows<'a> = (
    HostRef<'a, f32>,
    HostMut<'a, f32>,
    BufferMemory<'a, f32>,
    BufferMemoryMut<'a, f32>,
);
const _: for<'long, 'short> fn(&'short &'long (), Borrows<'long>) -> Borrows<'short> =
    |_, borrows| borrows;

#[test]
fn one_function_serves_every_kind() {
    on_each(|machine| {
        let backend = machine.backend();
        for kind in BufferKind::ALL {
            let mut buffer = backend.create_from(kind, &[1.0f32, 2.0]).unwrap();
            assert_eq!(add_one(&mut *buffer).unwrap(), 5.0, "{kind}");
            assert_eq!(buffer.try_clone().unwrap().to_vec().unwrap(), [2.0, 3.0]);
            let is_copy = kind == BufferKind::Cuda;
            assert_eq!(buffer.host().unwrap().is_copy(), is_copy, "{kind}");
            assert_eq!(buffer.host_mut().unwrap().is_copy(), is_copy, "{kind}");
            assert_eq!(format!("{:?}", buffer.host().unwrap()), "[2.0, 3.0]");
        }
        let mut opaque = OpaqueBuffer::<f32>::new(2);
        assert_eq!(add_one(&mut opaque).unwrap(), 2.0);
    });
}

/// The error of the copy back is returned by `close`.
#[test]
fn close_returns_the_error_of_the_copy_back() {
    let machine = |builder| builder;
    on_each_preset(machine, |machine| {
        let (backend, sim) = (machine.backend(), machine.sim.as_ref().unwrap());
        let mut buffer = backend.create::<f32>(BufferKind::Cuda, 100_000).unwrap();
        let mut view = buffer.host_mut().unwrap();
        view[0] = 1.0;
        sim.fail(um_backend::sim::Fail::call("cudaMemcpyAsync").nth(1));
        let error = view.close().unwrap_err();
        assert!(error.to_string().contains("cudaMemcpyAsync"), "{error}");
        sim.clear_failures();
    });
}
