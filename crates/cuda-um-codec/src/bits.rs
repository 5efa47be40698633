//! Codes of a fixed number of bits, bytes, and checksums, in little-endian words.

/// The code at a bit; bits after the end are 0.
pub(crate) fn code(words: &[u32], bit: usize, width: u32) -> u32 {
    let word = |at: usize| u64::from(words.get(at).copied().unwrap_or(0));
    let both = word(bit / 32) | word(bit / 32 + 1) << 32;
    (both >> (bit % 32)) as u32 & ((1 << width) - 1)
}

/// Sets a code in words that are 0 there.
pub(crate) fn set_code(words: &mut [u32], bit: usize, width: u32, code: u32) {
    let both = u64::from(code) << (bit % 32);
    words[bit / 32] |= both as u32;
    if bit % 32 + width as usize > 32 {
        words[bit / 32 + 1] |= (both >> 32) as u32;
    }
}

/// The byte at an index; bytes after the end are 0.
pub(crate) fn byte(words: &[u32], at: usize) -> u8 {
    let word = words.get(at / 4).copied().unwrap_or(0);
    (word >> (at % 4 * 8)) as u8
}

pub(crate) fn set_byte(words: &mut [u32], at: usize, byte: u8) {
    words[at / 4] |= u32::from(byte) << (at % 4 * 8);
}

/// A checksum: any change of one word changes it.
pub(crate) fn checksum(words: &[u32]) -> u32 {
    words.iter().fold(0x9e37_79b9, |sum, word| {
        (sum ^ word).wrapping_mul(0x85eb_ca6b).rotate_left(13)
    })
}
