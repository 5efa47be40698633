//! oxicuda-memory, for um_bench: its device buffers, its managed buffers, and its pool.

#[path = "../../rust/protocol.rs"]
mod protocol;

use oxicuda_driver::{Context, CudaError, Device, PrimaryContext, Stream};
use oxicuda_memory::{DeviceBuffer, MemoryPool, PooledBuffer, UnifiedBuffer};
use protocol::{Answer, Request, Result, cannot, fresh, mark, serve, time_each};
use std::sync::Arc;

/// The bytes that the pool may keep. Its default is to keep nothing.
const POOL: usize = 64 << 20;

struct Peer {
    context: Arc<Context>,
    stream: Stream,
    pool: MemoryPool,
    kept: Option<Kept>,
}

/// The buffers of the copies: allocated once and kept until the size changes.
struct Kept {
    source: Vec<f32>,
    back: Vec<f32>,
    device: DeviceBuffer<f32>,
}

fn words(error: CudaError) -> String {
    format!("{error:?}: {error}")
}

fn open() -> Result<(Peer, String)> {
    let none = |error| match error {
        CudaError::NotInitialized => "oxicuda-memory finds no GPU: no NVIDIA driver".to_owned(),
        error => format!("oxicuda-memory finds no GPU: {}", words(error)),
    };
    oxicuda_driver::init().map_err(none)?;
    let device = Device::get(0).map_err(none)?;
    // The pool works in the primary context and records its events there, so the stream must belong to this context.
    let primary = PrimaryContext::retain(&device).map_err(none)?;
    // SAFETY: it is never released, so it lives as long as the process.
    let context = Arc::new(unsafe { Context::from_raw_borrowed(primary.raw(), device) });
    context.set_current().map_err(none)?;
    let stream = Stream::new(&context).map_err(none)?;
    let mut pool = MemoryPool::new(0).map_err(none)?;
    pool.set_threshold(POOL).map_err(none)?;
    std::mem::forget(primary);
    let peer = Peer {
        context,
        stream,
        pool,
        kept: None,
    };
    Ok((peer, "oxicuda-memory 0.5.5".to_owned()))
}

impl Peer {
    fn buffers(&mut self, request: &Request) -> Result<(&Context, &mut Kept)> {
        let count = request.count();
        if self
            .kept
            .as_ref()
            .is_none_or(|kept| kept.source.len() != count)
        {
            self.kept = None;
            self.kept = Some(Kept {
                source: vec![0.0; count],
                back: vec![0.0; count],
                device: DeviceBuffer::zeroed(count).map_err(words)?,
            });
        }
        let kept = self.kept.as_mut().expect("created above");
        fresh(&mut kept.source, request.round());
        kept.back.fill(f32::NAN);
        Ok((&self.context, kept))
    }

    /// The copy always waits until the data have arrived.
    fn copy_from_host(&mut self, request: &Request) -> Result<Answer> {
        let (context, kept) = self.buffers(request)?;
        let finish = || context.synchronize().map_err(words);
        let work = || {
            kept.device.copy_from_host(&kept.source).map_err(words)?;
            if request.wait() { finish() } else { Ok(()) }
        };
        let seconds = time_each(request.repeats(), work, finish)?;
        kept.device.copy_to_host(&mut kept.back).map_err(words)?;
        Ok(Answer {
            seconds,
            verified: kept.back == kept.source,
        })
    }

    fn copy_to_host(&mut self, request: &Request) -> Result<Answer> {
        let (context, kept) = self.buffers(request)?;
        kept.device.copy_from_host(&kept.source).map_err(words)?;
        let work = || kept.device.copy_to_host(&mut kept.back).map_err(words);
        let seconds = time_each(request.repeats(), work, || {
            context.synchronize().map_err(words)
        })?;
        Ok(Answer {
            seconds,
            verified: kept.back == kept.source,
        })
    }

    fn new_from_slice(&mut self, request: &Request) -> Result<Answer> {
        let (context, kept) = self.buffers(request)?;
        let mut made = None;
        let work = || {
            made = Some(DeviceBuffer::from_host(&kept.source).map_err(words)?);
            Ok(())
        };
        let seconds = time_each(1, work, || context.synchronize().map_err(words))?;
        let made = made.ok_or("nothing was made")?;
        made.copy_to_host(&mut kept.back).map_err(words)?;
        Ok(Answer {
            seconds,
            verified: kept.back == kept.source,
        })
    }

    fn allocate(&mut self, request: &Request) -> Result<Answer> {
        let (count, expected) = (request.count(), mark(request));
        let finish = || self.context.synchronize().map_err(words);
        match request.memory() {
            "managed" => {
                let make = || UnifiedBuffer::<f32>::alloc(count).map_err(words);
                let seconds = time_each(request.repeats(), || make().map(drop), finish)?;
                let mut made = make()?;
                made.as_mut_slice()[count - 1] = expected;
                let found = made.as_slice()[count - 1];
                Ok(Answer {
                    seconds,
                    verified: found == expected,
                })
            }
            "pool" => {
                let make = || {
                    PooledBuffer::<f32>::alloc_async(&self.pool, count, &self.stream).map_err(words)
                };
                let seconds = time_each(request.repeats(), || make().map(drop), finish)?;
                let made = make()?;
                // SAFETY: the last number of `made`, which outlives the view.
                let last = made.as_device_ptr() + ((count - 1) * size_of::<f32>()) as u64;
                let found = round_trip(unsafe { DeviceBuffer::from_raw(last, 1) }, expected)?;
                Ok(Answer {
                    seconds,
                    verified: found == expected,
                })
            }
            _ => {
                let make = || DeviceBuffer::<f32>::alloc(count).map_err(words);
                let seconds = time_each(request.repeats(), || make().map(drop), finish)?;
                let made = make()?;
                // SAFETY: the last number of `made`, which outlives the view.
                let last = made.as_device_ptr() + ((count - 1) * size_of::<f32>()) as u64;
                let found = round_trip(unsafe { DeviceBuffer::from_raw(last, 1) }, expected)?;
                Ok(Answer {
                    seconds,
                    verified: found == expected,
                })
            }
        }
    }
}

/// Writes a number to the GPU and reads it back.
fn round_trip(mut place: DeviceBuffer<f32>, number: f32) -> Result<f32> {
    let mut found = [f32::NAN];
    place.copy_from_host(&[number]).map_err(words)?;
    place.copy_to_host(&mut found).map_err(words)?;
    Ok(found[0])
}

fn main() {
    serve(open, |peer, wanted, request| match wanted {
        "copy_from_host" => peer.copy_from_host(request),
        "copy_to_host" => peer.copy_to_host(request),
        "from_slice" => peer.new_from_slice(request),
        "allocate" => peer.allocate(request),
        _ => cannot("oxicuda-memory", wanted),
    });
}
