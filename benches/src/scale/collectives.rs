//! `all_gather` by the library and by NCCL's functions alone, for device and managed memory.
#![allow(unsafe_code, reason = "calls NCCL's functions")]

use super::Machine;
use anyhow::{Result, ensure};
use cuda_um::collective::{Communicator, group};
use cuda_um::sys::{self, Nccl, ncclDataType_t, ncclResult_t};
use cuda_um::{Device, DeviceBuffer, Error, Memory, MemoryMut, UnifiedBuffer};
use std::ffi::c_void;

/// Bytes of each target.
const SIZES: [usize; 5] = [1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20];
const QUICK: usize = 16 << 20;

/// The most managed memory of all devices together.
const MOST_MANAGED: usize = 1 << 30;

/// Runs the section.
pub(super) fn run(machine: &Machine) -> Result<()> {
    let count = machine.devices.len();
    let ranks = match Communicator::all(&machine.devices) {
        Err(error @ Error::NotSupported { .. }) => {
            println!("skipped: {error}");
            return Ok(());
        }
        ranks => ranks?,
    };
    let raw = RawRanks::open(machine)?;
    println!("NCCL {}, {count} ranks", raw.nccl.version());
    if count == 1 {
        println!(
            "1 device: nothing crosses a link; the times are those of calls and of copies within it"
        );
    }
    println!("| memory | MiB | library, us | NCCL alone, us | library / alone | GB/s |");
    println!("|---|---|---|---|---|---|");
    for size in SIZES {
        if machine.quick && size > QUICK {
            println!("skipped: {} MiB (--quick)", size >> 20);
            continue;
        }
        let case = Case {
            machine,
            ranks: &ranks,
            raw: &raw,
            size: size / count * count,
        };
        case.measure(
            "device",
            DeviceBuffer::<u8>::from_slice,
            DeviceBuffer::zeroed,
        )?;
        let managed = (case.size + case.size / count) * count;
        if managed > MOST_MANAGED {
            let (size, managed) = (size >> 20, managed >> 20);
            println!("skipped: managed, {size} MiB: {managed} MiB of managed memory in all");
            continue;
        }
        case.measure(
            "managed",
            UnifiedBuffer::<u8>::from_slice,
            UnifiedBuffer::zeroed,
        )?;
    }
    ranks.into_iter().try_for_each(Communicator::close)?;
    Ok(())
}

struct Case<'a> {
    machine: &'a Machine,
    ranks: &'a [Communicator],
    raw: &'a RawRanks<'a>,
    size: usize,
}

impl Case<'_> {
    fn measure<B: Memory<u8> + MemoryMut<u8> + Bytes>(
        &self,
        memory: &str,
        from: impl Fn(&Device, &[u8]) -> cuda_um::Result<B>,
        zeroed: impl Fn(&Device, usize) -> cuda_um::Result<B>,
    ) -> Result<()> {
        let (machine, count) = (self.machine, self.ranks.len());
        let part = self.size / count;
        let values = |rank: usize| (0..part).map(move |i| (i * 31 + i / 251 + rank * 7) as u8);
        let all: Vec<u8> = (0..count).flat_map(values).collect();
        let each = || machine.devices.iter().enumerate();
        let sources = each().map(|(rank, device)| from(device, &all[rank * part..][..part]));
        let sources: Vec<B> = sources.collect::<Result<_, _>>()?;
        let targets = each().map(|(_, device)| zeroed(device, self.size));
        let mut targets: Vec<B> = targets.collect::<Result<_, _>>()?;
        machine.synchronize()?;

        let raw: Vec<_> = sources
            .iter()
            .zip(&mut targets)
            .map(|(source, target)| (source.address(), target.address()))
            .collect();
        let targets = std::cell::RefCell::new(targets);
        let by_library = || -> Result<()> {
            let targets = &mut *targets.borrow_mut();
            let each = self.ranks.iter().zip(&machine.streams);
            let each = each.zip(&sources).zip(targets);
            group(each.map(|(((rank, stream), source), target)| {
                rank.all_gather(source, target).on(stream)
            }))?;
            machine.synchronize()
        };
        let alone = || -> Result<()> {
            self.raw.all_gather(&raw, part)?;
            machine.synchronize()
        };
        // Each contender writes all of the targets, and each is checked once.
        for contender in [&by_library as &dyn Fn() -> Result<()>, &alone] {
            for target in targets.borrow_mut().iter_mut() {
                target.fill(0xee)?;
            }
            // NCCL alone is not ordered after the library's work.
            machine.devices.iter().try_for_each(Device::synchronize)?;
            contender()?;
            for (rank, target) in targets.borrow().iter().enumerate() {
                ensure!(
                    target.bytes()? == all,
                    "WRONG RESULT: {memory}, rank {rank}"
                );
            }
        }
        let [library, alone] = machine.medians(|_| Ok(()), [&mut &by_library, &mut &alone])?;
        let [library, alone] = [library, alone].map(|it| it.as_secs_f64() * 1e6);
        println!(
            "| {memory} | {} | {library:.1} | {alone:.1} | {:.3} | {:.1} |",
            self.size >> 20,
            library / alone,
            (self.size - part) as f64 / library / 1e3
        );
        Ok(())
    }
}

