//! Several devices of one runtime, and the links between them.

use crate::context::device::Device;
use crate::context::runtime::Runtime;
use crate::error::{Error, Result};
use cuda_um_cost::PeerLink;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Devices of one [`Runtime`], in a fixed order, and the links between them. It derefs to a slice of [`Device`]; a clone is the same
/// devices.
///
/// ```
/// # let sim = cuda_um_sim::Sim::builder().devices(2).build().unwrap();
/// use cuda_um::{Devices, Runtime};
///
/// let runtime = Runtime::from_table(sim.table())?; // on a machine with GPUs: `Runtime::open()?`
/// let devices = Devices::of(runtime.devices()?)?; // or `all`
/// for (from, to) in devices.pairs() {
///     println!("{from} to {to}: {:?}", devices.peer_link(from, to));
///     assert!(devices.can_access_peer(from, to));
/// }
/// devices.enable_peer_access()?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Clone)]
pub struct Devices {
    devices: Arc<[Device]>,
    /// The link of each ordered pair, by the positions of its devices; `None` for a device and itself.
    links: Arc<[Option<PeerLink>]>,
}

impl Devices {
    /// All devices of a runtime, in the order of their ordinals.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::devices`] and [`Devices::of`].
    pub fn all(runtime: &Runtime) -> Result<Self> {
        Self::of(runtime.devices()?)
    }

    /// These devices, in this order.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for no device and for a device that is there twice; [`Error::RuntimeMismatch`] for devices of several
    /// runtimes; errors of `cudaDeviceCanAccessPeer` and `cudaDeviceGetP2PAttribute`.
    #[doc(alias = "cudaDeviceCanAccessPeer", alias = "cudaDeviceGetP2PAttribute")]
    pub fn of(devices: impl IntoIterator<Item = Device>) -> Result<Self> {
        let devices: Arc<[Device]> = devices.into_iter().collect();
        let api = check_list(&devices)?.api();
        let link = |from: &Device, to: &Device| api.peer_link(from.ordinal(), to.ordinal());
        let links_of = |from| devices.iter().map(move |to| link(from, to));
        let links = devices.iter().flat_map(links_of).collect::<Result<_>>()?;
        Ok(Self { devices, links })
    }

    /// All ordered pairs of different devices.
    pub fn pairs(&self) -> impl Iterator<Item = (&Device, &Device)> {
        let of = move |from| self.iter().map(move |to| (from, to));
        let pairs = self.iter().flat_map(of);
        pairs.filter(|(from, to)| from.ordinal() != to.ordinal())
    }

    /// Returns true if kernels and copies of `from` can access the memory of `to`, after
    /// [`enable_peer_access`](Self::enable_peer_access). False for a device and itself, and for a device that is not in this list.
    #[doc(alias = "cudaDeviceCanAccessPeer")]
    pub fn can_access_peer(&self, from: &Device, to: &Device) -> bool {
        let link = self.peer_link(from, to);
        link.is_some_and(|link| link != PeerLink::Host)
    }

    /// The link between two devices, as far as the runtime reports it ([`PeerLink::of`]). `None` for a device and itself, and for a
    /// device that is not in this list.
    pub fn peer_link(&self, from: &Device, to: &Device) -> Option<PeerLink> {
        let is = |of: &Device, it: &Device| Arc::ptr_eq(it.state(), of.state());
        let position = |of| self.iter().position(|device| is(of, device));
        let (from, to) = (position(from)?, position(to)?);
        self.links[from * self.len() + to]
    }

    /// Lets each device access the memory of each other one that it can access ([`can_access_peer`](Self::can_access_peer)), for the rest
    /// of the process. A pair is enabled once for all runtimes over the driver. It is never disabled, because work of any stream may need it.
    ///
    /// Without it, copies between devices go through the memory of the host, and a kernel that accesses
    /// [`DeviceBuffer`](crate::DeviceBuffer)s of another device is refused.
    ///
    /// # Errors
    ///
    /// Errors of `cudaDeviceEnablePeerAccess`; the pairs that were enabled before stay so.
    #[doc(alias = "cudaDeviceEnablePeerAccess")]
    pub fn enable_peer_access(&self) -> Result<()> {
        let mut peers = self[0].state().driver.peers.lock();
        for (from, to) in self.pairs() {
            let pair = (from.ordinal(), to.ordinal());
            if self.can_access_peer(from, to) && !peers.contains(&pair) {
                from.api().enable_peer_access(pair.0, pair.1)?;
                peers.insert(pair);
            }
        }
        Ok(())
    }

    /// The runtime of the devices.
    pub fn runtime(&self) -> &Runtime {
        self[0].runtime()
    }
}

/// Checks that a list has devices of one runtime, each once. Returns the first.
pub(crate) fn check_list(devices: &[Device]) -> Result<&Device> {
    let invalid = |value: String, reason: &str| Error::InvalidArgument {
        what: "the list of devices",
        value,
        reason: reason.to_owned(),
    };
    let Some(first) = devices.first() else {
        return Err(invalid("empty".to_owned(), "name at least one device"));
    };
    for (position, device) in devices.iter().enumerate() {
        if !device.runtime().is_same(first.runtime()) {
            return Err(Error::RuntimeMismatch { what: "a device" });
        }
        let is_same = |other: &Device| other.ordinal() == device.ordinal();
        if devices[..position].iter().any(is_same) {
            let twice = format!("one with device {} twice", device.ordinal());
            return Err(invalid(twice, "name each device once"));
        }
    }
    Ok(first)
}

impl Deref for Devices {
    type Target = [Device];

    fn deref(&self) -> &[Device] {
        &self.devices
    }
}

impl<'a> IntoIterator for &'a Devices {
    type Item = &'a Device;
    type IntoIter = std::slice::Iter<'a, Device>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
