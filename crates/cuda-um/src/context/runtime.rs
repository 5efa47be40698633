//! The CUDA runtime, the entry point of the library.

use crate::context::device::{Device, DeviceState};
use crate::context::driver_state::DriverState;
use crate::context::reclaim::{Emptied, Reclaim, Which};
use crate::context::slot::Slot;
use crate::context::stream::StreamInner;
use crate::driver::Api;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use cuda_um_sys as sys;
use std::fmt;
use std::sync::{Arc, OnceLock};

pub use cuda_um_sys::RuntimeVersion;

/// A loaded CUDA runtime. A clone is the same runtime.
///
/// A runtime has the [default pools](Device::pool) of its devices. Its memory returns to CUDA when the last handle of it, of its devices, its
/// streams and its buffers is dropped, and the pools' free memory also by [`Device::trim`]. The drop of the last handle, and of the last one that is
/// no buffer, waits for [what was dropped in use](Self::reclaim).
///
/// ```
/// use cuda_um::Runtime;
///
/// // A GPU: `Runtime::open()?`. Here, the simulator:
/// let runtime = Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?;
/// for device in runtime.devices()? {
///     println!("{}: {}", device.ordinal(), device.name());
/// }
/// runtime.reclaim()?; // waits for the memory of buffers that were dropped in use
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Clone)]
pub struct Runtime {
    // One count for both.
    handle: Arc<Handle>,
}

struct Handle {
    /// `None` in the handles of buffers: what was dropped in use may have buffers, and ends with the last handle of the program.
    _program: Option<Emptied>,
    inner: Arc<Inner>,
}

struct Inner {
    api: Arc<Api>,
    devices: OnceLock<Devices>,
    /// What is freed later. Dropped after the pools of the devices.
    reclaim: Emptied,
}

/// The devices of a runtime, each opened on first use.
struct Devices {
    driver: Arc<DriverState>,
    /// True if a device has no concurrent managed access.
    gated: bool,
    slots: Vec<Entry>,
}

#[derive(Default)]
struct Entry {
    state: Mutex<Option<Arc<DeviceState>>>,
    own_stream: OnceLock<Arc<StreamInner>>,
    pools: Slot,
}

impl Runtime {
    /// Opens the CUDA runtime library of the machine, which [`cuda_um_sys::load`] finds.
    ///
    /// It succeeds without a driver; then functions that open devices return [`Error::NoDriver`].
    ///
    /// # Errors
    ///
    /// [`Error::Load`] if there is no library, or it is too old.
    pub fn open() -> Result<Self> {
        Self::from_table(sys::load()?)
    }

    /// Opens a runtime over a table of functions, such as the simulator's.
    ///
    /// # Errors
    ///
    /// None in this version; a later version may refuse a table.
    pub fn from_table(table: Arc<sys::Table>) -> Result<Self> {
        let (api, reclaim) = (Api::new(table), Arc::<Reclaim>::default());
        Ok(Self {
            handle: Arc::new(Handle {
                _program: Some(Emptied(Arc::clone(&reclaim))),
                inner: Arc::new(Inner {
                    api,
                    devices: OnceLock::new(),
                    reclaim: Emptied(reclaim),
                }),
            }),
        })
    }

    /// The table of functions that the runtime calls.
    pub fn table(&self) -> &Arc<sys::Table> {
        self.api().table()
    }

    /// The version of the runtime library.
    #[doc(alias = "cudaRuntimeGetVersion")]
    pub fn version(&self) -> RuntimeVersion {
        self.api().version()
    }

    /// The newest CUDA version that the driver supports; 0.0 if there is no driver.
    ///
    /// # Errors
    ///
    /// Errors of `cudaDriverGetVersion`.
    #[doc(alias = "cudaDriverGetVersion")]
    pub fn driver_version(&self) -> Result<RuntimeVersion> {
        self.api().driver_version()
    }

    /// The number of devices.
    ///
    /// # Errors
    ///
    /// [`Error::NoDriver`], [`Error::NoDevice`], [`Error::Load`] if a function of the driver cannot be looked up, and errors of
    /// `cudaGetDeviceCount` and `cudaDeviceGetAttribute`. A failure is not cached: the next call tries again.
    #[doc(alias = "cudaGetDeviceCount")]
    pub fn device_count(&self) -> Result<usize> {
        Ok(self.devices_of_driver()?.slots.len())
    }

    /// Opens the device with this ordinal, or returns the open one.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchDevice`], and as for [`Runtime::device_count`].
    pub fn device(&self, ordinal: u32) -> Result<Device> {
        Ok(Device::new(self.clone(), self.device_state(ordinal)?))
    }

    fn device_state(&self, ordinal: u32) -> Result<Arc<DeviceState>> {
        let devices = self.devices_of_driver()?;
        let slot = devices.slot(ordinal)?;
        let mut state = slot.state.lock();
        match &*state {
            Some(open) => Ok(Arc::clone(open)),
            None => {
                let Inner { api, reclaim, .. } = &*self.handle.inner;
                let driver = Arc::clone(&devices.driver);
                let open = Arc::new(DeviceState::open(
                    api,
                    &reclaim.0,
                    ordinal,
                    driver,
                    devices.gated,
                )?);
                devices.driver.add_device(&open.streams);
                Ok(Arc::clone(state.insert(open)))
            }
        }
    }

