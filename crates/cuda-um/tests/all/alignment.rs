//! Elements of every size and alignment, through every function that reads or writes a buffer, mixed with copies of other
//! sizes.

use bytemuck::{Pod, Zeroable};
use cuda_um::buffer::TransferOptions;
use cuda_um::buffer::kind::{HostVisible, Kind};
use cuda_um::{
    Device, DeviceBuffer, DeviceCopy, Memory, PinnedBuffer, RegisteredBuffer, Stream, UnifiedBuffer,
};
use cuda_um_testkit::device;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fmt::Debug;
use std::ops::Range;

macro_rules! aligned {
    ($($name:ident: $align:literal, $bytes:literal;)*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
        #[repr(C, align($align))]
        struct $name([u8; $bytes]);

        impl Pattern for $name {
            fn of(number: usize) -> Self {
                Self(std::array::from_fn(|at| byte(number, at)))
            }
        }
    )*};
}

aligned! {
    Line: 64, 64;
    TwoLines: 128, 128;
    FourLines: 256, 256;
    TwiceFourLines: 256, 512;
}

/// An element that differs from its neighbours in each of its bytes.
trait Pattern: DeviceCopy + PartialEq + Debug {
    fn of(number: usize) -> Self;
}

impl Pattern for u8 {
    fn of(number: usize) -> Self {
        byte(number, 0)
    }
}
impl Pattern for u64 {
    fn of(number: usize) -> Self {
        Self::from_ne_bytes(Pattern::of(number))
    }
}
impl Pattern for [u16; 2] {
    fn of(number: usize) -> Self {
        bytemuck::cast(<[u8; 4]>::of(number))
    }
}
impl<const BYTES: usize> Pattern for [u8; BYTES]
where
    [u8; BYTES]: DeviceCopy,
{
    fn of(number: usize) -> Self {
        std::array::from_fn(|at| byte(number, at))
    }
}

fn byte(number: usize, at: usize) -> u8 {
    (number.wrapping_mul(167) ^ at.wrapping_mul(89)) as u8
}

/// One round with a new buffer.
#[derive(Clone, Debug)]
struct Round {
    /// Sizes of earlier copies to the device, in bytes; they change the state of the ring.
    before: Vec<usize>,
    threads: usize,
    /// Pages of each half of a thread's share of the ring; some elements do not fit.
    pages: usize,
    len: usize,
    part: Range<usize>,
}

fn round() -> impl Strategy<Value = Round> {
    let before = proptest::collection::vec(1..700_usize, 0..6);
    let shape = (1..300_usize).prop_flat_map(|len| {
        let part = (0..len, 0..len).prop_map(|(a, b)| a.min(b)..a.max(b) + 1);
        (Just(len), part)
    });
    (before, 1..=3_usize, 1..4_usize, shape).prop_map(|(before, threads, pages, (len, part))| {
        Round {
            before,
            threads,
            pages,
            len,
            part,
        }
    })
}

/// The environment of all rounds.
struct Bed {
    device: Device,
    stream: Stream,
}

impl Bed {
    /// Copies of other sizes.
    fn disturb(&self, round: &Round) {
        for &bytes in &round.before {
            let mut small = DeviceBuffer::<u8>::zeroed(&self.device, bytes).unwrap();
            small.copy_from_host(&vec![1; bytes]).unwrap();
        }
    }

    /// The operations of every kind of buffer, which holds these elements; returns what it holds then.
    fn ways<T: Pattern, K: Kind>(
        &self,
        buffer: &mut Memory<T, K>,
        mut elements: Vec<T>,
        round: &Round,
    ) -> Vec<T> {
        let part = round.part.clone();
        self.disturb(round);
        assert_eq!(buffer.to_vec().unwrap(), elements);
        let written: Vec<_> = (0..part.len()).map(|i| T::of(i + 7)).collect();
        buffer.copy_from_host_at(part.start, &written).unwrap();
        elements[part.clone()].copy_from_slice(&written);
        assert_eq!(buffer.to_vec().unwrap(), elements);

        self.disturb(round);
        let made = buffer.host_overwrite(part.clone(), |first, slots| {
            slots.fill_with(|i| T::of(first + i + 31))
        });
        made.unwrap();
        for index in part.clone() {
            elements[index] = T::of(index + 31);
        }
        let mut found = vec![T::of(0); elements.len()];
        buffer.copy_to_host_at(0, &mut found).unwrap();
        assert_eq!(found, elements);
        let found = &mut found[..part.len()];
        buffer.copy_to_host_at(part.start, found).unwrap();
        assert_eq!(found, &elements[part.clone()]);

        for value in [T::of(3), T::zeroed()] {
            buffer.fill_on(value, &self.stream).unwrap();
            elements.fill(value);
            assert_eq!(buffer.to_vec().unwrap(), elements);
        }
        elements
    }

