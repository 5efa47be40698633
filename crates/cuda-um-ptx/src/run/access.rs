//! Loads, stores and copies: elements between registers and memory that was found.

#![expect(unsafe_code, reason = "the memory of kernels is the caller's")]

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use super::At;
use super::atomics::pointer;
use super::block::Warp;
use super::collective::set_of;
use super::exec::Stop;
use super::memory::{Kind, Located, lanes};
use crate::math::mma;
use crate::program::{Access, Address, Class, Extra, Slot};

impl At<'_, '_> {
    /// Finds and counts what a load or a store accesses; the size for each lane.
    #[inline(always)]
    fn begin(&mut self, located: &mut Located, access: &Access, write: bool) -> Result<u64, Stop> {
        let size = u64::from(access.bytes) * access.slots.len() as u64;
        self.locate_to(located, &access.address, size, self.mask, write)?;
        let kind = match (write, access.strong) {
            (false, false) => Kind::Load,
            (false, true) => Kind::StrongLoad,
            (true, false) => Kind::Store,
            (true, true) => Kind::StrongStore,
        };
        self.account(located, size, kind)?;
        Ok(size)
    }

    /// 9.7.9.8 ld.
    #[inline(always)]
    pub fn load(&mut self, access: &Access) -> Result<(), Stop> {
        let mut located = Located::NOWHERE;
        let size = self.begin(&mut located, access, false)?;
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
        spread(&mut located, size);
        let pointers = &located.pointers;
        for (element, slot) in access.slots.iter().enumerate() {
            let Some(slot) = *slot else { continue };
            let offset = element * access.bytes as usize;
            let plain = access.bytes == 4 && slot.class == Class::Word && !access.strong;
            if plain && located.mask == u32::MAX {
                let d = &mut warp.words[slot.index as usize];
                for lane in 0..32 {
                    // SAFETY: `locate` found `size` readable bytes for each lane.
                    d[lane] = unsafe { pointers[lane].add(offset).cast::<u32>().read_unaligned() };
                }
                continue;
            }
            for lane in lanes(mask) {
                let mut value = 0;
                if located.mask >> lane & 1 != 0 {
                    let pointer = pointers[lane].wrapping_add(offset);
                    // SAFETY: `locate` found `size` readable bytes for each lane of its mask.
                    value = unsafe { read(pointer, access.bytes, access.strong) };
                }
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
        let mut located = Located::NOWHERE;
        let size = self.begin(&mut located, access, true)?;
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
        spread(&mut located, size);
        let pointers = &located.pointers;
        for (element, slot) in access.slots.iter().enumerate() {
            let Some(slot) = *slot else { continue };
            let offset = element * access.bytes as usize;
            for lane in lanes(located.mask) {
                let (pointer, value) = (pointers[lane].wrapping_add(offset), get(warp, slot, lane));
                // SAFETY: `locate` found `size` writable bytes for each lane of its mask.
                unsafe { write(pointer, access.bytes, value, access.strong) };
            }
        }
        Ok(())
    }

    /// A read and a write of the thread. Sources: the predicate to write zeros, and how many bytes are read.
    pub fn copy_async(&mut self, extra: &Extra, from: &Address, bytes: u64) -> Result<(), Stop> {
        let target = self.locate(&extra.address, bytes, self.mask, true)?;
        let counts: [u64; 32] = std::array::from_fn(|lane| match self.source(extra, 0, lane) {
            0 => self.source(extra, 1, lane).min(bytes),
            _ => 0,
        });
        let reads = set_of(lanes(self.mask).filter(|&lane| counts[lane] > 0));
        let source = if reads == 0 {
            None
        } else {
            Some(self.locate(from, bytes, reads, false)?)
        };
        if let Some(source) = &source {
            self.account(source, bytes, Kind::Load)?;
        }
        self.account(&target, bytes, Kind::Store)?;
        for lane in lanes(target.mask) {
            let mut buffer = [0u8; 16];
            if let Some(source) = source
                .as_ref()
                .filter(|source| source.mask >> lane & 1 != 0)
            {
                // SAFETY: `locate` found that many readable bytes.
                unsafe {
                    pointer(source, lane, bytes)
                        .copy_to_nonoverlapping(buffer.as_mut_ptr(), counts[lane] as usize)
                };
            }
            // SAFETY: `locate` found that many writable bytes.
            unsafe {
                pointer(&target, lane, bytes)
                    .copy_from_nonoverlapping(buffer.as_ptr(), bytes as usize)
            };
        }
        Ok(())
    }

    pub fn matrix(&mut self, extra: &Extra, transposed: bool, store: bool) -> Result<(), Stop> {
        let slots: Vec<Slot> = extra.d.iter().flatten().chain(&extra.s).copied().collect();
        let rows = u32::MAX >> (32 - 8 * slots.len());
        let located = self.locate(&extra.address, 16, rows, store)?;
        self.account(&located, 16, if store { Kind::Store } else { Kind::Load })?;
        for (matrix, slot) in slots.iter().enumerate() {
            let words = &mut self.warp.words[slot.index as usize];
            for (lane, word) in words.iter_mut().enumerate() {
                let mut value = 0;
                for (half, (row, column)) in mma::matrix_elements(lane, transposed)
                    .into_iter()
                    .enumerate()
                {
                    let of = matrix * 8 + row;
                    if located.mask >> of & 1 == 0 {
                        continue;
                    }
                    let element = pointer(&located, of, 16)
                        .wrapping_add(column * 2)
                        .cast::<u16>();
                    if store {
                        // SAFETY: `locate` found 16 writable bytes for the row.
                        unsafe { element.write_unaligned((*word >> (16 * half)) as u16) };
                    } else {
                        // SAFETY: `locate` found 16 readable bytes for the row.
                        value |= u32::from(unsafe { element.read_unaligned() }) << (16 * half);
                    }
                }
                if !store {
                    *word = value;
                }
            }
        }
        Ok(())
    }
}

/// A pointer for each lane.
#[inline(always)]
fn spread(located: &mut Located, size: u64) {
    if located.row {
        for lane in 1..32 {
            located.pointers[lane] = located.pointers[0].wrapping_add(lane * size as usize);
        }
    }
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
    macro_rules! read {
        ($atomic:ty, $plain:ty) => {{
            let pointer = pointer.cast::<$plain>();
            // SAFETY: the caller's promise; atomic accesses are aligned.
            unsafe {
                if strong && pointer.is_aligned() {
                    <$atomic>::from_ptr(pointer).load(Ordering::Acquire).into()
                } else {
                    pointer.read_unaligned().into()
                }
            }
        }};
    }
    match bytes {
        1 => read!(AtomicU8, u8),
        2 => read!(AtomicU16, u16),
        4 => read!(AtomicU32, u32),
        _ => read!(AtomicU64, u64),
    }
}

/// Writes an element of 1, 2, 4 or 8 bytes.
///
/// # Safety
/// The bytes are writable.
unsafe fn write(pointer: *mut u8, bytes: u32, value: u64, strong: bool) {
    macro_rules! write {
        ($atomic:ty, $plain:ty) => {{
            let pointer = pointer.cast::<$plain>();
            // SAFETY: the caller's promise; atomic accesses are aligned.
            unsafe {
                if strong && pointer.is_aligned() {
                    <$atomic>::from_ptr(pointer).store(value as $plain, Ordering::Release)
                } else {
                    pointer.write_unaligned(value as $plain)
                }
            }
        }};
    }
    match bytes {
        1 => write!(AtomicU8, u8),
        2 => write!(AtomicU16, u16),
        4 => write!(AtomicU32, u32),
        _ => write!(AtomicU64, u64),
    }
}
