//! Versions, devices, peers.

use super::{Code, Cuda};
use crate::Facts;
use crate::Failure;
use anyhow::{Result, ensure};
use cuda_um_sys::{Table, cudaDeviceAttr as Attr, cudaDeviceP2PAttr};

/// Reads the properties of a machine, and creates a context on each device.
pub(crate) fn facts(table: &Table) -> Result<Facts> {
    let mut count = 0;
    let code = call!(table, cudaGetDeviceCount(&mut count));
    ensure!(
        code == Code::SUCCESS,
        "cudaGetDeviceCount: error {}",
        code.0
    );
    for device in (0..count).rev() {
        call!(table, cudaSetDevice(device));
        // Freeing null only creates the context.
        let code = call!(table, cudaFree(std::ptr::null_mut()));
        ensure!(code == Code::SUCCESS, "device {device}: error {}", code.0);
    }
    let all = |attribute: Attr| {
        (0..count).all(|device| {
            let mut value = 0;
            let code = call!(table, cudaDeviceGetAttribute(&mut value, attribute, device));
            code == Code::SUCCESS && value != 0
        })
    };
    let peers = count > 1 && {
        let mut can = 0;
        let code = call!(table, cudaDeviceCanAccessPeer(&mut can, 0, 1));
        code == Code::SUCCESS && can == 1
    };
    call!(table, cudaGetLastError());
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
        let code = call!(self.table(), cudaRuntimeGetVersion(&mut version));
        (code, version)
    }

    /// `cudaDriverGetVersion`
    pub(crate) fn driver_version(&self) -> (Code, i32) {
        let mut version = -1;
        let code = call!(self.table(), cudaDriverGetVersion(&mut version));
        (code, version)
    }

    /// `cudaGetDeviceCount`
    pub(crate) fn device_count(&self) -> (Code, i32) {
        let mut count = -1;
        let code = call!(self.table(), cudaGetDeviceCount(&mut count));
        (code, count)
    }

    /// `cudaGetDevice`
    pub(crate) fn current_device(&self) -> Result<i32, Failure> {
        let mut device = -1;
        let code = call!(self.table(), cudaGetDevice(&mut device));
        self.ok("cudaGetDevice", code)?;
        Ok(device)
    }

    /// `cudaSetDevice`
    pub(crate) fn set_device(&self, device: i32) -> Code {
        call!(self.table(), cudaSetDevice(device))
    }

    /// `cudaDeviceGetAttribute`: code and value.
    pub(crate) fn try_attribute(&self, attribute: u32, device: i32) -> (Code, i32) {
        let mut value = i32::MIN;
        let code = call!(
            self.table(),
            cudaDeviceGetAttribute(&mut value, Attr(attribute), device)
        );
        (code, value)
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
        let code = call!(self.table(), cudaMemGetInfo(&mut free, &mut total));
        self.ok("cudaMemGetInfo", code)?;
        Ok((free, total))
    }

    /// `cudaDeviceCanAccessPeer`: code and answer.
    pub(crate) fn can_access_peer(&self, device: i32, peer: i32) -> (Code, i32) {
        let mut can = -1;
        let code = call!(
            self.table(),
            cudaDeviceCanAccessPeer(&mut can, device, peer)
        );
        (code, can)
    }

    /// `cudaDeviceGetP2PAttribute` of a pair: code and value.
    pub(crate) fn peer_attribute(
        &self,
        attribute: u32,
        (from, to): (i32, i32),
    ) -> Result<(Code, i32), Failure> {
        let ask = self.table().cudaDeviceGetP2PAttribute;
        let ask = ask.ok_or_else(|| Failure("there is no cudaDeviceGetP2PAttribute".to_owned()))?;
        let (mut value, attribute) = (i32::MIN, cudaDeviceP2PAttr(attribute));
        let code = call!(ask(&mut value, attribute, from, to));
        Ok((code, value))
    }

    /// `cudaDeviceEnablePeerAccess`
    pub(crate) fn enable_peer(&self, peer: i32, flags: u32) -> Code {
        call!(self.table(), cudaDeviceEnablePeerAccess(peer, flags))
    }

    /// `cudaDeviceDisablePeerAccess`
    pub(crate) fn disable_peer(&self, peer: i32) -> Code {
        call!(self.table(), cudaDeviceDisablePeerAccess(peer))
    }

    /// `cudaStreamGetDevice`, if the version has it.
    pub(crate) fn device_of_stream(&self, stream: &super::Stream<'_>) -> Option<(Code, i32)> {
        let ask = self.table().cudaStreamGetDevice?;
        let mut device = -1;
        let code = call!(ask(stream.raw() as _, &mut device));
        Some((code, device))
    }
}
