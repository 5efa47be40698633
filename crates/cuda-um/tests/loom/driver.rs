//! CUDA as the modules call it: pinned memory, and a copy engine that does each copy as late as possible, in a wait for it. So a missing
//! wait shows.

pub(crate) mod location {
    pub(crate) use cuda_um::Location;
}

pub(crate) mod owned {
    /// A handle, of which the models have none.
    pub(crate) struct Owned<H>(std::marker::PhantomData<H>);

    impl<H> Owned<H> {
        pub(crate) fn is_idle(&self) -> crate::error::Result<bool> {
            unreachable!("no stream is dropped")
        }
    }

    #[allow(unsafe_code, reason = "as the library declares it")]
    // SAFETY: there is no value.
    unsafe impl<H> Send for Owned<H> {}
    #[allow(unsafe_code, reason = "as the library declares it")]
    // SAFETY: as above.
    unsafe impl<H> Sync for Owned<H> {}
}

use crate::context::stream::Handle;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::fork::Origin;
use crate::sync::Mutex;
use cuda_um_sys::cudaMemoryAdvise;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::ptr::NonNull;

#[derive(Clone, Copy)]
pub(crate) enum CopyKind {
    ByAddress,
}

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Allocate,
    Copy,
    Record,
    Wait,
}

/// Each call takes the one lock, so that loom tries them in every order.
#[derive(Default)]
pub(crate) struct Api {
    pub(crate) origin: Origin,
    engine: Mutex<Engine>,
}

#[derive(Default)]
struct Engine {
    /// Enqueued on the one stream that copies have, and not done.
    copies: VecDeque<Copy>,
    done: u64,
    /// Vectors, because a move of a box would invalidate the addresses that copies have.
    pinned: BTreeMap<usize, Vec<u8>>,
    /// What fails, and how often it works before.
    fails: Option<(Call, usize)>,
}

struct Copy {
    to: *mut u8,
    from: *const u8,
    bytes: usize,
}

#[allow(unsafe_code, reason = "addresses alone")]
// SAFETY: loom runs one thread at a time.
unsafe impl Send for Copy {}

impl Copy {
    fn uses(&self, memory: &Range<usize>) -> bool {
        let within = |start: usize| start < memory.end && memory.start < start + self.bytes;
        within(self.to.addr()) || within(self.from.addr())
    }

    #[allow(unsafe_code, reason = "copies by address")]
    fn run(&self) {
        // SAFETY: the caller of the enqueue promised that both sides are valid until it is done; pinned memory is not freed before (`free_host`),
        // and the models keep the device's side.
        unsafe { self.to.copy_from(self.from, self.bytes) };
    }
}

impl Engine {
    fn check(&mut self, call: Call) -> Result<()> {
        match &mut self.fails {
            Some((fails, 0)) if *fails == call => {
                // Where there is no memory, there is none for the next one.
                if call != Call::Allocate {
                    self.fails = None;
                }
                Err(Error::Call {
                    call: "played",
                    subject: format!("{call:?}"),
                    code: 1,
                    name: "cudaErrorInvalidValue".to_owned(),
                    message: "told to fail".to_owned(),
                })
            }
            Some((fails, before)) if *fails == call => {
                *before -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn copies_to(&mut self, position: u64) {
        while self.done < position
            && let Some(copy) = self.copies.pop_front()
        {
            copy.run();
            self.done += 1;
        }
    }
}

impl Api {
    /// The call fails once (an allocation: from then on), after it has worked so often.
    pub(crate) fn fail(&self, call: Call, after: usize) {
        self.engine.lock().fails = Some((call, after));
    }

    /// Whether what was told to fail has failed.
    pub(crate) fn has_failed(&self) -> bool {
        let left = self.engine.lock().fails;
        left.is_none_or(|(_, before)| before == 0)
    }

    pub(crate) fn copies_in_flight(&self) -> usize {
        self.engine.lock().copies.len()
    }

    /// Pieces of pinned memory.
    pub(crate) fn pinned(&self) -> usize {
        self.engine.lock().pinned.len()
    }

    /// The engine does the copies up to that one.
    pub(crate) fn copies_to(&self, position: u64) {
        self.engine.lock().copies_to(position);
    }

    /// Where an event is that is recorded now: behind so many copies.
    pub(crate) fn record(&self) -> Result<u64> {
        let mut engine = self.engine.lock();
        engine.check(Call::Record)?;
        Ok(engine.done + engine.copies.len() as u64)
    }

    pub(crate) fn wait(&self, position: u64) -> Result<()> {
        let mut engine = self.engine.lock();
        engine.check(Call::Wait)?;
        engine.copies_to(position);
        Ok(())
    }

    pub(crate) fn device_synchronize(&self, _: u32) -> Result<()> {
        self.engine.lock().copies_to(u64::MAX);
        Ok(())
    }

    pub(crate) fn host_alloc(&self, _: u32, bytes: usize, _: bool) -> Result<NonNull<u8>> {
        let mut engine = self.engine.lock();
        engine.check(Call::Allocate)?;
        let mut memory = vec![0; bytes];
        let address = NonNull::from(&mut memory[..]).cast::<u8>();
        engine.pinned.insert(address.as_ptr().addr(), memory);
        Ok(address)
    }

    #[allow(unsafe_code, reason = "as the library declares it")]
    /// # Safety
    ///
    /// None: it is checked.
    pub(crate) unsafe fn free_host(&self, _: u32, address: NonNull<u8>) -> Result<()> {
        let mut engine = self.engine.lock();
        let start = address.as_ptr().addr();
        let memory = engine
            .pinned
            .remove(&start)
            .expect("it was not freed before");
        let range = start..start + memory.len();
        let used = engine.copies.iter().any(|copy| copy.uses(&range));
        assert!(!used, "pinned memory is freed under a copy");
        Ok(())
    }

    #[allow(unsafe_code, reason = "as the library declares it")]
    /// # Safety
    ///
    /// Both sides are valid until the copy is done.
    pub(crate) unsafe fn memcpy_async(
        &self,
        _: u32,
        to: *mut u8,
        from: *const u8,
        bytes: usize,
        _: CopyKind,
        _: Handle,
    ) -> Result<()> {
        let mut engine = self.engine.lock();
        engine.check(Call::Copy)?;
        engine.copies.push_back(Copy { to, from, bytes });
        Ok(())
    }

    #[allow(unsafe_code, reason = "as the library declares it")]
    /// # Safety
    ///
    /// None: the models give no advice.
    pub(crate) unsafe fn advise(
        &self,
        _: u32,
        _: Range<*mut u8>,
        _: cudaMemoryAdvise,
        _: Location,
    ) -> Result<()> {
        unreachable!("no advice was given")
    }
}
