//! Streams: many blocks, encoded and decoded in parallel.

use crate::bits::checksum;
use crate::block;
use crate::error::CodecError;
use crate::format::{BLOCK, ENTRY_WORDS, Entry, HEADER_WORDS, check, header, table_words};
use half::bf16;
use rayon::prelude::*;

/// Compressed data, whose header and table are consistent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compressed {
    words: Vec<u32>,
    elements: usize,
}

/// Elements of which every possible stream has at most 2^32 words.
const MOST: usize = (u32::MAX as usize / (BLOCK / 2 + ENTRY_WORDS)).saturating_sub(1) * BLOCK;

/// Compresses `values [n]`, on all threads of rayon's pool.
///
/// # Errors
/// [`CodecError::TooLarge`] for more than about 8.5 × 10^9 elements.
pub fn compress(values: &[bf16]) -> Result<Compressed, CodecError> {
    if values.len() > MOST {
        return Err(CodecError::TooLarge {
            elements: values.len(),
            most: MOST,
        });
    }
    let blocks: Vec<_> = values.par_chunks(BLOCK).map(block::encode).collect();
    let mut end = table_words(values.len());
    let mut table = Vec::with_capacity(blocks.len() * ENTRY_WORDS);
    for (entry, words) in &blocks {
        let entry = Entry {
            start: end,
            ..*entry
        };
        table.extend(entry.write());
        end += words.len();
    }
    let mut words = Vec::with_capacity(end);
    words.extend(header(values.len(), end, &table));
    words.extend(table);
    blocks.iter().for_each(|(_, block)| words.extend(block));
    Ok(Compressed {
        words,
        elements: values.len(),
    })
}

impl Compressed {
    /// Takes the words of a stream, and checks its header and its table.
    ///
    /// # Errors
    /// [`CodecError::NotAStream`], [`CodecError::Length`], [`CodecError::Damaged`]. The blocks themselves are checked when they are
    /// decompressed.
    pub fn from_words(words: Vec<u32>) -> Result<Self, CodecError> {
        let elements = check(&words)?;
        Ok(Self { words, elements })
    }

    /// Reads a stream from little-endian bytes, as in a file.
    ///
    /// # Errors
    /// As for [`from_words`](Self::from_words); [`CodecError::Length`] for a number of bytes that is no multiple of 4.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CodecError> {
        let (words, rest) = bytes.as_chunks();
        if !rest.is_empty() {
            return Err(CodecError::Length {
                what: "the last word",
                expected: words.len() as u64 + 1,
                found: words.len() as u64,
            });
        }
        Self::from_words(words.iter().copied().map(u32::from_le_bytes).collect())
    }

    /// The stream: what [`from_words`](Self::from_words) takes, and the kernel `Bf16Decode` of um-kernels.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The stream as little-endian bytes, for a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.elements
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.elements == 0
    }

    /// The size of the stream over that of the elements; 1 if there are none.
    pub fn ratio(&self) -> f64 {
        match self.elements {
            0 => 1.0,
            elements => (4 * self.words.len()) as f64 / (2 * elements) as f64,
        }
    }

    /// Decompresses all elements, on all threads of rayon's pool.
    ///
    /// # Errors
    /// [`CodecError::Damaged`] for a block that does not match its checksum.
    pub fn decompress(&self) -> Result<Vec<bf16>, CodecError> {
        let mut values = vec![bf16::ZERO; self.elements];
        self.decompress_into(&mut values)?;
        Ok(values)
    }

    /// Does the same as [`decompress`](Self::decompress), into a slice.
    ///
    /// # Errors
    /// [`CodecError::Destination`] for a slice of another length; [`CodecError::Damaged`], with an arbitrary part of the elements written.
    pub fn decompress_into(&self, values: &mut [bf16]) -> Result<(), CodecError> {
        if values.len() != self.elements {
            return Err(CodecError::Destination {
                expected: self.elements,
                found: values.len(),
            });
        }
        let decode = |(block, values): (usize, &mut [bf16])| {
            let entry = entry(&self.words, block);
            let words = &self.words[entry.start..entry.start + entry.words(values.len())];
            let damaged = |what, found: u64, expected: u64| {
                Err(CodecError::Damaged {
                    what,
                    block,
                    found,
                    expected,
                })
            };
            let sum = checksum(words);
            if sum != entry.checksum {
                return damaged("the checksum", sum.into(), entry.checksum.into());
            }
            let escapes = block::decode(&entry, words, values);
            match escapes == entry.escapes {
                true => Ok(()),
                false => damaged(
                    "the number of escapes",
                    escapes as u64,
                    entry.escapes as u64,
                ),
            }
        };
        values
            .par_chunks_mut(BLOCK)
            .enumerate()
            .try_for_each(decode)
    }
}

/// The entry of a block; 0 after the end of the words.
fn entry(words: &[u32], block: usize) -> Entry {
    let start = HEADER_WORDS + block * ENTRY_WORDS;
    let word = |at: usize| words.get(start + at).copied().unwrap_or(0);
    Entry::read(&[word(0), word(1), word(2)])
}

/// Decodes the blocks of a stream without any check, as the kernel does: the CPU reference of `Bf16Decode`. Words after the end are 0, so
/// damaged words give arbitrary elements.
pub fn decode_blocks(words: &[u32], values: &mut [bf16]) {
    let decode = |(block, values): (usize, &mut [bf16])| {
        let entry = entry(words, block);
        let words = words.get(entry.start..).unwrap_or_default();
        block::decode(&entry, words, values);
    };
    values.par_chunks_mut(BLOCK).enumerate().for_each(decode);
}
