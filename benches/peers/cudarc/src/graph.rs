//! Small kernels as cudarc's `CudaGraph`.

use crate::protocol::{Answer, Request, Result, fresh};
use crate::words;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, LaunchConfig, PushKernelArg};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SCALE: &str = include_str!("../../../../kernels/ptx/scale.ptx");
const FACTOR: f32 = 2.0;

/// The time of one launch, alone or with its end. The stream lives only during the task, as in a step.
pub fn graph(context: &Arc<CudaContext>, request: &Request) -> Result<Answer> {
    // SAFETY: one stream uses all memory of the task. With events of outside a capture fails.
    unsafe { context.disable_event_tracking() };
    let answer = timed(context, request);
    // SAFETY: all memory of the task is dropped.
    unsafe { context.enable_event_tracking() };
    answer
}

fn timed(context: &Arc<CudaContext>, request: &Request) -> Result<Answer> {
    let (count, len) = (request.number("kernels"), request.number("elements"));
    let launches = request.number("launches").max(1);
    let module = context.load_module(Ptx::from_src(SCALE)).map_err(words)?;
    let scale = module.load_function("scale_f32").map_err(words)?;
    let stream = context.new_stream().map_err(words)?;
    let mut source = vec![0.0; len];
    fresh(&mut source, request.round());
    let input = stream.clone_htod(&source).map_err(words)?;
    let mut output = stream.alloc_zeros::<f32>(len).map_err(words)?;
    let finish = || stream.synchronize().map_err(words);
    finish()?;
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
    stream.begin_capture(mode).map_err(words)?;
    for _ in 0..count {
        let elements = len as u64;
        let config = LaunchConfig {
            grid_dim: (len.div_ceil(256) as u32, 1, 1),
            block_dim: (256, 1, 1),
            shared_mem_bytes: 0,
        };
        let mut launch = stream.launch_builder(&scale);
        launch.arg(&input).arg(&mut output).arg(&FACTOR).arg(&elements);
        // SAFETY: the arguments are those of scale.ptx, which touches `elements` elements of both.
        unsafe { launch.launch(config) }.map_err(words)?;
    }
    let graph = stream.end_capture(CUgraphInstantiate_flags(0)).map_err(words)?;
    let graph = graph.ok_or("no graph was captured")?;
    // As the other contenders do before they are timed.
    graph.launch().map_err(words)?;
    let mut time = Duration::ZERO;
    for _ in 0..launches {
        finish()?;
        let start = Instant::now();
        graph.launch().map_err(words)?;
        if request.wait() {
            finish()?;
        }
        time += start.elapsed();
    }
    let found = stream.clone_dtoh(&output).map_err(words)?;
    finish()?;
    let mut pairs = found.iter().zip(&source);
    Ok(Answer {
        seconds: time.as_secs_f64() / launches as f64,
        verified: pairs.all(|(found, source)| *found == source * FACTOR),
    })
}
