//! System calls of the program into managed memory: a GPU's driver serves their faults.

use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Seek, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::ptr::null_mut;
use std::time::Duration;

use cuda_um_sim::{Gpu, Misuse, Sim};

use crate::support::{Cuda, MIB, bytes, h200, ok};

const LEN: usize = 3 * MIB + 4096 + 7;

/// A file without a name, with these contents, at its start.
fn file(contents: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(contents).unwrap();
    file.rewind().unwrap();
    file
}

fn pattern() -> Vec<u8> {
    (0..LEN).map(|index| (index / 3) as u8).collect()
}

#[test]
fn files_are_read_into_memory_on_the_device_and_written_from_it() {
    for gpu in [
        Gpu::H200,
        Gpu::Gh200,
        Gpu::Pascal,
        Gpu::Maxwell,
        Gpu::NoConcurrentAccess,
    ] {
        let cuda = Cuda::new(Sim::builder().gpu(gpu));
        let data = cuda.managed(LEN);
        cuda.run("write", data, LEN);
        let wanted = pattern();
        let mut source = file(&wanted);
        source.read_exact(bytes(data, LEN)).unwrap();
        assert!(*bytes(data, LEN) == wanted, "{gpu:?}");

        cuda.run("add", data, LEN);
        let mut target = file(&[]);
        target.write_all(bytes(data, LEN)).unwrap();
        target.rewind().unwrap();
        let mut back = Vec::new();
        target.read_to_end(&mut back).unwrap();
        let changed: Vec<u8> = wanted.iter().map(|byte| byte.wrapping_add(1)).collect();
        assert!(back == changed, "{gpu:?}");
        assert_eq!(cuda.sim.misuse(), [], "{gpu:?}");
    }
}

#[test]
fn a_system_call_migrates_as_a_touch_does() {
    let counters = |access: fn(&mut [u8])| {
        let cuda = h200();
        let data = cuda.managed(LEN);
        cuda.run("write", data, LEN);
        access(bytes(data, LEN));
        (cuda.sim.counters(), cuda.sim.now())
    };
    let read = counters(|data| file(&pattern()).read_exact(data).unwrap());
    assert_eq!(
        read,
        counters(|data| data.iter_mut().step_by(4096).for_each(|byte| *byte = 1))
    );
    assert!(read.0.bytes_to_host >= LEN as u64);
    let written = counters(|data| file(&[]).write_all(data).unwrap());
    let touched = counters(|data| {
        std::hint::black_box(
            data.iter()
                .step_by(4096)
                .map(|byte| u32::from(*byte))
                .sum::<u32>(),
        );
    });
    assert_eq!(written, touched);
}

#[test]
fn what_is_written_to_a_file_stays_on_the_device_if_it_is_read_mostly() {
    let cuda = h200();
    let data = cuda.managed(MIB);
    bytes(data, MIB).fill(3);
    ok(cuda.advise(data, MIB, 1, 0));
    cuda.run("read", data, MIB);
    let before = cuda.sim.counters();
    file(&[]).write_all(bytes(data, MIB)).unwrap();
    assert_eq!(cuda.sim.counters(), before, "a duplicate is read in place");
    file(&[7; MIB]).read_exact(bytes(data, MIB)).unwrap();
    cuda.run("read", data, MIB);
    assert!(cuda.sim.counters().bytes_to_device > before.bytes_to_device);
}

