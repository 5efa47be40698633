//! Rows in 16 or 8 bits, in the layout of the filter's tiles; cuda/exact.cuh uses the same numbers.

use super::Filter;
use half::{bf16, f16};

/// Rows of a tile, and queries of a block.
pub(crate) const TILE: usize = 128;
/// Targets of a block: two rows of tiles.
pub(crate) const BLOCK: usize = 256;
/// Groups of targets in a block; the sample keeps the best of each.
pub(crate) const GROUPS: usize = 16;

/// Bytes of a row of a tile.
const LINE: usize = 128;

/// The formats of the filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// 8 bits of exponent, 8 of mantissa: for rows of any size.
    Bf16,
    /// 5 bits of exponent, 11 of mantissa: an eighth of the rounding error, for rows that are scaled by their norms.
    F16,
    /// Integers from −127 to 127 with a scale for each row: half the bytes and twice the speed, but about 40 times the rounding
    /// error of half precision, so that more targets remain to be scored.
    Int8,
}

impl Format {
    /// `bf16`, `f16` or `int8`: the ending of the kernels' names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
            Self::Int8 => "int8",
        }
    }

    /// Elements in a row of a tile; rows are padded with zeros to a multiple of it.
    pub(crate) fn tile_elements(self) -> usize {
        LINE / self.bytes()
    }

    /// Bytes of an element.
    fn bytes(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::Int8 => 1,
        }
    }

    /// The filter with this format.
    pub(crate) fn filter(self) -> Filter {
        match self {
            Self::Bf16 => Filter::Bf16,
            Self::F16 => Filter::F16,
            Self::Int8 => Filter::Int8,
        }
    }

    /// The nearest number of a 16-bit format, 0 for denormal ones.
    pub(crate) fn narrow(self, value: f32) -> u16 {
        let (bits, exponent) = match self {
            Self::Bf16 => (bf16::from_f32(value).to_bits(), 0x7f80),
            Self::F16 | Self::Int8 => (f16::from_f32(value).to_bits(), 0x7c00),
        };
        if bits & exponent == 0 { 0 } else { bits }
    }

    #[cfg(test)]
    pub(crate) fn widen(self, bits: u16) -> f32 {
        match self {
            Self::Bf16 => bf16::from_bits(bits).to_f32(),
            Self::F16 | Self::Int8 => f16::from_bits(bits).to_f32(),
        }
    }
}

/// Number of 16-bit numbers for `rows` rows of `dim` elements, in whole tiles.
pub(crate) fn room(rows: usize, dim: usize, format: Format) -> usize {
    let line = dim.div_ceil(format.tile_elements()) * (LINE / 2);
    rows.next_multiple_of(TILE).saturating_mul(line)
}

/// The position of an element, counted in elements. Within the 128 bytes of a row in a tile, groups of 16 bytes are swapped
/// depending on the row.
pub(crate) fn place(row: usize, element: usize, blocks: usize, format: Format) -> usize {
    let (line, group) = (format.tile_elements(), 16 / format.bytes());
    let tile = row / TILE * blocks + element / line;
    let swapped = (element % line / group) ^ (row % 8);
    (tile * TILE + row % TILE) * line + swapped * group + element % group
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_element_has_its_own_place() {
        let (rows, dim) = (200, 130usize);
        for format in [Format::F16, Format::Int8] {
            let blocks = dim.div_ceil(format.tile_elements());
            let places: BTreeSet<usize> = (0..rows)
                .flat_map(|row| (0..dim).map(move |element| place(row, element, blocks, format)))
                .collect();
            assert_eq!(places.len(), rows * dim);
            assert!(*places.last().unwrap() * format.bytes() < room(rows, dim, format) * 2);
        }
    }

    #[test]
    fn denormal_numbers_are_zero() {
        for format in [Format::Bf16, Format::F16] {
            assert_eq!(format.narrow(0.0), 0);
            assert_eq!(format.widen(format.narrow(1.0)), 1.0);
            assert_eq!(format.widen(format.narrow(-0.5)), -0.5);
        }
        assert_eq!(Format::F16.narrow(6e-5), 0);
        assert_ne!(Format::F16.narrow(6.2e-5), 0);
        assert_eq!(Format::Bf16.narrow(1e-38), 0);
    }
}
