//! One thread: operations on buffers, in an order given by its seed.

use super::budget::Budget;
use super::item::{Buffer, Content, Item};
use super::kernels::{Affine, Kernels};
use super::progress::Progress;
use cuda_um::{
    Device, DeviceBuffer, ErrorKind, Location, PinnedBuffer, Pool, Result, Stream, UnifiedBuffer,
};
use cuda_um_testkit::watchdog::say;
use fastrand::Rng;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Instant;

/// Objects that all threads share.
pub struct Shared {
    pub device: Device,
    pub streams: Vec<Stream>,
    pub unified: Pool,
    pub pinned: Pool,
    pub on_device: Pool,
    pub kernels: Kernels,
}

/// The end of a thread's work.
#[derive(Clone, Copy)]
pub enum Until {
    Operations(usize),
    Time(Instant),
}

/// Number of buffers that a thread keeps.
const KEPT: usize = 12;

pub struct Worker<'a> {
    pub number: usize,
    pub shared: &'a Shared,
    pub budget: &'a Budget,
    pub progress: &'a Progress,
    pub random: Rng,
    /// One of every `large_in` buffers is large.
    pub large_in: u32,
    pub inbox: Receiver<Item<'a>>,
    pub others: Vec<Sender<Item<'a>>>,
    pub items: Vec<Item<'a>>,
}

