//! Copies of rows and layers: each contiguous part is a copy of its own.

use super::copy::Direction;
use super::status::Code;

/// One side of a copy: where it begins, the bytes from a row to the next, and the rows from a layer to the next.
#[derive(Clone, Copy)]
pub(crate) struct Plane {
    pub(crate) address: usize,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// A copy in three dimensions.
#[derive(Clone, Copy)]
pub(crate) struct Pitched {
    pub(crate) to: Plane,
    pub(crate) from: Plane,
    /// Bytes of a row, rows, layers.
    pub(crate) extent: [usize; 3],
    pub(crate) direction: Direction,
}

impl Pitched {
    /// A copy of one row.
    pub(crate) fn row(to: usize, from: usize, bytes: usize, direction: Direction) -> Pitched {
        let [to, from] = [to, from].map(|address| Plane {
            address,
            pitch: bytes,
            height: 1,
        });
        Pitched {
            to,
            from,
            extent: [bytes, 1, 1],
            direction,
        }
    }

    /// Whether there is more than one row.
    pub(crate) fn has_rows(&self) -> bool {
        self.extent[1..] != [1, 1]
    }

    /// The contiguous parts: where to, where from, bytes.
    pub(crate) fn parts(&self) -> Result<Vec<(usize, usize, usize)>, Code> {
        let [width, rows, layers] = self.extent;
        if self.extent.contains(&0) {
            return Ok(Vec::new());
        }
        let sides = [self.to, self.from];
        let fits = |side: &Plane| {
            let layer = side.pitch.checked_mul(side.height.max(rows));
            let all = layer.and_then(|layer| layer.checked_mul(layers));
            (rows * layers == 1 || side.pitch >= width)
                && all.is_some_and(|all| side.address.checked_add(all).is_some())
                && (layers == 1 || side.height >= rows)
        };
        if !sides.iter().all(fits) {
            return Err(Code::INVALID_PITCH_VALUE);
        }
        let dense = sides.iter().all(|side| side.pitch == width);
        let (width, rows) = if dense {
            (width * rows, 1)
        } else {
            (width, rows)
        };
        let at = |side: Plane, layer, row| side.address + side.pitch * (layer * side.height + row);
        let layers = (0..layers).flat_map(|layer| (0..rows).map(move |row| (layer, row)));
        let part = |(layer, row)| (at(self.to, layer, row), at(self.from, layer, row), width);
        Ok(layers.map(part).collect())
    }
}
