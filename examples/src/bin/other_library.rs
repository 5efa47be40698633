//! Another library (its side is in `mod theirs`: plain CUDA calls) shares streams and memory with buffers of `cuda_um`.
#![allow(unsafe_code, reason = "the promises of imports and exports")]

use cuda_um::{
    DeviceBuffer, ErrorKind, MemoryKind, PoolOptions, UnifiedBuffer, resource::DriverPool,
};
use std::process::ExitCode;
use std::ptr::NonNull;
use std::sync::Arc;
use um_examples::Failure;
use um_examples::machine::{Machine, example};

const LEN: usize = 1 << 20;

fn main() -> ExitCode {
    example("other_library", |machine| {
        their_stream(machine)?;
        their_memory(machine)?;
        their_work(machine)?;
        an_export(machine)?;
        let freed = they_free(machine)?;
        Ok(format!(
            "their stream, memory, work and reads of an export: every result is right\n{freed}"
        ))
    })
}

/// The other library: CUDA's functions, without `cuda_um`.
mod theirs {
    use cuda_um::sys::{Table, cudaError, cudaError_t, cudaStream_t};
    use std::ffi::c_void;

    /// Its error.
    #[derive(Debug, thiserror::Error)]
    #[error("the other library: CUDA's error {}", .0.0)]
    pub struct Error(cudaError);

    fn check(code: cudaError_t) -> Result<(), Error> {
        match code {
            cudaError::cudaSuccess => Ok(()),
            code => Err(Error(code)),
        }
    }

    /// # Safety
    ///
    /// The address is valid for the bytes until the stream's work is done.
    pub unsafe fn fill(
        cuda: &Table,
        (at, bytes): (*mut c_void, usize),
        value: i32,
        stream: cudaStream_t,
    ) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        check(unsafe { (cuda.cudaMemsetAsync)(at, value, bytes, stream) })
    }

    /// # Safety
    ///
    /// The memory is from a pool, and freed once.
    pub unsafe fn free(cuda: &Table, at: *mut c_void, stream: cudaStream_t) -> Result<(), Error> {
        // SAFETY: guaranteed by the caller.
        check(unsafe { (cuda.cudaFreeAsync)(at, stream) })
    }
}

fn assert_all(found: &[u8], value: u8) -> Result<(), Failure> {
    match found.iter().all(|byte| *byte == value) {
        true => Ok(()),
        false => Err(format!("not all elements are {value}").into()),
    }
}

/// Work of both on their stream runs in order.
fn their_stream(machine: &Machine) -> Result<(), Failure> {
    let device = machine.device();
    let made_by_them = device.create_stream()?;
    let (raw, owner) = (made_by_them.as_raw(), made_by_them);
    // SAFETY: the owner keeps the stream.
    let stream = unsafe { device.adopt_stream(raw, owner) }?;
    let mut data = UnifiedBuffer::<u8>::zeroed(device, LEN)?;
    data.fill_on(1, &stream)?;
    assert_all(&data.host()?, 1)
}

/// Their memory is a buffer of ours.
fn their_memory(machine: &Machine) -> Result<(), Failure> {
    let device = machine.device();
    let owner = DeviceBuffer::<u8>::zeroed(device, LEN)?;
    device.synchronize()?;
    let address = NonNull::new(owner.as_ptr().cast_mut()).ok_or("no address")?;
    // SAFETY: the owner keeps the memory, and nothing else uses it.
    let mut data = unsafe { DeviceBuffer::from_foreign(device, address, LEN, owner) }?;
    data.fill_on(2, &device.create_stream()?)?;
    assert_all(&data.to_vec()?, 2)
}

/// Their function works on our buffer, between our work.
fn their_work(machine: &Machine) -> Result<(), Failure> {
    let device = machine.device();
    let (cuda, stream) = (device.runtime().table(), device.create_stream()?);
    let mut data = UnifiedBuffer::<u8>::zeroed(device, LEN)?;
    // SAFETY: their fill stays within the buffer, and runs on this stream.
    unsafe {
        stream.enqueue_foreign((&mut data,), |work| {
            theirs::fill(cuda, (work.pointer(0), LEN), 3, work.stream())
        })
    }??;
    assert_all(&data.host()?, 3)
}

/// They keep an address for a while.
fn an_export(machine: &Machine) -> Result<(), Failure> {
    let device = machine.device();
    let (cuda, on_theirs) = (device.runtime().table(), device.create_stream()?);
    let data = Arc::new(UnifiedBuffer::<u8>::zeroed(device, LEN)?);
    // SAFETY: no host guard lives while they write.
    let exported = unsafe { data.export_mut(&on_theirs) }?;
    let address = exported.as_mut_ptr().ok_or("the export is for reads")?;
    let memory = (address.cast(), exported.as_view().len());
    // SAFETY: the export keeps the memory until it is returned.
    unsafe { theirs::fill(cuda, memory, 4, on_theirs.as_raw()) }?;
    exported.returned_on(&on_theirs)?;
    assert_all(&data.host()?, 4)
}

/// They free managed memory, in the order of a stream.
fn they_free(machine: &Machine) -> Result<String, Failure> {
    let device = machine.device();
    let pool = match DriverPool::new(device, MemoryKind::Managed, PoolOptions::default()) {
        Ok(pool) => pool,
        Err(error) if error.kind() == ErrorKind::NotSupported => return Ok(error.to_string()),
        Err(error) => return Err(error.into()),
    };
    let (cuda, stream) = (device.runtime().table(), device.create_stream()?);
    let mut data = UnifiedBuffer::<u8>::zeroed_in(&pool, LEN)?;
    data.fill_on(5, &stream)?;
    assert_all(&data.host()?, 5)?;
    let address = data.into_raw(&stream).map_err(|(_, error)| error)?;
    // SAFETY: the memory is theirs now.
    unsafe { theirs::free(cuda, address.as_ptr().cast(), stream.as_raw()) }?;
    stream.synchronize()?;
    Ok("memory of the driver's pool: they freed it".to_owned())
}