impl<'a> Worker<'a> {
    pub fn run(mut self, until: Until) {
        let mut done = 0;
        while match until {
            Until::Operations(count) => done < count,
            Until::Time(end) => Instant::now() < end,
        } {
            done += 1;
            match self.step() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::OutOfMemory => {
                    self.refused();
                    self.let_go();
                }
                Err(error) if error.kind() == ErrorKind::Busy => self.refused(),
                Err(error) => panic!("thread {}: {error}", self.number),
            }
        }
        // Other threads may send until they end.
        self.others.clear();
        while let Some(item) = self.items.pop().or_else(|| self.inbox.recv().ok()) {
            self.progress.begins(self.number, "the last look");
            self.verify(&item);
        }
    }

    fn refused(&self) {
        self.progress.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// One operation. A buffer with unknown contents after an error is dropped.
    fn step(&mut self) -> Result<()> {
        while let Ok(item) = self.inbox.try_recv() {
            match self.random.u8(..4) {
                0 => drop(item),
                _ => self.items.push(item),
            }
        }
        if self.items.len() > KEPT {
            self.let_go();
        }
        let choice = match self.items.len() {
            0 | 1 => 0,
            _ => self.random.u8(..100),
        };
        let begins = |what| self.progress.begins(self.number, what);
        match choice {
            0..24 => {
                begins("allocate");
                let item = self.allocate()?;
                self.items.push(item);
            }
            24..36 => {
                begins("write");
                let mut item = self.take();
                item.content = Content::new(self.random.u32(..));
                item.buffer.write(item.content)?;
                item.note("written".into());
                self.items.push(item);
            }
            36..46 => {
                begins("prefetch");
                self.prefetch()?;
            }
            46..64 => {
                begins("launch");
                let (mut item, by) = (self.take(), self.affine());
                let stream = self.stream();
                self.shared
                    .kernels
                    .change(stream, item.buffer.view_mut()?, by)?;
                item.content = item.content.changed(by);
                item.note(format!("changed by a kernel on {stream:?}"));
                self.items.push(item);
            }
            64..82 => {
                begins("make of another");
                self.make_of_another()?;
            }
            82..88 => {
                begins("hand over");
                let item = self.take();
                let to = self.random.usize(..self.others.len());
                // Receivers stay open until all threads have stopped.
                assert!(self.others[to].send(item).is_ok());
            }
            88..92 => {
                begins("drop or close");
                let Item { buffer, charge, .. } = self.take();
                match self.random.bool() {
                    true => drop(buffer),
                    false => buffer.close()?,
                }
                drop(charge);
            }
            92..99 => {
                begins("verify");
                let item = self.take();
                self.verify(&item);
                self.items.push(item);
            }
            _ => {
                begins("trim or synchronize");
                match self.random.u8(..4) {
                    0 => drop(self.shared.unified.trim()),
                    1 => drop(self.shared.pinned.trim()),
                    2 => drop(self.shared.on_device.trim()),
                    _ => self.stream().synchronize()?,
                }
            }
        }
        Ok(())
    }

    fn stream(&mut self) -> &'a Stream {
        &self.shared.streams[self.random.usize(..self.shared.streams.len())]
    }

    fn affine(&mut self) -> Affine {
        Affine {
            factor: self.random.u32(..) | 1,
            addend: self.random.u32(..),
        }
    }

    fn take(&mut self) -> Item<'a> {
        let at = self.random.usize(..self.items.len());
        self.items.swap_remove(at)
    }

    /// Makes space: checks one buffer, and drops it, in use or not.
    fn let_go(&mut self) {
        if self.items.is_empty() {
            return;
        }
        let item = self.take();
        if self.random.bool() {
            self.verify(&item);
        }
    }

    fn allocate(&mut self) -> Result<Item<'a>> {
        let (shared, device) = (self.shared, &self.shared.device);
        // Equally many of every power of two up to 128 KiB, and sometimes up to 16 MiB.
        let below = match self.random.u32(..self.large_in) {
            0 => 1 << 22,
            _ => 1 << self.random.u32(..=15),
        };
        let len = 1 + self.random.usize(..below);
        let content = Content::new(self.random.u32(..));
        let elements = content.elements(len);
        let charge = match self.random.u8(..4) {
            0 => self.budget.charge(len * size_of::<u32>()),
            _ => None,
        };
        let kind = self.random.u8(..4);
        let buffer = match (kind, &charge) {
            (0, Some(_)) => Buffer::Device(DeviceBuffer::from_slice(device, &elements)?),
            (0, None) => Buffer::Device(DeviceBuffer::from_slice_in(&shared.on_device, &elements)?),
            (1, Some(_)) => Buffer::Pinned(PinnedBuffer::from_slice(device, &elements)?),
            (1, None) => Buffer::Pinned(PinnedBuffer::from_slice_in(&shared.pinned, &elements)?),
            (_, Some(_)) => Buffer::Unified(UnifiedBuffer::from_slice(device, &elements)?),
            (_, None) => Buffer::Unified(UnifiedBuffer::from_slice_in(&shared.unified, &elements)?),
        };
        let mut item = Item {
            buffer,
            content,
            charge,
            past: VecDeque::new(),
        };
        item.note("made from a slice".into());
        Ok(item)
    }

    fn prefetch(&mut self) -> Result<()> {
        let device = &self.shared.device;
        let location = match self.random.bool() {
            true => Location::from(device),
            false => Location::Host,
        };
        let (at, stream) = (self.random.usize(..self.items.len()), self.stream());
        self.items[at].note(format!("prefetched to {location:?} on {stream:?}"));
        match &self.items[at].buffer {
            Buffer::Unified(buffer) if device.capabilities().concurrent_managed_access => {
                buffer.prefetch_on(location, stream)?.require()
            }
            _ => Ok(()),
        }
    }

    /// With a kernel, or with a copy.
    fn make_of_another(&mut self) -> Result<()> {
        let (mut to, mut from) = (self.take(), self.take());
        if from.buffer.len() < to.buffer.len() {
            std::mem::swap(&mut to, &mut from);
        }
        let stream = self.stream();
        match self.random.bool() {
            true => {
                let by = self.affine();
                let (target, source) = (to.buffer.view_mut()?, from.buffer.view()?);
                self.shared.kernels.make(stream, target, source, by)?;
                to.content = from.content.changed(by);
                to.note(format!(
                    "made by a kernel on {stream:?} from {}",
                    from.buffer.kind()
                ));
            }
            false => {
                to.buffer.copy_from(&from.buffer, stream)?;
                to.content = from.content;
                to.note(format!("copied on {stream:?} from {}", from.buffer.kind()));
            }
        }
        from.note("read".into());
        self.items.extend([to, from]);
        Ok(())
    }

    fn verify(&mut self, item: &Item<'a>) {
        let by_guard = self.random.bool();
        let found = match item.buffer.read(by_guard) {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::Busy => return self.refused(),
            Err(error) => panic!("thread {}: {error}", self.number),
        };
        if let Some(at) = item.content.first_wrong(&found) {
            self.progress.errors.fetch_add(1, Ordering::Relaxed);
            say(&item.report(&found, at, by_guard));
        }
    }
}
