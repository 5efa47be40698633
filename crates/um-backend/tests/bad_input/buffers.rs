//! The methods of `Buffer`, on every kind of it.

use std::ops::Range;

use um_backend::{Advice, Buffer, BufferKind, CudaError, HostBuffer};

use crate::world::{Case, LEN, World, run};

type Call = fn(&mut dyn Buffer<f32>) -> Result<(), CudaError>;

const END: usize = usize::MAX;

fn on_each_kind(of: &'static str, is: &'static str, says: &str, call: Call) {
    let cases = BufferKind::ALL.into_iter().enumerate();
    run(cases
        .map(|(at, kind)| Case {
            of,
            given: format!("a {kind} buffer"),
            call: Box::new(move |world: &mut World| call(&mut *world.buffers[at].1)),
            is,
            says: vec![says.to_owned()],
        })
        .collect());
}

fn mismatch(of: &'static str, says: &str, call: Call) {
    on_each_kind(of, "LengthMismatch", says, call);
}

fn outside(of: &'static str, Range { start, end }: Range<usize>, len: usize, call: Call) {
    let says = format!("range {start}..{end} is not within the buffer's {len} elements");
    on_each_kind(of, "RangeOutOfBounds", &says, call);
}

fn host(len: usize) -> HostBuffer<f32> {
    HostBuffer::zeroed(len).unwrap()
}

#[test]
fn slices_of_another_length() {
    let says = "copy_from_host: 1000 elements expected, 999 found";
    mismatch("Buffer::copy_from_host", says, |b| {
        b.copy_from_host(&[9.0; LEN - 1])
    });
    let says = "copy_to_host: 1000 elements expected, 1001 found";
    mismatch("Buffer::copy_to_host", says, |b| {
        b.copy_to_host(&mut [9.0; LEN + 1])
    });
    let says = "copy_to_host: 1000 elements expected, 0 found";
    mismatch("Buffer::copy_to_host", says, |b| b.copy_to_host(&mut []));
}

#[test]
fn parts_outside() {
    outside("Buffer::copy_from_host_at", 991..1001, LEN, |b| {
        b.copy_from_host_at(991, &[9.0; 10])
    });
    outside("Buffer::copy_from_host_at", 1001..1001, LEN, |b| {
        b.copy_from_host_at(1001, &[])
    });
    outside("Buffer::copy_from_host_at", END..END, LEN, |b| {
        b.copy_from_host_at(END, &[9.0; 10])
    });
    outside("Buffer::copy_to_host_at", 991..1001, LEN, |b| {
        b.copy_to_host_at(991, &mut [9.0; 10])
    });
    outside("Buffer::read_one", 1000..1001, LEN, |b| {
        b.read_one(1000).map(drop)
    });
    outside("Buffer::write_one", END..END, LEN, |b| {
        b.write_one(END, 9.0)
    });
    outside("Buffer::copy_to_host_at", END - 3..END, LEN, |b| {
        b.copy_to_host_at(END - 3, &mut [9.0; 10])
    });
}

#[test]
fn buffers_of_another_length() {
    let says = "copy_from_buffer: 1000 elements expected, 5 found";
    mismatch("Buffer::copy_from_buffer", says, |b| {
        b.copy_from_buffer(&host(5))
    });
}

#[test]
fn parts_of_other_buffers_outside() {
    outside("Buffer::copy_from_buffer_at", 4..6, 5, |b| {
        b.copy_from_buffer_at(0, &host(5), 4..6)
    });
    #[allow(clippy::reversed_empty_ranges, reason = "the wrong input")]
    outside("Buffer::copy_from_buffer_at", 4..3, 5, |b| {
        b.copy_from_buffer_at(0, &host(5), 4..3)
    });
    outside("Buffer::copy_from_buffer_at", 0..END, 5, |b| {
        b.copy_from_buffer_at(0, &host(5), 0..END)
    });
    outside("Buffer::copy_from_buffer_at", 996..1001, LEN, |b| {
        b.copy_from_buffer_at(996, &host(5), 0..5)
    });
    outside("Buffer::copy_from_buffer_at", END..END, LEN, |b| {
        b.copy_from_buffer_at(END, &host(5), 0..1)
    });
}

#[test]
fn clones_of_lengths_that_cannot_be() {
    on_each_kind(
        "Buffer::clone_empty",
        "TooLarge",
        "18446744073709551615 elements of 4 bytes are more than can be addressed (at most 9223372036854775807 bytes)",
        |b| b.clone_empty(END).map(drop),
    );
    on_each_kind(
        "Buffer::clone_empty",
        "OutOfMemory",
        "bytes requested",
        |b| b.clone_empty(isize::MAX as usize / 4).map(drop),
    );
}

#[test]
fn ranges_outside() {
    outside("Buffer::fill_range", 999..1001, LEN, |b| {
        b.fill_range(999..1001, 9.0)
    });
    outside("Buffer::fill_range", 1001..1001, LEN, |b| {
        b.fill_range(1001..1001, 9.0)
    });
    #[allow(clippy::reversed_empty_ranges, reason = "the wrong input")]
    outside("Buffer::copy_within", 999..1001, LEN, |b| {
        b.copy_within(999..1001, 0)
    });
    outside("Buffer::copy_within", 1..1001, LEN, |b| {
        b.copy_within(0..LEN, 1)
    });
    outside("Buffer::copy_within", END..END, LEN, |b| {
        b.copy_within(0..10, END)
    });
    outside("Buffer::advise_range", 0..1001, LEN, |b| {
        b.advise_range(0..1001, Advice::SetReadMostly).map(drop)
    });
    outside("Buffer::read_from", 0..1001, LEN, |b| {
        b.read_from(&mut &[1u8; 4004][..], 0..1001)
    });
    outside("Buffer::write_to", END - 1..END, LEN, |b| {
        b.write_to(&mut Vec::new(), END - 1..END)
    });
}

#[test]
fn readers_and_writers_that_fail() {
    let says = "read_from: after 0 of 40 bytes: failed to fill whole buffer";
    on_each_kind("Buffer::read_from", "Io", says, |b| {
        b.read_from(&mut &[1u8; 39][..], 0..10)
    });
    let says = "write_to: after 0 of 40 bytes: failed to write whole buffer";
    on_each_kind("Buffer::write_to", "Io", says, |b| {
        b.write_to(&mut &mut [0u8; 39][..], 0..10)
    });
}
