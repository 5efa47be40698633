//! NCCL's functions through the table: groups, errors, ranks that wait for each other, and times.

use std::ffi::c_void;
use std::sync::Arc;
use std::time::Duration;

use cuda_um_sim::{Misuse, Sim};
use cuda_um_sys::{
    Nccl, cudaStream_t, ncclComm_t, ncclConfig_t, ncclDataType_t, ncclResult_t, ncclUniqueId,
};

use crate::support::{Cuda, MIB, call, ok};

const SUCCESS: ncclResult_t = ncclResult_t::ncclSuccess;
const BYTES: ncclDataType_t = ncclDataType_t::ncclUint8;

/// A rank on each device, with a stream and memory of its own.
struct Ranks {
    cuda: Cuda,
    nccl: Arc<Nccl>,
    ranks: Vec<ncclComm_t>,
    streams: Vec<cudaStream_t>,
    memory: Vec<*mut c_void>,
}

impl Ranks {
    fn new(devices: usize) -> Ranks {
        let cuda = Cuda::new(Sim::builder().devices(devices));
        let nccl = cuda.table.nccl().unwrap();
        let mut id = ncclUniqueId { internal: [0; 128] };
        assert_eq!(call!(nccl, ncclGetUniqueId(&mut id)), SUCCESS);
        let mut ranks = vec![std::ptr::null_mut(); devices];
        let (mut streams, mut memory) = (Vec::new(), Vec::new());
        assert_eq!(call!(nccl, ncclGroupStart()), SUCCESS);
        for (rank, place) in ranks.iter_mut().enumerate() {
            ok(call!(cuda.table, cudaSetDevice(rank as i32)));
            streams.push(cuda.stream());
            memory.push(cuda.device(16 * MIB).cast());
            let mut config = ncclConfig_t::INITIALIZER;
            let (all, rank) = (devices as i32, rank as i32);
            let made = call!(
                nccl,
                ncclCommInitRankConfig(place, all, id, rank, &mut config)
            );
            assert_eq!(made, SUCCESS);
        }
        assert_eq!(call!(nccl, ncclGroupEnd()), SUCCESS);
        Ranks {
            cuda,
            nccl,
            ranks,
            streams,
            memory,
        }
    }

    fn send(&self, rank: usize, to: i32) -> ncclResult_t {
        let (communicator, stream) = (self.ranks[rank], self.streams[rank]);
        call!(
            self.nccl,
            ncclSend(self.memory[rank], 100, BYTES, to, communicator, stream)
        )
    }

    fn receive(&self, rank: usize, from: i32) -> ncclResult_t {
        let (communicator, stream) = (self.ranks[rank], self.streams[rank]);
        call!(
            self.nccl,
            ncclRecv(self.memory[rank], 100, BYTES, from, communicator, stream)
        )
    }

    fn gather(&self, rank: usize, bytes: usize) -> ncclResult_t {
        let (communicator, stream) = (self.ranks[rank], self.streams[rank]);
        let at = self.memory[rank];
        let source = at.wrapping_byte_add(rank * bytes);
        call!(
            self.nccl,
            ncclAllGather(source, at, bytes, BYTES, communicator, stream)
        )
    }

    fn state(&self, rank: usize) -> ncclResult_t {
        let mut state = SUCCESS;
        let asked = call!(
            self.nccl,
            ncclCommGetAsyncError(self.ranks[rank], &mut state)
        );
        assert_eq!(asked, SUCCESS);
        state
    }

    fn wait(&self) {
        self.streams
            .iter()
            .for_each(|stream| self.cuda.sync(*stream));
    }

    fn misuse(&self) -> Vec<String> {
        let all = self.cuda.sim.misuse().into_iter();
        let texts = all.map(|it| match it {
            Misuse::Collective { text } => text,
            other => panic!("{other:?}"),
        });
        texts.collect()
    }
}

#[test]
fn two_ranks_that_send_before_they_receive_wait_for_each_other_unless_they_group() {
    let ranks = Ranks::new(2);
    for both in [true, false] {
        for rank in 0..2 {
            if both {
                assert_eq!(call!(ranks.nccl, ncclGroupStart()), SUCCESS);
            }
            let other = 1 - rank as i32;
            assert_eq!(ranks.send(rank, other), SUCCESS);
            assert_eq!(ranks.receive(rank, other), SUCCESS);
            if both {
                assert_eq!(call!(ranks.nccl, ncclGroupEnd()), SUCCESS);
            }
        }
        // Neither wait is for ever.
        ranks.wait();
        assert_eq!(ranks.misuse().len(), usize::from(!both));
        let state = if both {
            SUCCESS
        } else {
            ncclResult_t::ncclInternalError
        };
        assert_eq!([ranks.state(0), ranks.state(1)], [state; 2]);
    }
    assert!(ranks.misuse()[0].contains("wait for each other"));
}

#[test]
fn a_failed_call_fails_its_group_and_nothing_of_it_begins() {
    let ranks = Ranks::new(2);
    assert_eq!(
        call!(ranks.nccl, ncclGroupEnd()),
        ncclResult_t::ncclInvalidUsage
    );
    assert_eq!(call!(ranks.nccl, ncclGroupStart()), SUCCESS);
    assert_eq!(ranks.gather(0, 100), SUCCESS);
    assert_eq!(ranks.send(1, 1), ncclResult_t::ncclInvalidArgument);
    assert_eq!(
        call!(ranks.nccl, ncclGroupEnd()),
        ncclResult_t::ncclInvalidArgument
    );
    ranks.wait();
    for bytes in [9 * MIB, usize::MAX] {
        assert_eq!(ranks.gather(0, bytes), ncclResult_t::ncclInvalidArgument);
    }
    // The group is over: this is a call of its own, and the other rank comes later.
    assert_eq!(ranks.gather(1, 100), SUCCESS);
    assert_eq!(ranks.gather(0, 100), SUCCESS);
    ranks.wait();
    assert_eq!(ranks.misuse(), Vec::<String>::new());
}

#[test]
fn a_ring_takes_the_time_of_its_links() {
    for devices in [2, 4, 8] {
        let ranks = Ranks::new(devices);
        let times = [MIB, 2 * MIB].map(|bytes| {
            let before = ranks
                .cuda
                .sim
                .device_time(0)
                .unwrap()
                .max(ranks.cuda.sim.now());
            assert_eq!(call!(ranks.nccl, ncclGroupStart()), SUCCESS);
            (0..devices).for_each(|rank| assert_eq!(ranks.gather(rank, bytes), SUCCESS));
            assert_eq!(call!(ranks.nccl, ncclGroupEnd()), SUCCESS);
            ranks.wait();
            ranks.cuda.sim.device_time(0).unwrap() - before
        });
        let rate = cuda_um_cost::CostModel::h200().remote_rate;
        let expected = Duration::from_secs_f64(((devices - 1) * MIB) as f64 / rate);
        let more = times[1] - times[0];
        let (less, more) = (more.min(expected), more.max(expected));
        assert!(
            more - less < Duration::from_nanos(50),
            "{times:?}, {expected:?}"
        );
    }
}
