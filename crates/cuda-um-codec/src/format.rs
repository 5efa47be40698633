//! The format: a header, a table with an entry for each block, and the blocks.
//!
//! All are words of 32 bits, in files little-endian.
//!
//! | part | words |
//! |---|---|
//! | header | magic `UMB1`, elements (2 words), words of the stream (2 words), checksum of the table, 0, 0 |
//! | entry of a block | first word of the block in the stream; width, base exponent and number of escapes (8, 8, 16 bits); checksum of the block |
//! | block | sign and mantissa of each element (8 bits), code of each (width bits), exponents of the escapes (8 bits), each part from a new word on |
//! | block of width [`RAW`] | the elements |

use crate::bits::checksum;
use crate::error::CodecError;

/// Elements of a block; the last one may have fewer.
pub const BLOCK: usize = 4096;
/// Words of the header.
pub const HEADER_WORDS: usize = 8;
/// Words of an entry of the table.
pub const ENTRY_WORDS: usize = 3;

pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"UMB1");
/// The width of a block that is stored as it is.
pub(crate) const RAW: u32 = 16;
/// The largest width of a code.
pub(crate) const WIDEST: u32 = 5;

/// The words of header and table for a number of elements.
pub fn table_words(elements: usize) -> usize {
    HEADER_WORDS + elements.div_ceil(BLOCK) * ENTRY_WORDS
}

/// An entry of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The first word of the block in the stream.
    pub(crate) start: usize,
    /// The bits of a code.
    pub(crate) width: u32,
    /// The exponent of code 0.
    pub(crate) base: u32,
    pub(crate) escapes: usize,
    pub(crate) checksum: u32,
}

impl Entry {
    pub(crate) fn read(words: &[u32; ENTRY_WORDS]) -> Self {
        let [start, how, checksum] = *words;
        Self {
            start: start as usize,
            width: how & 0xff,
            base: how >> 8 & 0xff,
            escapes: (how >> 16) as usize,
            checksum,
        }
    }

    pub(crate) fn write(&self) -> [u32; ENTRY_WORDS] {
        let how = self.width | self.base << 8 | (self.escapes as u32) << 16;
        [self.start as u32, how, self.checksum]
    }

    /// The words of its block of so many elements.
    pub(crate) fn words(&self, elements: usize) -> usize {
        match self.width {
            RAW => elements.div_ceil(2),
            width => block_words(elements, width, self.escapes),
        }
    }
}

/// The words of a block with codes.
pub(crate) fn block_words(elements: usize, width: u32, escapes: usize) -> usize {
    elements.div_ceil(4) + code_words(elements, width) + escapes.div_ceil(4)
}

pub(crate) fn code_words(elements: usize, width: u32) -> usize {
    (elements * width as usize).div_ceil(32)
}

pub(crate) fn header(elements: usize, words: usize, table: &[u32]) -> [u32; HEADER_WORDS] {
    let (elements, words) = (elements as u64, words as u64);
    [
        MAGIC,
        elements as u32,
        (elements >> 32) as u32,
        words as u32,
        (words >> 32) as u32,
        checksum(table),
        0,
        0,
    ]
}

/// Checks a stream: header, table, and that the blocks are as long as the table says. Returns the number of elements.
pub(crate) fn check(words: &[u32]) -> Result<usize, CodecError> {
    let found = words.len() as u64;
    let length = |what, expected: u64| match found == expected {
        true => Ok(()),
        false => Err(CodecError::Length {
            what,
            expected,
            found,
        }),
    };
    let Some(header) = words.first_chunk::<HEADER_WORDS>() else {
        return length("the header", HEADER_WORDS as u64).map(|()| 0);
    };
    for (word, expected) in [(0, MAGIC), (6, 0), (7, 0)] {
        if header[word] != expected {
            let found = header[word];
            return Err(CodecError::NotAStream {
                word,
                found,
                expected,
            });
        }
    }
    let two = |low: usize| u64::from(header[low]) | u64::from(header[low + 1]) << 32;
    length("its header", two(3))?;
    let elements = two(1);
    let blocks = elements.div_ceil(BLOCK as u64);
    let start = blocks.saturating_mul(ENTRY_WORDS as u64) + HEADER_WORDS as u64;
    if start > found {
        length("its table", start)?;
    }
    // Not larger than the stream, so it fits.
    let (elements, start) = (elements as usize, start as usize);
    let table = &words[HEADER_WORDS..start];
    if checksum(table) != header[5] {
        return Err(CodecError::Damaged {
            what: "the checksum of the table, before the entry",
            block: 0,
            found: u64::from(checksum(table)),
            expected: u64::from(header[5]),
        });
    }
    let end = check_table(table, elements, start)?;
    length("its table of blocks", end).map(|()| elements)
}

/// Checks the entries, and returns the end of the last block.
fn check_table(table: &[u32], elements: usize, start: usize) -> Result<u64, CodecError> {
    let mut end = start as u64;
    for (block, entry) in table.as_chunks().0.iter().enumerate() {
        let entry = Entry::read(entry);
        let count = (elements - block * BLOCK).min(BLOCK);
        let damaged = |what, found: u64, expected: u64| {
            Err(CodecError::Damaged {
                what,
                block,
                found,
                expected,
            })
        };
        if entry.start as u64 != end {
            return damaged("the first word", entry.start as u64, end);
        }
        if entry.width > WIDEST && entry.width != RAW {
            return damaged("the width", u64::from(entry.width), u64::from(WIDEST));
        }
        let most = if entry.width == RAW || entry.width == 0 {
            0
        } else {
            count
        };
        if entry.escapes > most {
            return damaged("the number of escapes", entry.escapes as u64, most as u64);
        }
        end += entry.words(count) as u64;
    }
    Ok(end)
}
