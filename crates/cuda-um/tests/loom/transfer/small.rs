//! Small copies: what the flag of a copy to the host tells about other work of the stream.

use crate::buffer::transfer::{Direction, Staged, with_host};
use crate::context::op::Op;
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::models::checker::model;
use crate::models::engine::engine;
use crate::models::machine::{device_of, work};
use crate::process_end::Calls;
use crate::resource::memory_resource::MemoryResource;
use crate::resource::separate::DeviceMemory;
use crate::sync::thread;

#[test]
fn a_flag_covers_no_work_that_is_enqueued_after_it() {
    model(|| {
        let device = device_of(1 << 10);
        let stream = device.default_stream().unwrap();
        let memory = DeviceMemory::new(&device).allocate(1).unwrap();
        let its = stream.clone();
        let other = thread::spawn(move || {
            work(&its, 2).unwrap();
            its.inner().number()
        });
        let (mut here, mut there) = ([0u8; 4], [1u8, 2, 3, 4]);
        let copy = Staged {
            direction: Direction::ToHost,
            host: here.as_mut_ptr(),
            device: there.as_mut_ptr(),
            bytes: here.len(),
            kind: CopyKind::ByAddress,
        };
        let part = [memory.part_of(0..memory.bytes(), Access::Read)];
        let op = Op::with_host(memory.device(), &part);
        let calls = Calls::of("copy").unwrap();
        #[allow(unsafe_code, reason = "a copy by address")]
        // SAFETY: both sides have so many bytes, and nothing else uses them.
        unsafe { with_host(&op, &calls, &copy) }.unwrap();
        assert_eq!(here, there);
        let seq = other.join().unwrap();
        let says_so = stream.inner().is_known_done(seq);
        assert!(!says_so || engine(|cuda| cuda.is_done(2)));
        device.synchronize().unwrap();
    });
}
