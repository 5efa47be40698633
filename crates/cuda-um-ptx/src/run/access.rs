//! Loads and stores: elements between registers and memory that was found.

#![expect(unsafe_code, reason = "the memory of kernels is the caller's")]
#![expect(
    clippy::needless_range_loop,
    reason = "loops over lanes become vector instructions"
)]

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::At;
use super::block::Warp;
use super::exec::Stop;
use super::memory::{Kind, Located, lanes};
use crate::program::{Access, Class, Slot};

impl At<'_, '_> {
    /// Finds and counts what a load or a store accesses; the second value is the size for each lane.
    #[inline(always)]
    fn begin(&mut self, access: &Access, write: bool) -> Result<(Located, u64), Stop> {
        let size = u64::from(access.bytes) * access.slots.len() as u64;
        let located = self.locate(&access.address, size, self.mask, write)?;
        let kind = match (write, access.strong) {
            (false, false) => Kind::Load,
            (false, true) => Kind::StrongLoad,
            (true, false) => Kind::Store,
            (true, true) => Kind::StrongStore,
        };
        self.account(&located, size, kind)?;
        Ok((located, size))
    }

    /// 9.7.9.8 ld.
    #[inline(always)]
    pub fn load(&mut self, access: &Access) -> Result<(), Stop> {
        let (located, size) = self.begin(access, false)?;
        let (warp, mask) = (&mut *self.warp, self.mask);
        if let (true, false, &[Some(slot)]) = (located.row, access.strong, &access.slots[..]) {
            if access.bytes == 4 && slot.class == Class::Word {
                // SAFETY: `locate` found 32 elements there, all readable.
                warp.words[slot.index as usize] =
                    unsafe { located.pointers[0].cast::<[u32; 32]>().read_unaligned() };
                return Ok(());
            }
            if access.bytes == 8 {
                // SAFETY: as above.
                warp.longs[slot.index as usize] =
                    unsafe { located.pointers[0].cast::<[u64; 32]>().read_unaligned() };
                return Ok(());
            }
        }
        let pointers = spread(&located, size);
        for (element, slot) in access.slots.iter().enumerate() {
            let Some(slot) = *slot else { continue };
            let offset = element * access.bytes as usize;
            if access.bytes == 4
                && slot.class == Class::Word
                && !access.strong
                && located.mask == mask
            {
                let d = &mut warp.words[slot.index as usize];
                if mask == u32::MAX {
                    for lane in 0..32 {
                        // SAFETY: `locate` found `size` readable bytes for each lane.
                        d[lane] =
                            unsafe { pointers[lane].add(offset).cast::<u32>().read_unaligned() };
                    }
                    continue;
                }
                for lane in lanes(mask) {
                    // SAFETY: `locate` found `size` readable bytes for each lane of the mask.
                    d[lane] = unsafe { pointers[lane].add(offset).cast::<u32>().read_unaligned() };
                }
                continue;
            }
            for lane in lanes(mask) {
                let value = if located.mask >> lane & 1 != 0 {
                    // SAFETY: `locate` found `size` readable bytes for each lane of its mask.
                    unsafe {
                        read(
                            pointers[lane].wrapping_add(offset),
                            access.bytes,
                            access.strong,
                        )
                    }
                } else {
                    0
                };
                let unused = 64 - 8 * access.bytes;
                let value = if access.signed {
                    ((value << unused) as i64 >> unused) as u64
                } else {
                    value
                };
                set(warp, slot, lane, value);
            }
        }
        Ok(())
    }

