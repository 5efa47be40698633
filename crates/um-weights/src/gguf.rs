//! The header of a GGUF file, as ggml has it: versions 2 and 3, little-endian.

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::Result;
use crate::header::MOST_HEADER;
use crate::info::{self, TensorInfo};
use crate::kinds;
use crate::shard::{Content, Shard};

pub(crate) const MAGIC: &[u8; 4] = b"GGUF";
/// The bytes of the file that are read at a time.
const READ: u64 = 64 << 10;
/// The dimensions of a tensor.
const MOST_DIMENSIONS: u32 = 4;
/// Arrays within arrays.
const MOST_DEPTH: u32 = 4;
/// Of a string of the header: the longest real ones are templates and vocabularies.
const MOST_STRING: u64 = 16 << 20;

/// The entry of the metadata that tells the alignment, if it is not [`ALIGN`].
const ALIGNMENT: &str = "general.alignment";
/// Where the data of tensors begin, in the file and among each other, unless the metadata have another number.
const ALIGN: u64 = 32;

/// Reads the header from its beginning. Memory grows with the bytes that were read, not with the numbers in them.
struct Reader<'a> {
    shard: &'a Shard,
    /// The position of the next byte.
    at: u64,
    read: Vec<u8>,
    /// The position of `read` in the file.
    read_at: u64,
}

