//! A device and what is known of it.

use crate::context::capability::Capabilities;
use crate::context::driver_state::{DriverState, Pending};
use crate::context::runtime::Runtime;
use crate::context::slot::Slot;
use crate::context::stream::{Stream, StreamInner};
use crate::driver::location::Location;
use crate::driver::{Api, MemoryInfo};
use crate::error::{Error, Result};
use crate::sync::{Mutex, RwLock};
use cuda_um_cost::{CostModel, Link};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// A device of a [`Runtime`]. A clone is the same device.
///
/// ```
/// # let runtime = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?;
/// let device = runtime.device(0)?;
/// let info = device.memory_info()?;
/// assert!(info.free_bytes <= info.total_bytes);
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    /// One count for both: every buffer has a handle.
    handle: Arc<Handle>,
}

struct Handle {
    runtime: Runtime,
    state: Arc<DeviceState>,
}

/// What all handles of one device share.
pub(crate) struct DeviceState {
    pub(crate) api: Arc<Api>,
    /// Of memory that is freed later; one for the runtime.
    pub(crate) reclaim: Arc<Slot>,
    pub(crate) ordinal: u32,
    pub(crate) name: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) driver: Arc<DriverState>,
    /// Host guards of managed memory must keep some device idle.
    pub(crate) is_gated: bool,
    streams: Mutex<Vec<Weak<StreamInner>>>,
    /// Of the copies from and to pageable memory.
    pub(crate) transfers: Slot,
    cost: RwLock<Arc<CostModel>>,
    /// A stream was dropped with work on it: nobody counts that work any more.
    orphaned: AtomicBool,
}

impl Device {
    pub(crate) fn new(runtime: Runtime, state: Arc<DeviceState>) -> Self {
        Self {
            handle: Arc::new(Handle { runtime, state }),
        }
    }

    /// The device's number in its runtime.
    pub fn ordinal(&self) -> u32 {
        self.handle.state.ordinal
    }

    /// The runtime that it belongs to.
    pub fn runtime(&self) -> &Runtime {
        &self.handle.runtime
    }

    /// Its name, as in "NVIDIA H200".
    #[doc(alias = "cuDeviceGetName")]
    pub fn name(&self) -> &str {
        &self.handle.state.name
    }

    /// What it can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.handle.state.capabilities
    }

    /// Free and total memory.
    ///
    /// # Errors
    ///
    /// What `cudaMemGetInfo` reports.
    #[doc(alias = "cudaMemGetInfo")]
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.handle.state.api.memory_info(self.handle.state.ordinal)
    }

    /// Waits for all work of the device, other libraries' too.
    ///
    /// # Errors
    ///
    /// What `cudaDeviceSynchronize` reports: a failure of earlier work as well.
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.handle.state.synchronize()
    }

    /// A new stream, which does not wait for the legacy default stream.
    ///
    /// # Errors
    ///
    /// What `cudaStreamCreateWithFlags` reports.
    #[doc(alias = "cudaStreamCreateWithFlags")]
    pub fn stream(&self) -> Result<Stream> {
        Ok(Stream::new(
            self.handle.runtime.clone(),
            StreamInner::create(&self.handle.state)?,
        ))
    }

    /// The library's own stream of this device, on which copies run that name no stream.
    ///
    /// # Errors
    ///
    /// What `cudaStreamCreateWithFlags` reports, the first time.
    pub fn default_stream(&self) -> Result<Stream> {
        Ok(Stream::new(
            self.handle.runtime.clone(),
            self.handle.runtime.own_stream(&self.handle.state)?,
        ))
    }

    /// What things cost on this device: what the file that `CUDA_UM_COST_MODEL` names says (`cargo xtask calibrate` writes one), else
    /// built-in values for the link that such a device usually has.
    ///
    /// A child made by `fork` while another thread of its parent set them gets the built-in ones.
    pub fn cost_model(&self) -> Arc<CostModel> {
        let state = &self.handle.state;
        if !state.api.origin.is_inherited() {
            return Arc::clone(&state.cost.read());
        }
        // That thread is not here to unlock it.
        match state.cost.try_read() {
            Some(cost) => Arc::clone(&cost),
            None => Arc::new(built_in_costs(&state.capabilities)),
        }
    }

    /// Sets what things cost, for all handles of this device. It decides where new buffers live ([`Placement::Auto`](crate::Placement)).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a model with a value that no machine can have; the one before stays.
    pub fn set_cost_model(&self, model: CostModel) -> Result<()> {
        self.api().origin.check("set_cost_model")?;
        model.check().map_err(|error| Error::InvalidArgument {
            what: "the cost model",
            value: model.source.clone(),
            reason: error.to_string(),
        })?;
        *self.handle.state.cost.write() = Arc::new(model);
        Ok(())
    }

    pub(crate) fn state(&self) -> &Arc<DeviceState> {
        &self.handle.state
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.handle.state.api
    }
}