    /// The same, and the access of kinds that the host uses in place.
    fn host_ways<T: Pattern, K: HostVisible>(
        &self,
        buffer: &mut Memory<T, K>,
        elements: &[T],
        round: &Round,
    ) {
        assert_eq!(*buffer.host().unwrap(), *elements);
        buffer.host_mut().unwrap()[0] = T::of(90);
        let mut elements = elements.to_vec();
        elements[0] = T::of(90);
        let elements = self.ways(buffer, elements, round);
        assert_eq!(*buffer.try_host().unwrap(), elements[..]);
    }

    /// With memory of the default pools, whose blocks follow each other.
    fn play<T: Pattern>(&self, round: &Round) {
        let (device, threads) = (&self.device, round.threads);
        let options = TransferOptions::default().threads(threads);
        device.set_transfer_options(options.ring_bytes(threads * 2 * 4096 * round.pages));
        let elements: Vec<T> = (0..round.len).map(T::of).collect();
        self.disturb(round);
        let mut unified = UnifiedBuffer::from_slice(device, &elements).unwrap();
        self.host_ways(&mut unified, &elements, round);
        let mut pinned = PinnedBuffer::from_slice(device, &elements).unwrap();
        self.host_ways(&mut pinned, &elements, round);
        let mut on_device = DeviceBuffer::from_slice(device, &elements).unwrap();
        assert!(on_device.as_ptr().is_aligned());
        self.ways(&mut on_device, elements.clone(), round);
        // Registered memory does not come from an allocator, so it may begin at any address that is aligned for the element.
        let mut vector = [vec![T::of(1); 3], elements.clone()].concat();
        let registered = RegisteredBuffer::scope(device, &mut vector[3..], |registered| {
            assert!(
                registered
                    .device_ptr()
                    .is_none_or(|address| address.is_aligned())
            );
            self.host_ways(registered, &elements, round);
        });
        registered.unwrap();
        assert_eq!(vector[..3], [T::of(1); 3], "what is beside it");
    }
}

/// Some rounds with buffers of one type.
fn rounds<T: Pattern>() {
    let (_sim, device, stream) = device();
    let bed = Bed { device, stream };
    let config = Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    };
    TestRunner::new(config)
        .run(&round(), |round| {
            bed.play::<T>(&round);
            Ok(())
        })
        .unwrap();
}

/// claim 41
#[test]
fn elements_of_one_byte() {
    rounds::<u8>();
    rounds::<[u8; 2]>();
    rounds::<[u8; 3]>();
}

/// claim 41
#[test]
fn elements_larger_than_their_alignment() {
    rounds::<[u8; 8]>();
    rounds::<[u16; 2]>();
    rounds::<[u8; 4096]>();
}

#[test]
fn elements_of_their_own_alignment() {
    rounds::<u64>();
    rounds::<Line>();
    rounds::<TwoLines>();
}

/// claims 4 and 41
#[test]
fn elements_aligned_to_256_bytes() {
    rounds::<FourLines>();
    rounds::<TwiceFourLines>();
}

/// claim 4
#[test]
fn a_piece_that_is_overwritten_is_aligned_behind_a_small_copy() {
    let (_sim, device, _) = device();
    let mut small = DeviceBuffer::<u8>::zeroed(&device, 10).unwrap();
    small.copy_from_host(&[1; 10]).unwrap();
    let mut large = DeviceBuffer::<FourLines>::zeroed(&device, 4).unwrap();
    let made = large.host_overwrite(.., |first, slots| {
        slots.fill_with(|i| FourLines::of(first + i))
    });
    made.unwrap();
    let expected: Vec<_> = (0..4).map(FourLines::of).collect();
    assert_eq!(large.to_vec().unwrap(), expected);
}
