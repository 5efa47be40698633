//! Images of modules: what is found in a fat binary, and what is refused.

use std::ffi::c_void;
use std::ptr::null_mut;

use crate::support::{Cuda, call, h200};

const TEXT: &str = ".version 6.4\n.target sm_60\n.address_size 64\n.visible .entry aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa() { ret; }\n";

const PTX: u16 = 1;
const NATIVE: u16 = 2;
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;

fn entry(kind: u16, target: u32, flags: u64, payload: &[u8], unpacked: usize) -> Vec<u8> {
    let padded = payload.len().next_multiple_of(8);
    let mut entry = Vec::new();
    entry.extend(kind.to_le_bytes());
    entry.extend([1, 1]);
    entry.extend(64_u32.to_le_bytes());
    entry.extend((padded as u64).to_le_bytes());
    entry.extend((payload.len() as u32).to_le_bytes());
    entry.extend([0; 8]);
    entry.extend(target.to_le_bytes());
    entry.extend([0; 8]);
    entry.extend(flags.to_le_bytes());
    entry.extend([0; 8]);
    entry.extend((unpacked as u64).to_le_bytes());
    entry.extend(payload);
    entry.resize(64 + padded, 0);
    entry
}

fn image(entries: &[Vec<u8>]) -> Vec<u8> {
    let entries = entries.concat();
    let mut image = 0xBA55_ED50_u32.to_le_bytes().to_vec();
    image.extend([1, 0, 16, 0]);
    image.extend((entries.len() as u64).to_le_bytes());
    image.extend(entries);
    image
}

/// A block of LZ4: the text up to the letters, a match within them, the rest.
fn lz4() -> Vec<u8> {
    let at = TEXT.find("aa").unwrap() + 1;
    let mut packed = vec![0xff, (at - 15) as u8];
    packed.extend(&TEXT.as_bytes()[..at]);
    // 40 letters from a distance of one.
    packed.extend([1, 0, 40 - 4 - 15]);
    let rest = &TEXT.as_bytes()[at + 40..];
    packed.push((rest.len() as u8) << 4);
    packed.extend(rest);
    packed
}

/// A frame of zstd with the text in one block as it is.
fn zstd() -> Vec<u8> {
    let mut packed = vec![0x28, 0xb5, 0x2f, 0xfd, 0x20, TEXT.len() as u8];
    packed.extend(&((TEXT.len() as u32) << 3 | 1).to_le_bytes()[..3]);
    packed.extend(TEXT.as_bytes());
    packed
}

/// The code of a load, and of the look-up of the kernel of `TEXT`.
fn load(cuda: &Cuda, image: *const c_void) -> [u32; 2] {
    let driver = cuda.table.driver().unwrap();
    let (mut module, mut function) = (null_mut(), null_mut());
    let loaded = call!(driver, cuModuleLoadData(&mut module, image)).0;
    if loaded != 0 {
        return [loaded, loaded];
    }
    let name = c"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa".as_ptr();
    let found = call!(driver, cuModuleGetFunction(&mut function, module, name)).0;
    [loaded, found]
}

#[test]
fn the_newest_ptx_for_the_device_is_found_however_it_is_packed() {
    let (cuda, len) = (h200(), TEXT.len());
    let plain = entry(PTX, 60, 0, TEXT.as_bytes(), 0);
    let lz4 = entry(PTX, 60, LZ4, &lz4(), len);
    let zstd = entry(PTX, 60, ZSTD, &zstd(), len);
    let others = [
        entry(NATIVE, 90, 0, b"\x7fELF", 0),
        entry(PTX, 50, 0, b"old", 0),
        entry(PTX, 100, 0, b"new", 0),
    ];
    for one in [plain, lz4, zstd] {
        let image = image(&[&others[..2], &[one], &others[2..]].concat());
        assert_eq!(load(&cuda, image.as_ptr().cast()), [0, 0]);
        // As a program has it that nvcc compiled.
        let wrapper = [0x1_4662_43b1, image.as_ptr() as u64, 0];
        assert_eq!(load(&cuda, wrapper.as_ptr().cast()), [0, 0]);
        let mut damaged = image.clone();
        for at in 16..image.len() {
            damaged[at] ^= 0xff;
            load(&cuda, damaged.as_ptr().cast());
            damaged[at] = image[at];
        }
    }
}

#[test]
fn an_image_without_ptx_is_refused_with_the_reason() {
    let cuda = h200();
    let native = b"\x7fELF\x02\x01\0".to_vec();
    let both = image(&[entry(NATIVE, 90, 0, &native, 0)]);
    for image in [native, both] {
        assert_eq!(load(&cuda, image.as_ptr().cast()), [209, 209]);
        let text = crate::texts::driver_text(&cuda, 209);
        assert!(text.contains("the simulator runs PTX"), "{text}");
    }
}
