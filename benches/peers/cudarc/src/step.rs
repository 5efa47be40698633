//! A step of a framework with cudarc: two streams, and the events that cudarc records by default.

use crate::protocol::{Answer, Request, Result, fresh, time_each};
use crate::words;
use cudarc::driver::{
    CudaContext, CudaFunction, CudaSlice, CudaStream, LaunchConfig, PushKernelArg,
};
use cudarc::nvrtc::Ptx;
use std::sync::Arc;

const SCALE: &str = include_str!("../../../src/scale_in_place.ptx");
const FACTOR: f32 = 2.0;
/// Slots for temporaries.
const SLOTS: usize = 64;

/// An operation: a letter, a slot and a number of elements, as ../../peer.py describes them.
type Op = (char, usize, usize);

fn operations(request: &Request) -> Vec<Op> {
    let words: Vec<&str> = request.text("plan").split(' ').collect();
    let number = |word: &str| word.parse().unwrap_or_default();
    words
        .chunks_exact(3)
        .map(|op| {
            (
                op[0].chars().next().unwrap_or(' '),
                number(op[1]),
                number(op[2]),
            )
        })
        .collect()
}

struct Step {
    scale: CudaFunction,
    streams: [Arc<CudaStream>; 2],
    slots: [Option<CudaSlice<f32>>; SLOTS],
    source: Vec<f32>,
}

/// The streams live only during the task: with more than the default stream, cudarc also waits for events in the other tasks.
pub fn step(context: &Arc<CudaContext>, request: &Request) -> Result<Answer> {
    let module = context.load_module(Ptx::from_src(SCALE)).map_err(words)?;
    let (plan, steps) = (operations(request), request.number("steps").max(1));
    let factor = request.number("factor") as f32; // of all kernels of the checked temporary
    let slices = plan.iter().filter(|op| op.0 == 'c');
    let longest = slices.map(|op| op.2).max().unwrap_or_default();
    let stream = || context.new_stream().map_err(words);
    let mut step = Step {
        scale: module.load_function("scale_in_place_f32").map_err(words)?,
        streams: [stream()?, stream()?],
        slots: [const { None }; SLOTS],
        source: vec![0.0; longest],
    };
    fresh(&mut step.source, request.round());
    let finish = || context.synchronize().map_err(words);
    let all = || {
        for _ in 0..steps {
            let mut number = [f32::NAN];
            step.run(&plan, &mut number)?;
            if number[0] != step.source[0] * factor {
                return Err("WRONG RESULT: the number of a step".to_owned());
            }
        }
        finish()
    };
    let seconds = time_each(1, all, finish)? / steps as f64;
    let mut back = vec![f32::NAN; longest];
    step.run(&plan, &mut back)?;
    let mut pairs = back.iter().zip(&step.source);
    Ok(Answer {
        seconds,
        verified: pairs.all(|(found, source)| *found == source * factor),
    })
}

impl Step {
    /// `read` gets the first elements of the checked temporary.
    fn run(&mut self, plan: &[Op], read: &mut [f32]) -> Result<()> {
        plan.iter().try_for_each(|op| self.operation(*op, read))
    }

    fn operation(&mut self, (op, slot, len): Op, read: &mut [f32]) -> Result<()> {
        let stream = &self.streams[slot % 2];
        let place = &mut self.slots[slot];
        match (op, place.as_mut()) {
            // SAFETY: no number that was not written is used.
            ('a', _) => *place = Some(unsafe { stream.alloc(len) }.map_err(words)?),
            ('c', _) => *place = Some(stream.clone_htod(&self.source[..len]).map_err(words)?),
            ('k', Some(data)) => {
                let count = data.len() as u64;
                let config = LaunchConfig {
                    grid_dim: (data.len().div_ceil(256) as u32, 1, 1),
                    block_dim: (256, 1, 1),
                    shared_mem_bytes: 0,
                };
                let mut launch = stream.launch_builder(&self.scale);
                launch.arg(data).arg(&FACTOR).arg(&count);
                // SAFETY: the arguments are those of scale_in_place.ptx, which touches `count` elements.
                unsafe { launch.launch(config) }.map_err(words)?;
            }
            ('r', Some(data)) => {
                let first = data.slice(..read.len());
                stream.memcpy_dtoh(&first, read).map_err(words)?;
                stream.synchronize().map_err(words)?;
            }
            ('f', Some(_)) => *place = None,
            _ => return Err(format!("the plan has no sense at {op} {slot} {len}")),
        }
        Ok(())
    }
}
