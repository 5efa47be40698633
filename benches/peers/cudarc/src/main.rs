//! cudarc for um_bench: the safe layer of its driver module, on the context's default stream.

#[path = "../../rust/protocol.rs"]
mod protocol;
mod graph;
mod step;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError, sys};
use protocol::{Answer, Request, Result, cannot, fresh, mark, serve, time_each};
use std::sync::Arc;

struct Peer {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    kept: Option<Kept>,
}

/// The buffers of the copies: allocated once and kept until the size changes.
struct Kept {
    source: Vec<f32>,
    back: Vec<f32>,
    device: CudaSlice<f32>,
}

fn words(error: DriverError) -> String {
    format!("{error:?}")
}

fn open() -> Result<(Peer, String)> {
    // SAFETY: only tries to open the library. Without the library, every other call of cudarc panics.
    if !unsafe { sys::is_culib_present() } {
        return Err("cudarc finds no GPU: no libcuda, the NVIDIA driver".to_owned());
    }
    let context = CudaContext::new(0).map_err(|error| format!("cudarc finds no GPU: {error:?}"))?;
    let stream = context.default_stream();
    let peer = Peer {
        context,
        stream,
        kept: None,
    };
    Ok((peer, "cudarc 0.19.10".to_owned()))
}

impl Peer {
    fn finish(context: &CudaContext) -> Result<()> {
        context.synchronize().map_err(words)
    }

    fn buffers(
        &mut self,
        request: &Request,
    ) -> Result<(&Arc<CudaContext>, &Arc<CudaStream>, &mut Kept)> {
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
                device: self.stream.alloc_zeros(count).map_err(words)?,
            });
        }
        let kept = self.kept.as_mut().expect("created above");
        fresh(&mut kept.source, request.round());
        kept.back.fill(f32::NAN);
        Ok((&self.context, &self.stream, kept))
    }

    fn copy_from_host(&mut self, request: &Request) -> Result<Answer> {
        let (context, stream, kept) = self.buffers(request)?;
        let finish = || Self::finish(context);
        let work = || {
            stream
                .memcpy_htod(&kept.source, &mut kept.device)
                .map_err(words)?;
            if request.wait() { finish() } else { Ok(()) }
        };
        let seconds = time_each(request.repeats(), work, finish)?;
        stream
            .memcpy_dtoh(&kept.device, &mut kept.back)
            .map_err(words)?;
        finish()?;
        Ok(Answer {
            seconds,
            verified: kept.back == kept.source,
        })
    }

    fn copy_to_host(&mut self, request: &Request) -> Result<Answer> {
        let (context, stream, kept) = self.buffers(request)?;
        let finish = || Self::finish(context);
        stream
            .memcpy_htod(&kept.source, &mut kept.device)
            .map_err(words)?;
        // The timed part includes the wait, because the call may return before the data have arrived.
        let work = || {
            stream
                .memcpy_dtoh(&kept.device, &mut kept.back)
                .map_err(words)?;
            finish()
        };
        let seconds = time_each(request.repeats(), work, finish)?;
        Ok(Answer {
            seconds,
            verified: kept.back == kept.source,
        })
    }

    fn new_from_slice(&mut self, request: &Request) -> Result<Answer> {
        let (context, stream, kept) = self.buffers(request)?;
        let finish = || Self::finish(context);
        let mut made = None;
        let work = || {
            made = Some(stream.clone_htod(&kept.source).map_err(words)?);
            finish()
        };
        let seconds = time_each(1, work, finish)?;
        let made = made.ok_or("nothing was made")?;
        stream.memcpy_dtoh(&made, &mut kept.back).map_err(words)?;
        finish()?;
        Ok(Answer {
            seconds,
            verified: kept.back == kept.source,
        })
    }

    /// Allocates from the device's default pool, or managed memory.
    fn allocate(&mut self, request: &Request) -> Result<Answer> {
        let (context, stream) = (&self.context, &self.stream);
        let (count, expected) = (request.count(), mark(request));
        let finish = || Self::finish(context);
        if request.memory() == "managed" {
            // SAFETY: only written memory is read.
            let make = || unsafe { context.alloc_unified::<f32>(count, true) }.map_err(words);
            let seconds = time_each(request.repeats(), || make().map(drop), finish)?;
            let mut made = make()?;
            let numbers = made.as_mut_slice().map_err(words)?;
            numbers[count - 1] = expected;
            let found = made.as_slice().map_err(words)?[count - 1];
            return Ok(Answer {
                seconds,
                verified: found == expected,
            });
        }
        // SAFETY: only written memory is read.
        let make = || unsafe { stream.alloc::<f32>(count) }.map_err(words);
        let seconds = time_each(request.repeats(), || make().map(drop), finish)?;
        let mut made = make()?;
        let mut found = [f32::NAN];
        let mut last = made.slice_mut(count - 1..);
        stream.memcpy_htod(&[expected], &mut last).map_err(words)?;
        stream.memcpy_dtoh(&last, &mut found).map_err(words)?;
        finish()?;
        Ok(Answer {
            seconds,
            verified: found == [expected],
        })
    }
}

fn main() {
    serve(open, |peer, wanted, request| match wanted {
        "copy_from_host" => peer.copy_from_host(request),
        "copy_to_host" => peer.copy_to_host(request),
        "from_slice" => peer.new_from_slice(request),
        "allocate" => peer.allocate(request),
        "graph" => graph::graph(&peer.context, request),
        "step" => step::step(&peer.context, request),
        _ => cannot("cudarc", wanted),
    });
}
