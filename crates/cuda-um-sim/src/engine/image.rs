//! Images of modules: PTX text, and the PTX in a fat binary.

use std::io::Read;

use super::detail::detailed;
use super::status::Code;

/// The first bytes of a fat binary, and of the struct that `nvcc` puts before one into a program.
pub(crate) const FAT_BINARY: u32 = 0xBA55_ED50;
pub(crate) const FAT_BINARY_WRAPPER: u32 = 0x4662_43B1;
/// The bytes of its header; the last eight of them are the size of the rest.
pub(crate) const FAT_BINARY_HEADER: usize = 16;
/// The first bytes of native code.
pub(crate) const NATIVE: &[u8] = b"\x7fELF";

/// The kind of an entry that is PTX.
const PTX: u16 = 1;
/// Flags of an entry.
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
/// The most bytes of PTX that are unpacked.
const MOST_BYTES: u64 = 1 << 28;

/// The PTX of an image that a device of this compute capability (90 for 9.0) runs: the newest that is not too new.
pub(crate) fn ptx_of(image: &[u8], device: u32) -> Result<String, Code> {
    let text = match image {
        _ if image.starts_with(NATIVE) => return Err(no_ptx("native code")),
        _ if image.starts_with(&FAT_BINARY.to_le_bytes()) => {
            let entries = entries(image).ok_or(Code::INVALID_KERNEL_IMAGE)?;
            let mut ptx = entries.iter().filter(|entry| entry.kind == PTX);
            let fitting = ptx.clone().filter(|entry| entry.target <= device);
            // The driver's error tells what is wrong with PTX that is too new.
            let entry = fitting.max_by_key(|entry| entry.target).or(ptx.next_back());
            let entry = entry.ok_or_else(|| no_ptx("a fat binary without PTX"))?;
            let mut text = entry.unpacked().ok_or(Code::INVALID_KERNEL_IMAGE)?;
            text.truncate(
                text.iter()
                    .position(|byte| *byte == 0)
                    .unwrap_or(text.len()),
            );
            text
        }
        _ => image.to_vec(),
    };
    String::from_utf8(text).map_err(|_| Code::INVALID_KERNEL_IMAGE)
}

/// PTX that a program links. Lives as long as the link: the result is in its memory.
#[derive(Default)]
pub(crate) struct Linked(Vec<u8>);

impl Linked {
    /// Adds PTX. Only the first text keeps its version and its target.
    pub(crate) fn add(&mut self, is_ptx: bool, data: Vec<u8>) -> Result<(), Code> {
        if !is_ptx {
            return Err(no_ptx("native code"));
        }
        let text = String::from_utf8(data).map_err(|_| Code::INVALID_PTX)?;
        let is_head = |line: &str| {
            [".version", ".target", ".address_size"]
                .iter()
                .any(|head| line.trim_start().starts_with(head))
        };
        self.0.pop();
        let is_first = self.0.is_empty();
        for line in text
            .trim_end_matches('\0')
            .lines()
            .filter(|line| is_first || !is_head(line))
        {
            self.0.extend_from_slice(line.as_bytes());
            self.0.push(b'\n');
        }
        self.0.push(0);
        Ok(())
    }

    /// The text with a NUL at its end.
    pub(crate) fn image(&mut self) -> &[u8] {
        if self.0.is_empty() {
            self.0.push(0);
        }
        &self.0
    }
}

fn no_ptx(what: &str) -> Code {
    let text = format!(
        "the image is {what}, and the simulator runs PTX: compile for a virtual architecture, too (`-gencode arch=compute_80,code=compute_80` \
         of nvcc)"
    );
    detailed(Code::NO_KERNEL_IMAGE_FOR_DEVICE, text)
}

/// An entry of a fat binary.
struct Entry<'i> {
    kind: u16,
    /// 80 for compute capability 8.0.
    target: u32,
    flags: u64,
    unpacked_bytes: u64,
    bytes: &'i [u8],
}

/// The entries. The layout has no documentation of NVIDIA; it is that of <https://github.com/n-eiling/cuda-fatbin-decompression>.
fn entries(image: &[u8]) -> Option<Vec<Entry<'_>>> {
    let mut rest = image.get(FAT_BINARY_HEADER..)?;
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let field = |at: usize, bytes: usize| {
            let mut number = [0; 8];
            number[..bytes].copy_from_slice(rest.get(at..at + bytes)?);
            Some(u64::from_le_bytes(number))
        };
        let (header, padded) = (field(4, 4)? as usize, usize::try_from(field(8, 8)?).ok()?);
        let flags = field(40, 8)?;
        let bytes = match flags & (LZ4 | ZSTD) {
            0 => padded,
            _ => field(16, 4)? as usize,
        };
        let end = header.checked_add(padded).filter(|end| *end > 0)?;
        entries.push(Entry {
            kind: field(0, 2)? as u16,
            target: field(28, 4)? as u32,
            flags,
            unpacked_bytes: field(56, 8)?,
            bytes: rest.get(header..end)?.get(..bytes)?,
        });
        rest = rest.get(end..)?;
    }
    Some(entries)
}

impl Entry<'_> {
    fn unpacked(&self) -> Option<Vec<u8>> {
        let most = self.unpacked_bytes.min(MOST_BYTES);
        if self.flags & LZ4 != 0 {
            return lz4_flex::block::decompress(self.bytes, most as usize).ok();
        }
        if self.flags & ZSTD != 0 {
            let mut text = Vec::new();
            let unpack = ruzstd::decoding::StreamingDecoder::new(self.bytes).ok()?;
            unpack.take(most).read_to_end(&mut text).ok()?;
            return Some(text);
        }
        Some(self.bytes.to_vec())
    }
}