impl DeviceState {
    pub(crate) fn open(
        (api, reclaim): (&Arc<Api>, &Arc<Slot>),
        ordinal: u32,
        driver: Arc<DriverState>,
        is_gated: bool,
    ) -> Result<Self> {
        let capabilities = Capabilities::read(api, ordinal)?;
        let cost = cost_model(&capabilities)?;
        Ok(Self {
            name: api.device_name(ordinal)?,
            capabilities,
            api: Arc::clone(api),
            reclaim: Arc::clone(reclaim),
            ordinal,
            driver,
            is_gated,
            streams: Mutex::default(),
            transfers: Slot::default(),
            cost: RwLock::new(Arc::new(cost)),
            orphaned: AtomicBool::new(false),
        })
    }

    /// Refuses a device without managed memory.
    pub(crate) fn check_managed_memory(&self) -> Result<()> {
        let has = self.capabilities.managed_memory;
        self.check_attribute(has, "managedMemory", || "managed memory".to_owned())
    }

    /// Refuses a device whose managed pages do not migrate on request.
    pub(crate) fn check_concurrent_access(&self, what: impl FnOnce() -> String) -> Result<()> {
        let has = self.capabilities.concurrent_managed_access;
        self.check_attribute(has, "concurrentManagedAccess", what)
    }

    fn check_attribute(
        &self,
        has: bool,
        attribute: &str,
        what: impl FnOnce() -> String,
    ) -> Result<()> {
        if has {
            return Ok(());
        }
        let Self { ordinal, name, .. } = self;
        Err(Error::NotSupported {
            what: what(),
            needs: format!("a device with the attribute {attribute}"),
            have: format!("device {ordinal} ({name}), which does not have it"),
        })
    }

    /// Holds the lock of the cost model, as who sets it does.
    #[cfg(test)]
    pub(crate) fn hold_cost(&self) -> impl Sized + '_ {
        self.cost.write()
    }

    pub(crate) fn add_stream(&self, stream: &Arc<StreamInner>) {
        let mut streams = self.streams.lock();
        streams.retain(|stream| stream.strong_count() > 0);
        streams.push(Arc::downgrade(stream));
    }

    pub(crate) fn orphan_work(&self) {
        self.orphaned.store(true, Ordering::Release);
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.api.origin.check("cudaDeviceSynchronize")?;
        self.orphaned.store(false, Ordering::Release);
        let streams: Vec<_> = self
            .streams
            .lock()
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        let submitted: Vec<_> = streams.iter().map(|stream| stream.submitted()).collect();
        let result = self.api.device_synchronize(self.ordinal);
        match result {
            Ok(()) => streams
                .iter()
                .zip(submitted)
                .for_each(|(stream, seq)| stream.completed_to(seq)),
            Err(_) => self.orphan_work(),
        }
        result
    }
}

impl Pending for DeviceState {
    fn is_known_idle(&self) -> bool {
        let is_idle = |stream: &Weak<StreamInner>| {
            let stream = stream.upgrade();
            stream.is_none_or(|stream| stream.is_known_idle())
        };
        !self.orphaned.load(Ordering::Acquire) && self.streams.lock().iter().all(is_idle)
    }
}

/// Names the file of a calibration.
const COST_MODEL: &str = "CUDA_UM_COST_MODEL";

fn cost_model(capabilities: &Capabilities) -> Result<CostModel> {
    let Some(path) = std::env::var_os(COST_MODEL) else {
        return Ok(built_in_costs(capabilities));
    };
    let wrong = |reason: String| Error::InvalidArgument {
        what: COST_MODEL,
        value: path.to_string_lossy().into_owned(),
        reason,
    };
    CostModel::from_file(&path).map_err(|error| wrong(error.to_string()))
}

fn built_in_costs(capabilities: &Capabilities) -> CostModel {
    CostModel::built_in(Link::of(
        capabilities.compute_capability,
        capabilities.pageable_uses_host_page_tables,
    ))
}

impl From<&Device> for Location {
    fn from(device: &Device) -> Self {
        Self::Device(device.ordinal())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("ordinal", &self.ordinal())
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