#[test]
fn every_way_to_read_and_write_works() {
    let cuda = h200();
    let (data, other) = (cuda.managed(MIB), cuda.managed(MIB));
    let on_device = || {
        cuda.run("write", data, MIB);
        cuda.run("write", other, MIB);
    };
    let contents = &pattern()[..2 * MIB];
    let source = file(contents);
    on_device();
    source.read_exact_at(bytes(data, MIB), MIB as u64).unwrap();
    assert!(*bytes(data, MIB) == contents[MIB..]);
    on_device();
    // Ordinary memory between managed memory.
    let mut between = [0; 16];
    let mut ranges = [bytes(data, MIB), &mut between, bytes(other, 100)].map(IoSliceMut::new);
    assert_eq!((&source).read_vectored(&mut ranges).unwrap(), MIB + 116);
    assert!(*bytes(data, MIB) == contents[..MIB] && between == contents[MIB..MIB + 16]);
    assert!(*bytes(other, 100) == contents[MIB + 16..MIB + 116]);

    cuda.run("add", data, MIB);
    let target = file(&[]);
    target.write_all_at(bytes(data, MIB), 5).unwrap();
    cuda.run("add", data, MIB);
    let ranges = [&b"head"[..], bytes(data, 1)].map(IoSlice::new);
    assert_eq!((&target).write_vectored(&ranges).unwrap(), 5);
    let mut back = vec![0; 5 + MIB];
    target.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(back[..7], [b'h', b'e', b'a', b'd', 2, 1, 1]);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    send_and_receive(&cuda, stream, listener.accept().unwrap().0);
    let (one, two) = UnixStream::pair().unwrap();
    send_and_receive(&cuda, one, two);

    let [one, two] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    cuda.run("add", data, MIB);
    one.send_to(bytes(data, 3), two.local_addr().unwrap())
        .unwrap();
    on_device();
    assert_eq!(two.recv_from(bytes(other, 3)).unwrap().0, 3);
    assert_eq!(bytes(other, 3), [3; 3]);
}

/// Sends memory that is on the device, and receives into such memory.
fn send_and_receive(cuda: &Cuda, mut from: impl Write + Send, mut to: impl Read) {
    let (sent, received) = (cuda.managed(MIB), cuda.managed(MIB));
    bytes(sent, MIB).copy_from_slice(&pattern()[..MIB]);
    cuda.run("read", sent, MIB);
    cuda.run("write", received, MIB);
    let sent = bytes(sent, MIB);
    std::thread::scope(|scope| {
        let sender = &*sent;
        scope.spawn(move || from.write_all(sender).unwrap());
        to.read_exact(bytes(received, MIB)).unwrap();
    });
    assert!(*bytes(received, MIB) == *sent);
}

#[test]
fn a_system_call_that_waits_succeeds_though_the_pages_are_taken_away() {
    let cuda = h200();
    let data = cuda.managed(MIB);
    cuda.run("write", data, MIB);
    let (mut from, mut to) = UnixStream::pair().unwrap();
    let received = bytes(data, 100);
    let touched = cuda.sim.counters().bytes_to_host;
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || to.read_exact(received));
        while cuda.sim.counters().bytes_to_host == touched {
            std::thread::yield_now();
        }
        // The reader is, or will soon be, in the system call.
        std::thread::sleep(Duration::from_millis(50));
        ok(cuda.prefetch(data, MIB, 0, null_mut()));
        cuda.sync(null_mut());
        from.write_all(&[9; 100]).unwrap();
        reader.join().unwrap().unwrap();
    });
    assert_eq!(*bytes(data, 100), [9; 100]);
}

#[test]
fn memory_that_the_host_has_not_is_still_a_bad_address() {
    let cuda = h200();
    let freed = cuda.managed(MIB);
    cuda.free(freed);
    for data in [freed, cuda.device(MIB)] {
        let error = file(&[1; 100]).read_exact(bytes(data, 100)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(14), "{error}");
    }
    let address = freed as usize;
    assert_eq!(cuda.sim.misuse(), [Misuse::UseAfterFree { address }]);
    let error = file(&[1; 100])
        .write(bytes(cuda.device(MIB), 100))
        .unwrap_err();
    assert_ne!(error.kind(), ErrorKind::Interrupted);
    file(&[1; 100])
        .read_exact(bytes(cuda.pinned(100), 100))
        .unwrap();
}

#[test]
fn a_system_call_during_a_kernel_is_a_touch_during_a_kernel() {
    for crash in [false, true] {
        let cuda = Cuda::new(
            Sim::builder()
                .gpu(Gpu::NoConcurrentAccess)
                .crash_on_misuse(crash),
        );
        let data = cuda.managed(MIB);
        let paused = cuda.sim.pause();
        cuda.launch("read", data, MIB, cuda.stream());
        let read = file(&[1; 100]).read(bytes(data, 100));
        assert_eq!(
            read.map_err(|error| error.raw_os_error()),
            if crash { Err(Some(14)) } else { Ok(100) }
        );
        let address = data as usize;
        assert_eq!(
            cuda.sim.misuse(),
            [Misuse::HostTouchDuringKernel { address }]
        );
        drop(paused);
    }
}
