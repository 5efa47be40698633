//! The pieces and the threads of copies.

use crate::buffer::transfer::options::PAGE;
use crate::buffer::transfer::{Direction, Piece, Staged};
use crate::driver::CopyKind;
use smallvec::SmallVec;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Returns the number of threads, at most `threads`, that make a staged copy faster.
pub(super) fn copy_threads(bytes: usize, threads: usize) -> usize {
    // For a smaller copy, a second thread comes too late, or saves less than its pieces cost.
    match bytes / MIB {
        // The models of `tests/loom` copy a few pages.
        _ if cfg!(cuda_um_loom) => threads,
        0..2 => 1,
        2..4 => threads.min(2),
        4..16 => threads.min(4),
        _ => threads,
    }
}

/// Returns true if the driver's own copy from pageable memory to an idle stream is at least as fast: the driver stages on the calling thread,
/// too, and its pieces cost less.
pub(super) fn is_for_driver(direction: Direction, bytes: usize) -> bool {
    direction == Direction::ToDevice && (512 * KIB..2 * MIB).contains(&bytes)
}

/// Returns the size of the pieces in the middle of a staged copy: 256 KiB for 1 MiB, twice as much for four times as many bytes, and at
/// most 2 MiB.
pub(super) fn piece_bytes(bytes: usize) -> usize {
    let fair = bytes.saturating_mul(64 * KIB).isqrt();
    fair.next_multiple_of(PAGE).clamp(128 * KIB, 2 * MIB)
}

/// Returns the pieces of a copy in chunks of this size, on so many threads; no piece splits a unit.
///
/// The thread and piece counts are those that were fastest on the hosts of an H200 and of H100s (`docs/results/h200-cuda-13.0/staging.md`,
/// `docs/results/h100-cuda-13.0/staging-256.txt`). The slower side never waits for a large piece: several threads are faster than the
/// link, which begins with small pieces to the device and ends with small ones to the host; a single thread is slower, so the last pieces
/// to the device are small.
pub(crate) fn pieces(
    copy: &Staged,
    unit_bytes: usize,
    chunk_bytes: usize,
    threads: usize,
) -> SmallVec<[Piece; 8]> {
    let (fair, first) = match (copy.direction, threads) {
        // Each piece costs a wait, which takes longer than it saves.
        (Direction::ToHost, 1) => (chunk_bytes, [1, 1]),
        // Each copy to managed memory costs the driver some microseconds, so there are fewer.
        (Direction::ToDevice, _) if copy.kind == CopyKind::ByAddress => match copy.bytes / MIB {
            0..2 => (256 * KIB, [1, 1]),
            2..4 => (512 * KIB, [1, 1]),
            _ => (piece_bytes(copy.bytes).max(MIB), [2, 1]),
        },
        _ => (piece_bytes(copy.bytes), [4, 2]),
    };
    let (mut sizes, mut left) = (SmallVec::<[usize; 8]>::new(), copy.bytes);
    while left > 0 {
        let share = fair / first.get(sizes.len() / threads).unwrap_or(&1);
        let share = share.clamp((128 * KIB).min(chunk_bytes), chunk_bytes);
        let piece = (share - share % unit_bytes).max(unit_bytes).min(left);
        sizes.push(piece);
        left -= piece;
    }
    if (copy.direction == Direction::ToHost) == (threads > 1) {
        sizes.reverse();
    }
    let piece = |end: &mut usize, bytes| {
        let at = std::mem::replace(end, *end + bytes);
        let device = copy.device.wrapping_add(at);
        Some(Piece {
            device,
            at,
            bytes,
            of: 0,
        })
    };
    sizes.into_iter().scan(0, piece).collect()
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::*;

    const UP: (Direction, CopyKind) = (Direction::ToDevice, CopyKind::HostToDevice);
    const UP_MANAGED: (Direction, CopyKind) = (Direction::ToDevice, CopyKind::ByAddress);
    const DOWN: (Direction, CopyKind) = (Direction::ToHost, CopyKind::ByAddress);

    /// The sizes of the pieces, which follow each other.
    fn sizes(
        (direction, kind): (Direction, CopyKind),
        bytes: usize,
        unit: usize,
        chunk: usize,
        threads: usize,
    ) -> Vec<usize> {
        let copy = Staged {
            direction,
            host: std::ptr::null_mut(),
            device: std::ptr::null_mut(),
            bytes,
            kind,
        };
        let (mut at, mut sizes) = (0, Vec::new());
        for piece in pieces(&copy, unit, chunk, threads) {
            assert_eq!((piece.at, piece.device.addr()), (at, at));
            at += piece.bytes;
            sizes.push(piece.bytes);
        }
        assert_eq!(at, bytes);
        sizes
    }

    #[test]
    fn pieces_cover_the_copy_and_fit_the_chunks() {
        let all = [12, 4096, 300_000, 3 * MIB, 20 * MIB, 1024 * MIB];
        // Miri would take minutes for the larger ones.
        let all = if cfg!(miri) { &all[..3] } else { &all[..] };
        for way in [UP, UP_MANAGED, DOWN] {
            for &bytes in all {
                for (unit, chunk, threads) in [
                    (1, 4 * MIB, 8),
                    (12, 4 * MIB, 3),
                    (12, 4096, 1),
                    (4096, 4096, 2),
                ] {
                    let sizes = sizes(way, bytes.next_multiple_of(unit), unit, chunk, threads);
                    let fits =
                        |bytes: &usize| (1..=chunk).contains(bytes) && bytes.is_multiple_of(unit);
                    assert!(sizes.iter().all(fits), "{sizes:?}");
                }
            }
        }
    }
}
