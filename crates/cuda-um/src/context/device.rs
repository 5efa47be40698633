//! A device and its shared state.

use crate::context::capability::Capabilities;
use crate::context::driver_state::DriverState;
use crate::context::exclusion::Gate;
use crate::context::non_concurrent::NonConcurrentAccess;
use crate::context::reclaim::{Deferred, Reclaim, Which};
use crate::context::runtime::Runtime;
use crate::context::slot::Slot;
use crate::context::stream::{Stream, StreamInner};
use crate::context::streams::Streams;
use crate::context::tracker::Use;
use crate::driver::location::Location;
use crate::driver::owned::{self, Owned};
use crate::driver::{Api, MemoryInfo};
use crate::error::{Error, Result};
use crate::fork;
use crate::sync::{cores, shard};
use cuda_um_cost::CostModel;
use smallvec::SmallVec;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

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
    /// One reference count for both, because every buffer has a handle.
    handle: Arc<Handle>,
}

struct Handle {
    runtime: Runtime,
    state: Arc<DeviceState>,
    /// The library's stream of the device, once it is used.
    own_stream: OnceLock<Stream>,
    /// Handles for the buffers of threads: threads of different shards write no common reference count. None in such a handle.
    of_shards: Option<[OnceLock<Device>; SHARDS]>,
}

/// The number of shards. More threads share them.
pub(crate) const SHARDS: usize = 16;

/// The state that all handles of one device share.
pub(crate) struct DeviceState {
    pub(crate) api: Arc<Api>,
    /// What is freed later; one list for the runtime.
    pub(crate) reclaim: Arc<Reclaim>,
    pub(crate) ordinal: u32,
    pub(crate) name: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) driver: Arc<DriverState>,
    /// True if host guards of managed memory must keep a device of the runtime idle.
    pub(crate) is_gated: bool,
    /// The number of a [`NonConcurrentAccess`].
    // Relaxed: each call takes one choice or the other, and both are safe.
    non_concurrent: AtomicU8,
    pub(crate) streams: Arc<Streams>,
    /// The state of copies from and to pageable memory.
    pub(crate) transfers: Slot,
    cost: Arc<CostModel>,
}

impl Device {
    pub(crate) fn new(runtime: Runtime, state: Arc<DeviceState>) -> Self {
        Self::with(runtime, state, Some(Default::default()))
    }

    fn with(
        runtime: Runtime,
        state: Arc<DeviceState>,
        of_shards: Option<[OnceLock<Self>; SHARDS]>,
    ) -> Self {
        Self {
            handle: Arc::new(Handle {
                runtime,
                state,
                own_stream: OnceLock::new(),
                of_shards,
            }),
        }
    }

    /// The same device, for a buffer that this thread allocates.
    pub(crate) fn for_buffer(&self) -> Self {
        self.for_buffer_of(shard::own::<SHARDS>())
    }

    /// The same device, for a buffer that a thread of this shard allocates.
    #[inline]
    pub(crate) fn for_buffer_of(&self, shard: usize) -> Self {
        let Some(of_shards) = &self.handle.of_shards else {
            return self.clone();
        };
        let make = || Self::with(self.runtime().for_buffers(), Arc::clone(self.state()), None);
        of_shards[shard].get_or_init(make).clone()
    }

    /// The ordinal of the device in its runtime.
    pub fn ordinal(&self) -> u32 {
        self.handle.state.ordinal
    }

    /// The runtime of the device.
    pub fn runtime(&self) -> &Runtime {
        &self.handle.runtime
    }

    /// The name of the device, such as "NVIDIA H200".
    #[doc(alias = "cuDeviceGetName")]
    pub fn name(&self) -> &str {
        &self.handle.state.name
    }

    /// The capabilities of the device, queried when it was opened.
    pub fn capabilities(&self) -> &Capabilities {
        &self.handle.state.capabilities
    }

