//! Versions, devices, peers.

use super::{Code, Cuda};
use crate::Facts;
use crate::Failure;
use anyhow::{Result, ensure};
use cuda_um_sys::{Table, cudaDeviceAttr as Attr};

/// Reads the properties of a machine, and creates a context on each device.
pub(crate) fn facts(table: &Table) -> Result<Facts> {
    let mut count = 0;
    // SAFETY: the place is valid for one write.
    let code = unsafe { (table.cudaGetDeviceCount)(&mut count) };
    ensure!(code.0 == 0, "cudaGetDeviceCount: error {}", code.0);
    for device in (0..count).rev() {
        // SAFETY: the device exists; freeing null only creates the context.
        let code = unsafe {
            (table.cudaSetDevice)(device);
            (table.cudaFree)(std::ptr::null_mut())
        };
        ensure!(code.0 == 0, "device {device}: error {}", code.0);
    }
    let all = |attribute: Attr| {
        (0..count).all(|device| {
            let mut value = 0;
            // SAFETY: the place is valid for one write; an unknown attribute is an error.
            let code = unsafe { (table.cudaDeviceGetAttribute)(&mut value, attribute, device) };
            code.0 == 0 && value != 0
        })
    };
    let peers = count > 1 && {
        let mut can = 0;
        // SAFETY: the place is valid for one write.
        let code = unsafe { (table.cudaDeviceCanAccessPeer)(&mut can, 0, 1) };
        code.0 == 0 && can == 1
    };
    // SAFETY: takes no arguments; it clears the errors of unknown attributes.
    unsafe { (table.cudaGetLastError)() };
    let host_tables = all(Attr::cudaDevAttrPageableMemoryAccessUsesHostPageTables);
    Ok(Facts {
        version: table.version(),
        devices: count as usize,
        managed: all(Attr::cudaDevAttrManagedMemory),
        concurrent: all(Attr::cudaDevAttrConcurrentManagedAccess),
        pageable: all(Attr::cudaDevAttrPageableMemoryAccess),
        coherent: host_tables || all(Attr::cudaDevAttrDirectManagedMemAccessFromHost),
        pools: all(Attr::cudaDevAttrMemoryPoolsSupported),
        peers,
        mapped_host: all(Attr::cudaDevAttrCanMapHostMemory),
        host_register: all(Attr::cudaDevAttrHostRegisterSupported),
        counters: false,
        simulated: false,
    })
}

impl Cuda<'_> {
    /// `cudaRuntimeGetVersion`
    pub(crate) fn runtime_version(&self) -> (Code, i32) {
        let mut version = -1;
        // SAFETY: the place is valid for one write.
        let code = unsafe { (self.table().cudaRuntimeGetVersion)(&mut version) };
        (Code(code.0), version)
    }

    /// `cudaDriverGetVersion`
    pub(crate) fn driver_version(&self) -> (Code, i32) {
        let mut version = -1;
        // SAFETY: the place is valid for one write.
        let code = unsafe { (self.table().cudaDriverGetVersion)(&mut version) };
        (Code(code.0), version)
    }

    /// `cudaGetDeviceCount`
    pub(crate) fn device_count(&self) -> (Code, i32) {
        let mut count = -1;
        // SAFETY: the place is valid for one write.
        let code = unsafe { (self.table().cudaGetDeviceCount)(&mut count) };
        (Code(code.0), count)
    }

    /// `cudaGetDevice`
    pub(crate) fn current_device(&self) -> Result<i32, Failure> {
        let mut device = -1;
        // SAFETY: the place is valid for one write.
        let code = unsafe { (self.table().cudaGetDevice)(&mut device) };
        self.ok("cudaGetDevice", Code(code.0))?;
        Ok(device)
    }

    /// `cudaSetDevice`
    pub(crate) fn set_device(&self, device: i32) -> Code {
        // SAFETY: takes a number.
        Code(unsafe { (self.table().cudaSetDevice)(device) }.0)
    }

    /// `cudaDeviceGetAttribute`: code and value.
    pub(crate) fn try_attribute(&self, attribute: u32, device: i32) -> (Code, i32) {
        let mut value = i32::MIN;
        // SAFETY: the place is valid for one write; an unknown attribute or device is an error.
        let code =
            unsafe { (self.table().cudaDeviceGetAttribute)(&mut value, Attr(attribute), device) };
        (Code(code.0), value)
    }

    /// `cudaDeviceGetAttribute` of device 0.
    pub(crate) fn attribute(&self, attribute: Attr) -> Result<i32, Failure> {
        let (code, value) = self.try_attribute(attribute.0, 0);
        self.ok(&format!("cudaDeviceGetAttribute {}", attribute.0), code)?;
        Ok(value)
    }

    /// `cudaMemGetInfo`: free and total.
    pub(crate) fn memory_info(&self) -> Result<(usize, usize), Failure> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both places are valid for one write.
        let code = unsafe { (self.table().cudaMemGetInfo)(&mut free, &mut total) };
        self.ok("cudaMemGetInfo", Code(code.0))?;
        Ok((free, total))
    }

    /// `cudaDeviceCanAccessPeer`: code and answer.
    pub(crate) fn can_access_peer(&self, device: i32, peer: i32) -> (Code, i32) {
        let mut can = -1;
        // SAFETY: the place is valid for one write.
        let code = unsafe { (self.table().cudaDeviceCanAccessPeer)(&mut can, device, peer) };
        (Code(code.0), can)
    }

    /// `cudaDeviceEnablePeerAccess`
    pub(crate) fn enable_peer(&self, peer: i32, flags: u32) -> Code {
        // SAFETY: takes numbers.
        Code(unsafe { (self.table().cudaDeviceEnablePeerAccess)(peer, flags) }.0)
    }

    /// `cudaDeviceDisablePeerAccess`
    pub(crate) fn disable_peer(&self, peer: i32) -> Code {
        // SAFETY: takes a number.
        Code(unsafe { (self.table().cudaDeviceDisablePeerAccess)(peer) }.0)
    }

    /// `cudaStreamGetDevice`, if the version has it.
    pub(crate) fn device_of_stream(&self, stream: &super::Stream<'_>) -> Option<(Code, i32)> {
        let ask = self.table().cudaStreamGetDevice?;
        let mut device = -1;
        // SAFETY: the stream lives; the place is valid for one write.
        let code = unsafe { ask(stream.raw() as _, &mut device) };
        Some((Code(code.0), device))
    }
}