/// What both kinds of buffer have.
trait Bytes {
    fn address(&self) -> *mut c_void;
    fn fill(&mut self, value: u8) -> cuda_um::Result<()>;
    fn bytes(&self) -> cuda_um::Result<Vec<u8>>;
}

macro_rules! bytes {
    ($($buffer:ident)*) => {$(
        impl Bytes for $buffer<u8> {
            fn address(&self) -> *mut c_void {
                self.as_view().as_ptr().cast_mut().cast()
            }
            fn fill(&mut self, value: u8) -> cuda_um::Result<()> {
                $buffer::fill(self, value)
            }
            fn bytes(&self) -> cuda_um::Result<Vec<u8>> {
                self.to_vec()
            }
        }
    )*};
}

bytes!(DeviceBuffer UnifiedBuffer);

/// Communicators without the library.
struct RawRanks<'a> {
    machine: &'a Machine,
    nccl: std::sync::Arc<Nccl>,
    raw: Vec<sys::ncclComm_t>,
}

fn check(call: &str, result: ncclResult_t) -> Result<()> {
    ensure!(
        result == ncclResult_t::ncclSuccess,
        "{call}: {result:?} ({})",
        result.0
    );
    Ok(())
}

impl<'a> RawRanks<'a> {
    fn open(machine: &'a Machine) -> Result<Self> {
        let nccl = machine.table.nccl()?;
        let count = machine.devices.len() as i32;
        let mut raw = vec![std::ptr::null_mut(); machine.devices.len()];
        let mut id = sys::ncclUniqueId { internal: [0; 128] };
        // SAFETY: all places are valid for the calls, and until the end of the group.
        unsafe {
            check("ncclGetUniqueId", (nccl.ncclGetUniqueId)(&mut id))?;
            check("ncclGroupStart", (nccl.ncclGroupStart)())?;
            for (rank, place) in raw.iter_mut().enumerate() {
                let _ = (machine.table.cudaSetDevice)(rank as i32);
                let mut config = sys::ncclConfig_t::INITIALIZER;
                let init = nccl.ncclCommInitRankConfig;
                let made = init(place, count, id, rank as i32, &mut config);
                check("ncclCommInitRankConfig", made)?;
            }
            check("ncclGroupEnd", (nccl.ncclGroupEnd)())?;
            let _ = (machine.table.cudaSetDevice)(0);
        }
        Ok(Self { machine, nccl, raw })
    }

    fn all_gather(&self, memory: &[(*mut c_void, *mut c_void)], part: usize) -> Result<()> {
        let nccl = &self.nccl;
        // SAFETY: no preconditions.
        check("ncclGroupStart", unsafe { (nccl.ncclGroupStart)() })?;
        let each = self.raw.iter().zip(&self.machine.streams);
        for ((raw, stream), (source, target)) in each.zip(memory) {
            let (bytes, stream) = (ncclDataType_t::ncclUint8, stream.as_raw());
            // SAFETY: the communicator is live; the buffers have `part` and all bytes, and nothing else uses them until the caller has
            // waited for the streams.
            let result =
                unsafe { (nccl.ncclAllGather)(*source, *target, part, bytes, *raw, stream) };
            check("ncclAllGather", result)?;
        }
        // SAFETY: the group began above.
        check("ncclGroupEnd", unsafe { (nccl.ncclGroupEnd)() })
    }
}

impl Drop for RawRanks<'_> {
    fn drop(&mut self) {
        for raw in &self.raw {
            // SAFETY: the communicator is live and not used again. A failure has no remedy.
            unsafe { (self.nccl.ncclCommDestroy)(*raw) };
        }
    }
}