impl Reader<'_> {
    fn wrong<T>(&self, reason: String) -> Result<T> {
        Err(self.shard.wrong(self.at, reason))
    }

    fn skip(&mut self, bytes: u64, what: &str) -> Result<()> {
        match self.at.checked_add(bytes) {
            Some(end) if end <= self.shard.bytes.min(MOST_HEADER) => {
                self.at = end;
                Ok(())
            }
            Some(end) if end <= self.shard.bytes => self.wrong(format!(
                "the header has more than {MOST_HEADER} bytes, and no more are allowed: {what} has {bytes}"
            )),
            _ => self.wrong(format!(
                "{what} needs {bytes} bytes, and {} follow: is the file truncated?",
                self.shard.bytes - self.at
            )),
        }
    }

    fn take(&mut self, bytes: u64, what: &str) -> Result<&[u8]> {
        let start = self.at;
        self.skip(bytes, what)?;
        if start < self.read_at || self.at > self.read_at + self.read.len() as u64 {
            let count = bytes.max(READ).min(self.shard.bytes - start);
            self.read.resize(count as usize, 0);
            self.shard.read(start, &mut self.read)?;
            self.read_at = start;
        }
        let first = (start - self.read_at) as usize;
        Ok(&self.read[first..first + bytes as usize])
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let bytes = self.take(N as u64, what)?;
        Ok(std::array::from_fn(|at| bytes[at]))
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    fn string(&mut self, what: &str) -> Result<&[u8]> {
        match self.u64(what)? {
            bytes @ ..=MOST_STRING => self.take(bytes, what),
            bytes => self.wrong(format!(
                "{what} has {bytes} bytes, and at most {MOST_STRING} are allowed"
            )),
        }
    }

    /// Text of the metadata. Old files have other encodings, so bytes that are no text are U+FFFD.
    fn text(&mut self, what: &str) -> Result<String> {
        self.string(what)
            .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Refuses a number of items that have at least so many bytes each before the first is read.
    fn check_count(&self, count: u64, least: u64, what: &str) -> Result<()> {
        let (has, needs) = (
            self.shard.bytes.min(MOST_HEADER).saturating_sub(self.at),
            count.saturating_mul(least),
        );
        match needs <= has {
            true => Ok(()),
            false => self.wrong(format!(
                "{count} {what} need at least {needs} bytes, and the header has at most {has} here: is the file truncated?"
            )),
        }
    }

    /// A value of the metadata, as text; of an array its type and length.
    fn value(&mut self, kind: u32, depth: u32) -> Result<String> {
        const WHAT: &str = "a value of the metadata";
        macro_rules! number {
            ($number:ty) => {
                <$number>::from_le_bytes(self.array(WHAT)?).to_string()
            };
        }
        Ok(match kind {
            0 => number!(u8),
            1 => number!(i8),
            2 => number!(u16),
            3 => number!(i16),
            4 => number!(u32),
            5 => number!(i32),
            6 => number!(f32),
            7 => match self.array::<1>(WHAT)? {
                [0] => "false".to_owned(),
                [1] => "true".to_owned(),
                [other] => return self.wrong(format!("a bool is {other}: 0 and 1 are allowed")),
            },
            8 => self.text(WHAT)?,
            9 => self.list(depth)?,
            10 => number!(u64),
            11 => number!(i64),
            12 => number!(f64),
            _ => {
                return self.wrong(format!(
                    "type {kind} of a value is not known: the last one is 12"
                ));
            }
        })
    }

    fn list(&mut self, depth: u32) -> Result<String> {
        const NAMES: [&str; 13] = [
            "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64",
            "f64",
        ];
        const SIZES: [u64; 13] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
        let kind = self.u32("the type of an array")?;
        let len = self.u64("the length of an array")?;
        let Some(&name) = NAMES.get(kind as usize) else {
            return self.wrong(format!(
                "type {kind} of an array is not known: the last one is 12"
            ));
        };
        if depth >= MOST_DEPTH {
            return self.wrong(format!(
                "arrays are within {MOST_DEPTH} arrays: no more are allowed"
            ));
        }
        match name {
            "string" => {
                for _ in 0..len {
                    let bytes = self.u64("a string of an array")?;
                    self.skip(bytes, "a string of an array")?;
                }
            }
            "array" => {
                for _ in 0..len {
                    self.list(depth + 1)?;
                }
            }
            _ => self.skip(len.saturating_mul(SIZES[kind as usize]), "an array")?,
        }
        Ok(format!("[{name}; {len}]"))
    }
}

/// Reads and checks the header: each tensor begins where the alignment puts it after the one before.
pub(crate) fn read(shard: &Shard) -> Result<Content> {
    let mut header = Reader {
        shard,
        at: MAGIC.len() as u64,
        read: Vec::new(),
        read_at: 0,
    };
    let version = header.u32("the version")?;
    if !(2..=3).contains(&version) {
        let hint = match version.swap_bytes() {
            1..=3 => " (the file is big-endian)",
            _ => "",
        };
        return header.wrong(format!("version {version} is not known{hint}: 2 and 3 are"));
    }
    let tensors = header.u64("the number of tensors")?;
    let entries = header.u64("the number of entries")?;
    let mut content = Content {
        format: "GGUF",
        ..Content::default()
    };
    // An entry has at least a key's length, a type and a value; a tensor the length of its name, and four numbers.
    header.check_count(entries, 8 + 4 + 1, "entries")?;
    header.check_count(tensors, 8 + 4 + 4 + 8, "tensors")?;
    let mut alignment = ALIGN;
    for _ in 0..entries {
        let at = header.at;
        let key = header.text("a key of the metadata")?;
        let kind = header.u32("the type of a value")?;
        let value = header.value(kind, 0)?;
        if key == ALIGNMENT {
            let bytes = value
                .parse()
                .ok()
                .filter(|bytes: &u64| bytes.is_power_of_two());
            alignment = bytes.filter(|_| kind == 4).ok_or_else(|| {
                let reason = "a power of two of type u32 is allowed";
                shard.wrong(at, format!("{key} is {value}: {reason}"))
            })?;
        }
        let twice = format!("{key:?} is there twice in the metadata");
        if content.metadata.insert(key, value).is_some() {
            return Err(shard.wrong(at, twice));
        }
    }
    // Checked here, so that no file is read to its end for nothing.
    let mut names = HashSet::new();
    for _ in 0..tensors {
        let at = header.at;
        let info = tensor(&mut header)?;
        if !names.insert(Arc::clone(&info.name)) {
            return Err(shard.wrong_tensor(
                &info.name,
                at,
                "a name has one tensor, and the file has this one twice".to_owned(),
            ));
        }
        content.tensors.push(info);
    }
    let start = header.at.next_multiple_of(alignment);
    let mut at = start;
    for info in &mut content.tensors {
        let (offset, end) = (info.offset, at - start);
        let (bytes, has) = (info.bytes as u64, shard.bytes.saturating_sub(at));
        let reason = match offset == end {
            true if bytes <= has => {
                // The file may end before the padding in front of empty tensors.
                info.offset = at.min(shard.bytes);
                at = (at + bytes).next_multiple_of(alignment);
                continue;
            }
            true => {
                format!("it has {bytes} bytes, and the file ends after {has}: is it truncated?")
            }
            false => format!(
                "its bytes begin at {offset} of the data, and {end} is where those before end"
            ),
        };
        return Err(shard.wrong_tensor(&info.name, at, reason));
    }
    content.end = match content.tensors.is_empty() {
        true => shard.bytes,
        false => at,
    };
    Ok(content)
}

/// A tensor, with the offset that it has in the data.
fn tensor(header: &mut Reader<'_>) -> Result<TensorInfo> {
    let shard = header.shard;
    let at = header.at;
    let name = header.string("the name of a tensor")?.to_vec();
    let name = match String::from_utf8(name) {
        Ok(name) => name,
        Err(error) => {
            return Err(shard.wrong(at, format!("the name of a tensor is no text: {error}")));
        }
    };
    let wrong = |reason: String| Err(shard.wrong_tensor(&name, at, reason));
    let dimensions = header.u32("the number of dimensions")?;
    if dimensions > MOST_DIMENSIONS {
        return wrong(format!(
            "it has {dimensions} dimensions, and at most {MOST_DIMENSIONS} are allowed"
        ));
    }
    let mut shape = Vec::new();
    for _ in 0..dimensions {
        let len = header.u64("a dimension")?;
        shape.push(usize::try_from(len).unwrap_or(usize::MAX));
    }
    // The first one is that of neighbours in memory.
    shape.reverse();
    let number = header.u32("the type of a tensor")?;
    let Some(kind) = kinds::of_gguf(number) else {
        return wrong(format!("type {number} is not known"));
    };
    let offset = header.u64("the offset of a tensor")?;
    let (row, name_of, block) = (shape.last().copied().unwrap_or(1), kind.name, kind.block);
    let bytes = info::elements(&shape)
        .and_then(|elements| (elements / block).checked_mul(kind.dtype.size_bytes()));
    let bytes = match bytes {
        _ if !row.is_multiple_of(block) => Err(format!(
            "its rows have {row} elements, and blocks of {name_of} have {block}"
        )),
        None => Err(format!(
            "shape {shape:?} of {name_of} is larger than any memory"
        )),
        Some(bytes) => Ok(bytes),
    };
    let bytes = bytes.map_err(|reason| shard.wrong_tensor(&name, at, reason))?;
    Ok(TensorInfo {
        name: name.into(),
        kind,
        shape,
        bytes,
        file: shard.path.clone(),
        shard: 0,
        offset,
    })
}
