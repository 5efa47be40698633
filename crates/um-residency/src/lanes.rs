//! The transfers of one direction: one after another, each on a stream of its own.
//!
//! Other work waits for the tail of the stream that it depends on. With one stream, a step would also wait for transfers ahead of later steps.

use parking_lot::Mutex;
use um_backend::cuda_um::{Device, Event, Stream};

/// More streams than transfers that are usually ahead.
const LANES: usize = 8;

pub(crate) struct Lanes {
    streams: [Stream; LANES],
    turn: Mutex<Turn>,
}

#[derive(Default)]
struct Turn {
    next: usize,
    /// The end of the last transfer.
    last: Option<Event>,
}

impl Lanes {
    pub(crate) fn new(device: &Device) -> um_backend::Result<Self> {
        let first = device.stream()?;
        let mut streams = [(); LANES].map(|()| first.clone());
        for stream in &mut streams[1..] {
            *stream = device.stream()?;
        }
        let turn = Mutex::default();
        Ok(Self { streams, turn })
    }

    /// Enqueues a transfer behind all earlier ones of the direction.
    pub(crate) fn enqueue(
        &self,
        transfer: impl FnOnce(&Stream) -> um_backend::Result<()>,
    ) -> um_backend::Result<()> {
        let mut turn = self.turn.lock();
        let stream = &self.streams[turn.next];
        if let Some(last) = &turn.last {
            stream.wait(last)?;
        }
        transfer(stream)?;
        turn.next = (turn.next + 1) % LANES;
        // Without the event, later transfers may overtake this one, which costs only time.
        turn.last = None;
        turn.last = Some(stream.record()?);
        Ok(())
    }

    /// One of the streams.
    pub(crate) fn stream(&self) -> &Stream {
        &self.streams[0]
    }
}