    /// Free and total memory of the device, in bytes. On an integrated device, which has the memory of the host, what the operating system can
    /// reclaim is free: see [`MemoryInfo::free_bytes`](crate::resource::MemoryInfo::free_bytes).
    ///
    /// # Errors
    ///
    /// Errors of `cudaMemGetInfo`.
    #[doc(alias = "cudaMemGetInfo")]
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        self.state().memory_info()
    }

    /// Waits for all work of the device, including the work of other libraries. Then frees what was dropped in use and is idle, imports included
    /// ([`Runtime::reclaim`]).
    ///
    /// # Errors
    ///
    /// Errors of `cudaDeviceSynchronize`, which include failures of earlier work.
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.handle.state.streams.synchronize()?;
        // What it finds on other devices may be in use.
        self.handle.state.reclaim.poll(Which::All);
        Ok(())
    }

    /// Creates a stream, which does not synchronize with the legacy default stream.
    ///
    /// # Errors
    ///
    /// Errors of `cudaStreamCreateWithFlags`.
    #[doc(alias = "cudaStreamCreateWithFlags")]
    pub fn create_stream(&self) -> Result<Stream> {
        Ok(Stream::new(
            self.handle.runtime.clone(),
            StreamInner::create(&self.handle.state)?,
        ))
    }

    /// The library's own stream of this device. Copies that name no stream run on it.
    ///
    /// # Errors
    ///
    /// Errors of `cudaStreamCreateWithFlags`, on the first call.
    pub fn default_stream(&self) -> Result<Stream> {
        self.own_stream().cloned()
    }

    #[inline]
    pub(crate) fn own_stream(&self) -> Result<&Stream> {
        match self.handle.own_stream.get() {
            Some(stream) => Ok(stream),
            None => self.first_own_stream(),
        }
    }

    #[cold]
    fn first_own_stream(&self) -> Result<&Stream> {
        let inner = self.runtime().own_stream(self.state())?;
        let stream = Stream::new(self.runtime().clone(), inner);
        Ok(self.handle.own_stream.get_or_init(|| stream))
    }

    /// The cost model of this device: from the file that `CUDA_UM_COST_MODEL` names, otherwise
    /// the built-in values for such a device ([`CostModel::of_gpu`]).
    pub fn cost_model(&self) -> Arc<CostModel> {
        Arc::clone(&self.state().cost)
    }

    /// Returns how the host shares managed memory with this device, if the device has no concurrent managed access.
    pub fn non_concurrent_access(&self) -> NonConcurrentAccess {
        self.handle.state.non_concurrent_access()
    }

    /// Sets how the host shares managed memory with this device, for all handles of the device and for calls that begin later. Changes
    /// nothing on a device with concurrent managed access.
    pub fn set_non_concurrent_access(&self, access: NonConcurrentAccess) {
        let choice = &self.state().non_concurrent;
        choice.store(access as u8, Ordering::Relaxed);
    }

    pub(crate) fn state(&self) -> &Arc<DeviceState> {
        &self.handle.state
    }

    /// Destroys an object, of a value that is dropped, when its uses are done. Does not wait.
    pub(crate) fn destroy_after<H: owned::Handle + 'static>(
        &self,
        object: Owned<H>,
        uses: impl FnOnce() -> SmallVec<[Use; 2]>,
    ) {
        // If a wait fails or panics, the object is leaked.
        let object = object.kept();
        fork::released(|| {
            self.state().reclaim.defer(Deferred {
                device: Arc::clone(self.state()),
                uses: uses(),
                what: format!("{} on device {}", H::NAME, self.ordinal()),
                bytes: 0,
                waits: false,
                is_foreign: false,
                release: Box::new(move || object.destroy()),
            });
        });
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.handle.state.api
    }
}

impl DeviceState {
    pub(crate) fn open(
        api: &Arc<Api>,
        reclaim: &Arc<Reclaim>,
        ordinal: u32,
        driver: Arc<DriverState>,
        is_gated: bool,
    ) -> Result<Self> {
        let capabilities = Capabilities::read(api, ordinal)?;
        if capabilities.integrated {
            api.has_host_memory(ordinal);
        }
        // Now, and not in the first copy.
        cores();
        let name = api.device_name(ordinal)?;
        let cost = cost_model(&name, &capabilities)?;
        Ok(Self {
            name,
            capabilities,
            api: Arc::clone(api),
            reclaim: Arc::clone(reclaim),
            ordinal,
            driver,
            is_gated,
            non_concurrent: AtomicU8::default(),
            streams: Arc::new(Streams::new(api, ordinal)),
            transfers: Slot::default(),
            cost: Arc::new(cost),
        })
    }