    /// All devices, in the order of their ordinals.
    ///
    /// # Errors
    ///
    /// As for [`Runtime::device_count`].
    pub fn devices(&self) -> Result<Vec<Device>> {
        (0..self.device_count()? as u32)
            .map(|ordinal| self.device(ordinal))
            .collect()
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.handle.inner.api
    }

    /// Waits until all buffers that were dropped while in use are freed.
    ///
    /// A buffer that is dropped in use is freed later: by a drop or an allocation that finds its work done, by an allocation that is refused
    /// otherwise, or by this function. The owner of an import is dropped here, by [`Device::synchronize`], by [`Device::trim`], by the drop of
    /// another import, or with the runtime's last handle.
    ///
    /// # Errors
    ///
    /// The first error of a deferred free since the last call. Memory whose work could not be waited for is leaked, never freed in use.
    /// [`Error::Capture`](crate::Error::Capture) if there is such memory and this thread captures.
    pub fn reclaim(&self) -> Result<()> {
        let reclaim = &self.handle.inner.reclaim.0;
        reclaim.flush(Which::All)?;
        reclaim.take_error().map_or(Ok(()), Err)
    }

    /// A handle for the devices of buffers.
    pub(crate) fn for_buffers(&self) -> Self {
        Self {
            handle: Arc::new(Handle {
                _program: None,
                inner: Arc::clone(&self.handle.inner),
            }),
        }
    }

    /// Refuses a device beyond the runtime's count and a negative NUMA node. CUDA checks that the node exists.
    pub(crate) fn check_location(&self, location: Location) -> Result<()> {
        match location {
            Location::Device(ordinal) => self.device_state(ordinal).map(drop),
            Location::HostNuma(node) if node < 0 => Err(Error::InvalidArgument {
                what: "the NUMA node",
                value: node.to_string(),
                reason: "nodes are numbered from 0".to_owned(),
            }),
            Location::Host | Location::HostNuma(_) | Location::HostNumaCurrent => Ok(()),
        }
    }

    /// Like [`check_location`](Self::check_location), and refuses a device whose managed pages do not migrate.
    pub(crate) fn check_migration_to(&self, location: Location, what: &str) -> Result<()> {
        let Location::Device(ordinal) = location else {
            return self.check_location(location);
        };
        let what = || format!("{what} for managed memory at device {ordinal}");
        self.device_state(ordinal)?.check_concurrent_access(what)
    }

    /// The slot of an open device's default pools.
    #[inline]
    pub(crate) fn pools(&self, device: &DeviceState) -> &Slot {
        let devices = self.handle.inner.devices.get();
        let devices = devices.expect("an open device is in the list");
        &devices.slots[device.ordinal as usize].pools
    }

    #[doc(hidden)]
    #[must_use]
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.handle.inner, &other.handle.inner)
    }

    pub(crate) fn own_stream(&self, state: &Arc<DeviceState>) -> Result<Arc<StreamInner>> {
        let stream = &self.devices_of_driver()?.slot(state.ordinal)?.own_stream;
        if let Some(stream) = stream.get() {
            return Ok(Arc::clone(stream));
        }
        let made = StreamInner::create(state)?;
        Ok(Arc::clone(stream.get_or_init(|| made)))
    }

    /// Returns true if both are runtimes over one driver, so that their devices are the same.
    ///
    /// # Errors
    ///
    /// The errors of [`device_count`](Self::device_count).
    pub fn shares_driver(&self, other: &Self) -> Result<bool> {
        let (one, other) = (self.devices_of_driver()?, other.devices_of_driver()?);
        Ok(Arc::ptr_eq(&one.driver, &other.driver))
    }

    /// The devices that [`device`](Self::device) has opened. [`devices`](Self::devices) opens all, which creates a context on each.
    #[must_use]
    pub fn open_devices(&self) -> Vec<Device> {
        let Ok(devices) = self.devices_of_driver() else {
            return Vec::new();
        };
        let open = devices.slots.iter().filter_map(|slot| {
            let state = slot.state.lock().clone()?;
            Some(Device::new(self.clone(), state))
        });
        open.collect()
    }

    fn devices_of_driver(&self) -> Result<&Devices> {
        if let Some(known) = self.handle.inner.devices.get() {
            return Ok(known);
        }
        let found = Devices::find(self.api())?;
        Ok(self.handle.inner.devices.get_or_init(|| found))
    }
}

impl Devices {
    fn find(api: &Api) -> Result<Self> {
        let count = api.device_count()?;
        let mut gated = false;
        for ordinal in 0..count as u32 {
            let concurrent = sys::cudaDeviceAttr::cudaDevAttrConcurrentManagedAccess;
            gated |= api.attribute(ordinal, concurrent)? == 0;
        }
        let driver = DriverState::of(api.driver_identity()?);
        Ok(Self {
            driver,
            gated,
            slots: (0..count).map(|_| Entry::default()).collect(),
        })
    }

    fn slot(&self, ordinal: u32) -> Result<&Entry> {
        self.slots.get(ordinal as usize).ok_or(Error::NoSuchDevice {
            ordinal: ordinal as usize,
            count: self.slots.len(),
        })
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime")
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}
