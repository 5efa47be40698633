//! Errors.

/// The reason why data cannot be compressed or decompressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The data are no compressed stream: they begin in another way.
    #[error("not a compressed stream: word {word} is {found:#010x}, expected {expected:#010x}")]
    NotAStream {
        /// The index of the word.
        word: usize,
        /// The word.
        found: u32,
        /// The word of a stream.
        expected: u32,
    },
    /// The stream has another length than its header or table says.
    #[error(
        "compressed stream of {found} words; {what} needs {expected}: the stream is truncated or damaged"
    )]
    Length {
        /// The part that needs another length.
        what: &'static str,
        /// The number of words that it needs.
        expected: u64,
        /// The number of words of the stream.
        found: u64,
    },
    /// A part of the stream has an impossible value, or does not match its checksum.
    #[error(
        "compressed stream is damaged: {what} of block {block} is {found:#x}, expected {expected:#x}"
    )]
    Damaged {
        /// The field.
        what: &'static str,
        /// The block.
        block: usize,
        /// The value.
        found: u64,
        /// The value that it must have, or the largest one.
        expected: u64,
    },
    /// The destination has another number of elements than the stream.
    #[error(
        "the destination has {found} elements, and the stream {expected}: pass one of {expected}"
    )]
    Destination {
        /// The number of elements of the stream.
        expected: usize,
        /// The number of elements of the destination.
        found: usize,
    },
    /// The data would need more words than a table can address.
    #[error(
        "{elements} elements are too many for one stream, which has at most {most}: split them"
    )]
    TooLarge {
        /// The number of elements.
        elements: usize,
        /// The largest number.
        most: usize,
    },
}
