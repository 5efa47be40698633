//! Functions of the driver for memory that differ from the runtime's: no allocation of 0 bytes, and a function for each direction of a copy.

use super::copy_params::{driver_copy_2d, driver_copy_3d};
use super::guard::{Outcome, entry_points};
use super::pointer::Out;
use super::{memory, transfer};
use crate::engine::Code;

/// `cudaMemcpyHostToDevice`, `cudaMemcpyDeviceToHost`, `cudaMemcpyDeviceToDevice`, `cudaMemcpyDefault`.
const HOST_TO_DEVICE: u32 = 1;
const DEVICE_TO_HOST: u32 = 2;
const DEVICE_TO_DEVICE: u32 = 3;
const BY_ADDRESS: u32 = 4;

/// The driver refuses most allocations of 0 bytes; the runtime returns null.
fn not_empty(bytes: usize) -> Outcome {
    if bytes == 0 {
        Err(Code::INVALID_VALUE)
    } else {
        Ok(())
    }
}

entry_points! { Driver;
    fn cuMemAlloc_v2(core, pointer: Out<usize>, bytes: usize) {
        not_empty(bytes)?;
        memory::bodies::cudaMalloc(core, pointer, bytes)
    }

    fn cuMemAllocManaged(core, pointer: Out<usize>, bytes: usize, flags: u32) {
        not_empty(bytes)?;
        memory::bodies::cudaMallocManaged(core, pointer, bytes, flags)
    }

    fn cuMemHostAlloc(core, pointer: Out<usize>, bytes: usize, flags: u32) {
        not_empty(bytes)?;
        memory::bodies::cudaHostAlloc(core, pointer, bytes, flags)
    }

    fn cuMemcpy(core, to: usize, from: usize, bytes: usize) {
        transfer::bodies::cudaMemcpy(core, to, from, bytes, BY_ADDRESS)
    }

    fn cuMemcpyAsync(core, to: usize, from: usize, bytes: usize, stream: usize) {
        transfer::bodies::cudaMemcpyAsync(core, to, from, bytes, BY_ADDRESS, stream)
    }

    fn cuMemcpyHtoD_v2(core, to: usize, from: usize, bytes: usize) {
        transfer::bodies::cudaMemcpy(core, to, from, bytes, HOST_TO_DEVICE)
    }

    fn cuMemcpyHtoDAsync_v2(core, to: usize, from: usize, bytes: usize, stream: usize) {
        transfer::bodies::cudaMemcpyAsync(core, to, from, bytes, HOST_TO_DEVICE, stream)
    }

    fn cuMemcpyDtoH_v2(core, to: usize, from: usize, bytes: usize) {
        transfer::bodies::cudaMemcpy(core, to, from, bytes, DEVICE_TO_HOST)
    }

    fn cuMemcpyDtoHAsync_v2(core, to: usize, from: usize, bytes: usize, stream: usize) {
        transfer::bodies::cudaMemcpyAsync(core, to, from, bytes, DEVICE_TO_HOST, stream)
    }

    fn cuMemcpyDtoD_v2(core, to: usize, from: usize, bytes: usize) {
        transfer::bodies::cudaMemcpy(core, to, from, bytes, DEVICE_TO_DEVICE)
    }

    fn cuMemcpyDtoDAsync_v2(core, to: usize, from: usize, bytes: usize, stream: usize) {
        transfer::bodies::cudaMemcpyAsync(core, to, from, bytes, DEVICE_TO_DEVICE, stream)
    }

    fn cuMemcpy2D_v2(core, params: Out<u8>) { transfer::copy_rows(core, None, driver_copy_2d(params)?) }

    fn cuMemcpy2DUnaligned_v2(core, params: Out<u8>) { transfer::copy_rows(core, None, driver_copy_2d(params)?) }

    fn cuMemcpy2DAsync_v2(core, params: Out<u8>, stream: usize) { transfer::copy_rows(core, Some(stream), driver_copy_2d(params)?) }

    fn cuMemcpy3D_v2(core, params: Out<u8>) { transfer::copy_rows(core, None, driver_copy_3d(params)?) }

    fn cuMemcpy3DAsync_v2(core, params: Out<u8>, stream: usize) { transfer::copy_rows(core, Some(stream), driver_copy_3d(params)?) }

    fn cuMemcpyPeerAsync(core, to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize, stream: usize) {
        let [to_device, from_device] = [to_context, from_context].map(|context| core.state.lock().contexts.device(context));
        transfer::bodies::cudaMemcpyPeerAsync(core, to, to_device? as i32, from, from_device? as i32, bytes, stream)
    }

    fn cuMemsetD8_v2(core, to: usize, value: u8, bytes: usize) {
        transfer::bodies::cudaMemset(core, to, value.into(), bytes)
    }

    fn cuMemsetD32_v2(core, to: usize, value: u32, count: usize) {
        transfer::set_now(core, to, value, 4, count)
    }
}