    /// 9.7.9.11 st.
    #[inline(always)]
    pub fn store(&mut self, access: &Access) -> Result<(), Stop> {
        let (located, size) = self.begin(access, true)?;
        let warp = &*self.warp;
        if let (true, false, &[Some(slot)]) = (located.row, access.strong, &access.slots[..]) {
            if access.bytes == 4 && slot.class == Class::Word {
                // SAFETY: `locate` found 32 elements there, all writable.
                unsafe {
                    located.pointers[0]
                        .cast::<[u32; 32]>()
                        .write_unaligned(warp.words[slot.index as usize])
                };
                return Ok(());
            }
            if access.bytes == 8 {
                // SAFETY: as above.
                unsafe {
                    located.pointers[0]
                        .cast::<[u64; 32]>()
                        .write_unaligned(warp.longs[slot.index as usize])
                };
                return Ok(());
            }
        }
        let pointers = spread(&located, size);
        for (element, slot) in access.slots.iter().enumerate() {
            let Some(slot) = *slot else { continue };
            let offset = element * access.bytes as usize;
            for lane in lanes(located.mask) {
                // SAFETY: `locate` found `size` writable bytes for each lane of its mask.
                unsafe {
                    write(
                        pointers[lane].wrapping_add(offset),
                        access.bytes,
                        get(warp, slot, lane),
                        access.strong,
                    )
                };
            }
        }
        Ok(())
    }
}

/// A pointer for each lane.
#[inline(always)]
fn spread(located: &Located, size: u64) -> [*mut u8; 32] {
    let mut pointers = located.pointers;
    if located.row {
        for lane in 0..32 {
            pointers[lane] = located.pointers[0].wrapping_add(lane * size as usize);
        }
    }
    pointers
}

#[inline(always)]
pub(crate) fn set(warp: &mut Warp, slot: Slot, lane: usize, value: u64) {
    match slot.class {
        Class::Word => warp.words[slot.index as usize][lane] = (value & slot.mask()) as u32,
        Class::Long => warp.longs[slot.index as usize][lane] = value,
        Class::Pred => {
            let p = &mut warp.preds[slot.index as usize];
            *p = *p & !(1 << lane) | ((value & 1) as u32) << lane;
        }
    }
}

#[inline(always)]
pub(crate) fn get(warp: &Warp, slot: Slot, lane: usize) -> u64 {
    match slot.class {
        Class::Word => warp.words[slot.index as usize][lane].into(),
        Class::Long => warp.longs[slot.index as usize][lane],
        Class::Pred => (warp.preds[slot.index as usize] >> lane & 1).into(),
    }
}

/// Reads an element of 1, 2, 4 or 8 bytes.
///
/// # Safety
/// The bytes are readable.
unsafe fn read(pointer: *mut u8, bytes: u32, strong: bool) -> u64 {
    let aligned = pointer.addr() & (bytes as usize - 1) == 0;
    // SAFETY: the caller's promise; atomic accesses are aligned.
    unsafe {
        match bytes {
            1 => AtomicU8::from_ptr(pointer).load(Ordering::Acquire).into(),
            2 if strong && aligned => AtomicU16::from_ptr(pointer.cast())
                .load(Ordering::Acquire)
                .into(),
            4 if strong && aligned => AtomicU32::from_ptr(pointer.cast())
                .load(Ordering::Acquire)
                .into(),
            8 if strong && aligned => AtomicU64::from_ptr(pointer.cast()).load(Ordering::Acquire),
            2 => pointer.cast::<u16>().read_unaligned().into(),
            4 => pointer.cast::<u32>().read_unaligned().into(),
            _ => pointer.cast::<u64>().read_unaligned(),
        }
    }
}

/// Writes an element of 1, 2, 4 or 8 bytes.
///
/// # Safety
/// The bytes are writable.
unsafe fn write(pointer: *mut u8, bytes: u32, value: u64, strong: bool) {
    let aligned = pointer.addr() & (bytes as usize - 1) == 0;
    // SAFETY: the caller's promise; atomic accesses are aligned.
    unsafe {
        match bytes {
            1 => AtomicU8::from_ptr(pointer).store(value as u8, Ordering::Release),
            2 if strong && aligned => {
                AtomicU16::from_ptr(pointer.cast()).store(value as u16, Ordering::Release)
            }
            4 if strong && aligned => {
                AtomicU32::from_ptr(pointer.cast()).store(value as u32, Ordering::Release)
            }
            8 if strong && aligned => {
                AtomicU64::from_ptr(pointer.cast()).store(value, Ordering::Release)
            }
            2 => pointer.cast::<u16>().write_unaligned(value as u16),
            4 => pointer.cast::<u32>().write_unaligned(value as u32),
            _ => pointer.cast::<u64>().write_unaligned(value),
        }
    }
}
