//! Elements of every size and alignment, through every function that reads or writes a buffer, mixed with copies of other
//! sizes.

use bytemuck::{Pod, Zeroable};
use cuda_um::{
    Device, DeviceBuffer, DeviceCopy, MemoryKind, PinnedBuffer, Pool, PoolOptions,
    RegisteredBuffer, Stream, UnifiedBuffer, buffer::TransferOptions,
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

/// The operations that all kinds of buffers have. `$elements` are the contents of the buffer.
macro_rules! ways {
    ($buffer:expr, $elements:expr, $round:expr, $bed:expr) => {{
        let (buffer, round, bed) = (&mut $buffer, $round, $bed);
        let mut elements = $elements;
        let part = round.part.clone();
        let written: Vec<_> = (0..part.len()).map(|i| Pattern::of(i + 7)).collect();
        bed.disturb(round);
        assert_eq!(buffer.to_vec().unwrap(), elements);

        buffer.copy_from_host_at(part.start, &written).unwrap();
        elements[part.clone()].copy_from_slice(&written);
        assert_eq!(buffer.to_vec().unwrap(), elements);

        bed.disturb(round);
        buffer
            .host_overwrite(part.clone(), |first, slots| {
                slots.fill_with(|i| Pattern::of(first + i + 31))
            })
            .unwrap();
        for index in part.clone() {
            elements[index] = Pattern::of(index + 31);
        }
        let mut found = elements.clone();
        found.fill(Pattern::of(0));
        buffer.copy_to_host_at(0, &mut found).unwrap();
        assert_eq!(found, elements);
        buffer
            .copy_to_host_at(part.start, &mut found[..part.len()])
            .unwrap();
        assert_eq!(found[..part.len()], elements[part.clone()]);

        let viewed = buffer.view_mut(part.clone()).unwrap();
        assert_eq!(viewed.len(), part.len());
        elements.fill(Pattern::of(3));
        buffer.fill_on(elements[0], &bed.stream).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), elements);
        elements.fill(Zeroable::zeroed());
        buffer.fill_on(elements[0], &bed.stream).unwrap();
        assert_eq!(buffer.to_vec().unwrap(), elements);
    }};
}

/// The operations of the kinds that the host can also use in place.
macro_rules! host_ways {
    ($buffer:expr, $elements:expr, $round:expr, $bed:expr) => {{
        let (buffer, elements) = (&mut $buffer, $elements);
        assert_eq!(*buffer.host().unwrap(), elements[..]);
        assert!(buffer.as_ptr().is_aligned());
        ways!(*buffer, elements.clone(), $round, $bed);
        buffer.host_mut().unwrap().copy_from_slice(&elements);
        assert_eq!(*buffer.try_host().unwrap(), elements[..]);
    }};
}

/// The environment of all rounds.
struct Bed {
    device: Device,
    stream: Stream,
    unified: Pool,
    pinned: Pool,
    on_device: Pool,
}

impl Bed {
    fn new(device: &Device, stream: Stream) -> Self {
        let options = PoolOptions::default().slab_bytes(2 << 20);
        Self {
            device: device.clone(),
            stream,
            unified: Pool::new(device, MemoryKind::Managed, options).unwrap(),
            pinned: Pool::new(device, MemoryKind::Pinned, options).unwrap(),
            on_device: Pool::new(device, MemoryKind::Device, options).unwrap(),
        }
    }

    fn disturb(&self, round: &Round) {
        for &bytes in &round.before {
            let mut small = DeviceBuffer::<u8>::zeroed(&self.device, bytes).unwrap();
            small.copy_from_host(&vec![1; bytes]).unwrap();
        }
    }

    fn play<T: Pattern>(&self, round: &Round) {
        let (device, threads) = (&self.device, round.threads);
        device.set_transfer_options(
            TransferOptions::default()
                .threads(threads)
                .ring_bytes(threads * 2 * 4096 * round.pages),
        );
        let elements: Vec<T> = (0..round.len).map(T::of).collect();
        self.disturb(round);
        host_ways!(
            UnifiedBuffer::from_slice(device, &elements).unwrap(),
            elements.clone(),
            round,
            self
        );
        host_ways!(
            PinnedBuffer::from_slice(device, &elements).unwrap(),
            elements.clone(),
            round,
            self
        );
        host_ways!(
            UnifiedBuffer::from_slice_in(&self.unified, &elements).unwrap(),
            elements.clone(),
            round,
            self
        );
        host_ways!(
            PinnedBuffer::from_slice_in(&self.pinned, &elements).unwrap(),
            elements.clone(),
            round,
            self
        );
        let mut on_device = DeviceBuffer::from_slice(device, &elements).unwrap();
        assert!(on_device.as_ptr().is_aligned());
        ways!(on_device, elements.clone(), round, self);
        let mut pooled = DeviceBuffer::from_slice_in(&self.on_device, &elements).unwrap();
        assert!(pooled.as_ptr().is_aligned());
        ways!(pooled, elements.clone(), round, self);
        self.play_registered::<T>(round, &elements);
    }

    /// Registered memory does not come from an allocator, so it may begin at any address that is aligned for the element.
    fn play_registered<T: Pattern>(&self, round: &Round, elements: &[T]) {
        let mut vector = vec![T::of(1); 3];
        vector.extend_from_slice(elements);
        let inner = &mut vector[3..];
        RegisteredBuffer::scope(&self.device, inner, |registered| {
            if let Some(address) = registered.device_ptr() {
                assert!(address.is_aligned());
            }
            host_ways!(*registered, elements.to_vec(), round, self);
        })
        .unwrap();
        assert_eq!(vector[..3], [T::of(1); 3], "what is beside it");
    }
}

/// Some rounds with buffers of one type.
fn rounds<T: Pattern>() {
    let (_sim, device, stream) = device();
    let bed = Bed::new(&device, stream);
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
}

#[test]
fn elements_aligned_to_128_bytes() {
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
    large
        .host_overwrite(.., |first, slots| {
            slots.fill_with(|i| FourLines::of(first + i))
        })
        .unwrap();
    let expected: Vec<_> = (0..4).map(FourLines::of).collect();
    assert_eq!(large.to_vec().unwrap(), expected);
}