    /// A number that no other device of any runtime has while this one is open.
    pub(crate) fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    pub(crate) fn non_concurrent_access(&self) -> NonConcurrentAccess {
        let number = self.non_concurrent.load(Ordering::Relaxed);
        NonConcurrentAccess::ALL[usize::from(number)]
    }

    /// The gate, if host guards of managed memory must keep a device idle.
    pub(crate) fn gate(&self) -> Option<&Arc<Gate>> {
        self.is_gated.then_some(&self.driver.gate)
    }

    /// Returns true if host guards of managed memory live and must keep this device idle.
    #[inline]
    pub(crate) fn is_beside_guards(&self) -> bool {
        !self.capabilities.concurrent_managed_access
            && self.gate().is_some_and(|gate| gate.is_closed())
    }

    /// A device with less free memory than the driver moves at once is full.
    #[cold]
    pub(crate) fn look_for_evictions(&self) {
        let info = self.memory_info();
        if info.is_ok_and(|info| info.free_bytes < 2 << 20) {
            self.driver.may_evict(self.ordinal);
        }
    }

    pub(crate) fn memory_info(&self) -> Result<MemoryInfo> {
        self.api.memory_info(self.ordinal)
    }

    pub(crate) fn check_managed_memory(&self) -> Result<()> {
        let has = self.capabilities.managed_memory;
        self.check_attribute(has, "a device with the attribute managedMemory", || {
            "managed memory".to_owned()
        })
    }

    /// Refuses a device without concurrent managed access: its pages do not migrate on request.
    pub(crate) fn check_concurrent_access(&self, what: impl FnOnce() -> String) -> Result<()> {
        let has = self.capabilities.concurrent_managed_access;
        let needs = "a device with the attribute concurrentManagedAccess";
        self.check_attribute(has, needs, what)
    }

    /// Refuses a device whose kernels cannot access memory that CUDA did not allocate.
    pub(crate) fn check_pageable_access(&self, what: &str) -> Result<()> {
        let has = self.capabilities.pageable_memory_access;
        let needs = "a device with cudaDevAttrPageableMemoryAccess (or Placement::Auto, Placement::Mapped, a copy)";
        self.check_attribute(has, needs, || what.to_owned())
    }

    pub(crate) fn check_attribute(
        &self,
        has: bool,
        needs: &str,
        what: impl FnOnce() -> String,
    ) -> Result<()> {
        if has {
            return Ok(());
        }
        let Self { ordinal, name, .. } = self;
        Err(Error::NotSupported {
            what: what(),
            needs: needs.to_owned(),
            have: format!("device {ordinal} ({name}), which does not have it"),
        })
    }
}

/// The environment variable that names the file of a cost model.
const COST_MODEL: &str = "CUDA_UM_COST_MODEL";

fn cost_model(name: &str, capabilities: &Capabilities) -> Result<CostModel> {
    let Some(path) = cuda_um_sys::variable(COST_MODEL) else {
        let compute_capability = capabilities.compute_capability;
        let is_coherent = capabilities.pageable_uses_host_page_tables;
        return Ok(CostModel::of_gpu(name, compute_capability, is_coherent));
    };
    CostModel::from_file(&path).map_err(|error| Error::InvalidArgument {
        what: COST_MODEL,
        value: path.to_string_lossy().into_owned(),
        reason: error.to_string(),
    })
}

impl From<&Device> for Location {
    fn from(device: &Device) -> Self {
        Self::Device(device.ordinal())
    }
}

impl AsRef<Self> for Device {
    fn as_ref(&self) -> &Self {
        self
    }
}

/// The name that tensor frameworks use: `cuda:0`.
impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{}", self.ordinal())
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.state().fmt(f)
    }
}

impl fmt::Debug for DeviceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device")
            .field("ordinal", &self.ordinal)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
