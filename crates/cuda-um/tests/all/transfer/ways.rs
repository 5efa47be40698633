//! Every element arrives, whatever the way, the memory, its size and its alignment, also among copies of other sizes.

use super::*;
use bytemuck::{Pod, Zeroable};
use cuda_um::buffer::kind::{HostVisible, Kind};
use cuda_um::{DeviceCopy, Memory, RegisteredBuffer, Stream};
use cuda_um_testkit::machines;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::fmt::Debug;
use std::ops::Range;

use Gpu::{Gb10, Gh200, H200, Hmm, Maxwell, NoConcurrentAccess, Pascal};

/// An element that differs from its neighbours in each of its bytes.
trait Pattern: DeviceCopy + PartialEq + Debug {
    fn of(number: usize) -> Self;
}

fn byte(number: usize, at: usize) -> u8 {
    (number.wrapping_mul(167) ^ at.wrapping_mul(89)) as u8
}

impl<const BYTES: usize> Pattern for [u8; BYTES]
where
    [u8; BYTES]: DeviceCopy,
{
    fn of(number: usize) -> Self {
        std::array::from_fn(|at| byte(number, at))
    }
}

/// Writes a range of a buffer in each way, with something else before, and reads the buffer back.
fn arrives<T: Pattern, K: Kind>(
    buffer: &mut Memory<T, K>,
    range: Range<usize>,
    stream: &Stream,
    before: impl Fn(),
) {
    let mut expected = buffer.to_vec().unwrap();
    for (number, way) in ["a slice", "a task", "a closure", "storage"]
        .iter()
        .enumerate()
    {
        before();
        let elements: Vec<T> = range
            .clone()
            .map(|at| T::of(at + 31 * number + 7))
            .collect();
        let mut target = buffer.view_mut(range.clone()).unwrap();
        match number {
            0 => target.copy_from_host(&elements).unwrap(),
            1 => pollster::block_on(target.copy_from_host_async(&elements)).unwrap(),
            2 => target
                .host_overwrite(.., |first, slots| slots.fill_with(|i| elements[first + i]))
                .unwrap(),
            _ => {
                let storage = Storage::new(bytemuck::cast_slice(&elements).to_vec());
                let bytes = storage.bytes.len();
                let done = read(target.cast().unwrap(), &storage, &whole(bytes));
                assert_eq!(done.unwrap(), bytes);
            }
        }
        expected[range.clone()].copy_from_slice(&elements);
        let mut back = vec![T::zeroed(); elements.len()];
        buffer.copy_to_host_at(range.start, &mut back).unwrap();
        assert!(back == elements, "{way}, {range:?}");
        let mut all = vec![T::zeroed(); expected.len()];
        pollster::block_on(buffer.copy_to_host_async(&mut all)).unwrap();
        assert!(all == expected, "{way}, {range:?}");
    }
    for value in [T::of(3), T::zeroed()] {
        buffer.fill_on(value, stream).unwrap();
        assert!(buffer.to_vec().unwrap() == vec![value; expected.len()]);
    }
}

fn every_way((device, stream): (&Device, &Stream), options: TransferOptions, counts: &[usize]) {
    device.set_transfer_options(options);
    for &count in counts {
        // 12 bytes do not divide a page: no element is split.
        let around = vec![<[u8; 12]>::of(5); count + 2];
        macro_rules! arrives {
            ($buffer:ident) => {
                let mut buffer = $buffer::from_slice(device, &around).unwrap();
                arrives(&mut buffer, 1..count + 1, stream, || ());
            };
        }
        arrives!(UnifiedBuffer);
        arrives!(DeviceBuffer);
        arrives!(PinnedBuffer);
    }
}

#[test]
fn every_element_arrives_whatever_the_way() {
    for (_sim, device, stream) in
        machines([H200, Gh200, Hmm, Gb10, Pascal, Maxwell, NoConcurrentAccess])
    {
        // `TransferOptions` accepts any number: the extreme values mean "as many as useful" and "off".
        let most = TransferOptions::default().threads(usize::MAX);
        for options in [
            small(2),
            small(3).ring_bytes(4096),
            small(2).ring_bytes(0),
            most.ring_bytes(1),
            most.ring_bytes(usize::MAX),
            most.threads(0),
        ] {
            every_way((&device, &stream), options, &[10, 1366, 20_000]);
        }
    }
    let (_sim, device, stream) = device();
    // Longer than the pieces between which other tasks run.
    let options = TransferOptions::default().threads(3);
    every_way((&device, &stream), options, &[10, 700_001]);
}

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
/// One round with a new buffer.
#[derive(Clone, Debug)]
struct Round {
    /// Sizes of copies in between, in bytes; they change the state of the ring.
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

impl Round {
    /// Copies of other sizes.
    fn disturb(&self, device: &Device) {
        for &bytes in &self.before {
            let mut small = DeviceBuffer::<u8>::zeroed(device, bytes).unwrap();
            small.copy_from_host(&vec![1; bytes]).unwrap();
        }
    }

    fn copies<T: Pattern, K: Kind>(&self, buffer: &mut Memory<T, K>, stream: &Stream) {
        let disturb = || self.disturb(&stream.device());
        arrives(buffer, self.part.clone(), stream, disturb);
    }

    /// The same in kinds that the host uses in place.
    fn of_host<T: Pattern, K: HostVisible>(
        &self,
        buffer: &mut Memory<T, K>,
        elements: &[T],
        stream: &Stream,
    ) {
        assert_eq!(*buffer.host().unwrap(), *elements);
        self.copies(buffer, stream);
        buffer.host_mut().unwrap()[0] = T::of(90);
        assert_eq!(buffer.read_one(0).unwrap(), T::of(90));
        assert_eq!(*buffer.try_host().unwrap(), buffer.to_vec().unwrap()[..]);
    }

    /// With memory of the default pools, whose blocks follow each other.
    fn play<T: Pattern>(&self, device: &Device, stream: &Stream) {
        let options = TransferOptions::default().threads(self.threads);
        device.set_transfer_options(options.ring_bytes(self.threads * 2 * 4096 * self.pages));
        let elements: Vec<T> = (0..self.len).map(T::of).collect();
        self.disturb(device);
        let mut unified = UnifiedBuffer::from_slice(device, &elements).unwrap();
        self.of_host(&mut unified, &elements, stream);
        let mut pinned = PinnedBuffer::from_slice(device, &elements).unwrap();
        self.of_host(&mut pinned, &elements, stream);
        let mut on_device = DeviceBuffer::from_slice(device, &elements).unwrap();
        assert!(on_device.as_ptr().is_aligned());
        assert_eq!(on_device.to_vec().unwrap(), elements);
        self.copies(&mut on_device, stream);
        // Registered memory does not come from an allocator, so it may begin at any address that is aligned for the element.
        let mut vector = [vec![T::of(1); 3], elements.clone()].concat();
        let registered = RegisteredBuffer::scope(device, &mut vector[3..], |registered| {
            let address = registered.device_ptr();
            assert!(address.is_none_or(|address| address.is_aligned()));
            self.of_host(registered, &elements, stream);
        });
        registered.unwrap();
        assert_eq!(vector[..3], [T::of(1); 3], "what is beside it");
    }
}

/// Some rounds with buffers of one type.
fn rounds<T: Pattern>() {
    let (_sim, device, stream) = device();
    let config = Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    };
    let played = TestRunner::new(config).run(&round(), |round| {
        round.play::<T>(&device, &stream);
        Ok(())
    });
    played.unwrap();
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
