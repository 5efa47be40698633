//! The plan of a staged copy: its pieces and its number of threads.

use crate::buffer::transfer::options::PAGE;
use crate::buffer::transfer::request::{Direction, Staged};
use crate::driver::CopyKind;
use smallvec::{SmallVec, smallvec};

/// The pieces and threads of a copy.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    /// The offset of each piece, and the end of the last one.
    pub(super) bounds: SmallVec<[usize; 8]>,
    pub(super) threads: usize,
}

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

impl Plan {
    /// The thread and piece counts are those that were fastest on the hosts of an H200 and of H100s (`docs/results/h200-cuda-13.0/staging.md`,
    /// `docs/results/h100-cuda-13.0/staging-256.txt`). The slower side never waits for a large piece: several threads are faster than the
    /// link, which begins with small pieces to the device and ends with small ones to the host; a single thread is slower, so the last pieces
    /// to the device are small.
    pub(super) fn new(copy: &Staged<'_>, chunk_bytes: usize, threads: usize) -> Self {
        let threads = copy_threads(copy.bytes, threads);
        let whole = |bytes: usize| {
            let bytes = bytes.clamp((128 * KIB).min(chunk_bytes), chunk_bytes);
            (bytes - bytes % copy.unit_bytes).max(copy.unit_bytes)
        };
        let (fair, first) = match (copy.direction, threads) {
            // Each piece costs a wait, which takes longer than it saves.
            (Direction::ToHost, 1) => (chunk_bytes, [1, 1]),
            // Each copy to managed memory costs the driver some microseconds, so there are fewer.
            (Direction::ToDevice, _) if copy.kind == CopyKind::ByAddress => {
                match copy.bytes / MIB {
                    0..2 => (256 * KIB, [1, 1]),
                    2..4 => (512 * KIB, [1, 1]),
                    _ => (piece_bytes(copy.bytes).max(MIB), [2, 1]),
                }
            }
            _ => (piece_bytes(copy.bytes), [4, 2]),
        };
        let (mut sizes, mut left) = (SmallVec::<[usize; 8]>::new(), copy.bytes);
        while left > 0 {
            let share = fair / first.get(sizes.len() / threads).unwrap_or(&1);
            let piece = whole(share).min(left);
            sizes.push(piece);
            left -= piece;
        }
        if (copy.direction == Direction::ToHost) == (threads > 1) {
            sizes.reverse();
        }
        let mut bounds = smallvec![0];
        bounds.extend(sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        }));
        Self {
            threads: threads.min(sizes.len()),
            bounds,
        }
    }

    pub(super) fn pieces(&self) -> usize {
        self.bounds.len() - 1
    }
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::super::Host;
    use super::super::on_host::threads_on_host;
    use super::*;
    use crate::driver::CopyKind;

    const MANAGED: CopyKind = CopyKind::ByAddress;
    const DEVICE: CopyKind = CopyKind::HostToDevice;

    fn plan(
        (direction, kind): (Direction, CopyKind),
        bytes: usize,
        unit_bytes: usize,
        chunk_bytes: usize,
        threads: usize,
    ) -> Plan {
        let copy = Staged {
            direction,
            host: Host::Memory(std::ptr::null_mut()),
            device: std::ptr::null_mut(),
            bytes,
            unit_bytes,
            kind,
        };
        Plan::new(&copy, chunk_bytes, threads)
    }

    #[test]
    fn pieces_cover_the_copy_and_fit_the_chunks() {
        let all = [12, 4096, 300_000, 3 * MIB, 20 * MIB, 1024 * MIB];
        // Miri would take minutes for the larger ones.
        let sizes = if cfg!(miri) { &all[..3] } else { &all[..] };
        for way in [
            (Direction::ToDevice, DEVICE),
            (Direction::ToDevice, MANAGED),
            (Direction::ToHost, MANAGED),
        ] {
            for &bytes in sizes {
                for (unit, chunk, threads) in [
                    (1, 4 * MIB, 8),
                    (12, 4 * MIB, 3),
                    (12, 4096, 1),
                    (4096, 4096, 2),
                ] {
                    let bytes = bytes.next_multiple_of(unit);
                    let plan = plan(way, bytes, unit, chunk, threads);
                    assert_eq!((plan.bounds[0], *plan.bounds.last().unwrap()), (0, bytes));
                    for piece in plan.bounds.windows(2) {
                        let bytes = piece[1] - piece[0];
                        assert!(bytes > 0 && bytes <= chunk && bytes % unit == 0, "{plan:?}");
                    }
                    assert!((1..=threads).contains(&plan.threads));
                }
            }
        }
    }

    #[test]
    fn the_size_decides_for_the_driver_and_the_threads() {
        let of = |bytes| {
            let driver = is_for_driver(Direction::ToDevice, bytes);
            (driver, copy_threads(bytes, 12), threads_on_host(bytes, 12))
        };
        assert_eq!(of(512 * KIB - 1), (false, 1, 1));
        assert_eq!(of(512 * KIB), (true, 1, 1));
        assert_eq!(of(MIB), (true, 1, 2));
        assert_eq!(of(2 * MIB - 1), (true, 1, 2));
        assert_eq!(of(2 * MIB), (false, 2, 2));
        assert_eq!(of(4 * MIB), (false, 4, 4));
        assert_eq!(of(16 * MIB), (false, 12, 12));
        assert_eq!((copy_threads(MIB << 8, 1), threads_on_host(MIB, 1)), (1, 1));
        assert!(!is_for_driver(Direction::ToHost, MIB));
    }

    #[test]
    fn large_copies_have_all_threads_and_begin_or_end_small() {
        let up = |kind| plan((Direction::ToDevice, kind), 256 * MIB, 1, 4 * MIB, 8);
        assert_eq!((up(DEVICE).threads, up(DEVICE).bounds[1]), (8, MIB / 2));
        assert_eq!((up(MANAGED).threads, up(MANAGED).bounds[1]), (8, MIB));
        let to_host = (Direction::ToHost, MANAGED);
        let down = plan(to_host, 256 * MIB, 1, 4 * MIB, 8);
        assert_eq!(down.bounds[1], down.bounds[2] - down.bounds[1]);
        assert_eq!(
            down.bounds[down.pieces()] - down.bounds[down.pieces() - 1],
            MIB / 2
        );
        assert_eq!(plan(to_host, 300_000, 1, 4 * MIB, 8).threads, 1);
    }

    #[test]
    fn managed_memory_has_fewer_pieces() {
        for (bytes, pieces) in [(MIB, 4), (3 * MIB, 6), (4 * MIB, 6), (16 * MIB, 22)] {
            let of = |kind| plan((Direction::ToDevice, kind), bytes, 1, 2 * MIB, 12).pieces();
            assert_eq!(of(MANAGED), pieces, "{bytes}");
            assert!(of(DEVICE) > pieces);
        }
    }
}
