//! The stack of layers in an arena: with working sets, and with a plan.

use crate::Failure;
use crate::layers::Stack;
use std::io::Write as _;
use std::time::Duration;
use um_backend::Buffer as _;
use um_backend::cuda_um::{Oversubscription, UnifiedBuffer, UnifiedOptions};
use um_residency::{Arena, Budget, Homed, InOut, Input, Link, Planned, Report, Role, working_set};

/// Where the weights are while they are not in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Homes {
    /// Pinned memory
    Pinned,
    /// Unified buffers
    Unified,
    /// Temporary files, which the thread of the passes reads
    File,
}

/// The layers as buffers with a home.
pub struct Layers<'s, 'b> {
    stack: &'s Stack<'b>,
    arena: Arena,
    weights: Vec<Homed<f32>>,
    idle: Homed<f32>,
    sum: Homed<f32>,
    homes: Homes,
}

/// What the planned passes did.
pub struct PlannedRun {
    /// The median time of a pass.
    pub time: Duration,
    /// The passes beside the plan.
    pub report: Report,
    /// The link for which the plan was made.
    pub link: Link,
    /// The arena's own maximum, in bytes.
    pub peak_bytes: u64,
}

impl<'s, 'b> Layers<'s, 'b> {
    /// Makes the arena and the buffers.
    ///
    /// # Errors
    /// Errors of CUDA and of files.
    pub fn new(stack: &'s Stack<'b>, budget_bytes: u64, homes: Homes) -> Result<Self, Failure> {
        let arena = Arena::new(stack.backend.device(), Budget::Bytes(budget_bytes))?;
        let named = |mut buffer: Homed<f32>, name: String| {
            buffer.set_name(&name);
            buffer
        };
        let weights = (0..stack.shape.layers).map(|layer| {
            let home = stack.weights(layer)?;
            let buffer = match homes {
                Homes::Pinned => Homed::from_pinned(&arena, home, Role::ReadOnly)?,
                Homes::Unified => {
                    let device = stack.backend.device();
                    let options =
                        UnifiedOptions::default().oversubscription(Oversubscription::Allowed);
                    let unified = UnifiedBuffer::from_slice_with(device, &home.to_vec()?, options)?;
                    Homed::from_unified(&arena, unified, Role::ReadOnly)?
                }
                Homes::File => {
                    let mut file = tempfile::tempfile()?;
                    file.write_all(bytemuck::cast_slice(&home.to_vec()?))?;
                    Homed::from_file(&arena, file, (0, home.len()), Role::ReadOnly)?
                }
            };
            Ok(named(buffer, format!("layer {layer}")))
        });
        let len = stack.shape.len;
        Ok(Self {
            weights: weights.collect::<Result<_, Failure>>()?,
            idle: named(Homed::zeroed(&arena, len, Role::ReadOnly)?, "idle".into()),
            sum: named(Homed::zeroed(&arena, len, Role::ReadWrite)?, "sum".into()),
            homes,
            stack,
            arena,
        })
    }

    fn pass(&self) -> Result<(), Failure> {
        let stack = self.stack;
        for layer in stack.shape.steps() {
            let set = (
                Input(&self.weights[layer]),
                Input(&self.idle),
                InOut(&self.sum),
            );
            let (weights, idle, mut sum) = working_set(&stack.stream, set)?;
            stack.step(&weights, idle.view(), sum.view_mut())?;
        }
        Ok(())
    }

    /// The time of a pass without a plan.
    ///
    /// # Errors
    /// Errors of CUDA, or a wrong sum.
    pub fn unplanned(&mut self, passes: usize) -> Result<Duration, Failure> {
        self.sum.set_zero()?;
        let time = self.stack.time(passes, || self.pass())?;
        self.stack.shape.check(&self.sum.to_vec()?, passes)?;
        Ok(time)
    }

    /// Records a pass, plans it, and runs it a few times.
    ///
    /// # Errors
    /// Errors of CUDA and of the plan, or a wrong sum.
    pub fn planned(&mut self, passes: usize) -> Result<PlannedRun, Failure> {
        self.sum.set_zero()?;
        let link = self.arena_link()?;
        let stream = &self.stack.stream;
        let (recorded, program) = self.arena.record(stream, || self.pass())?;
        recorded?;
        let plan = program.solve(self.arena.plan_budget(), link)?;
        let mut planned = Planned::new(&self.arena, program, plan)?;
        for _ in 0..passes {
            planned.run(stream, || self.pass())??;
        }
        let report = planned.report()?;
        self.stack.shape.check(&self.sum.to_vec()?, passes + 1)?;
        let steady = &report.passes[2.min(passes - 1)..];
        let mut times: Vec<_> = steady.iter().map(|pass| pass.time).collect();
        times.sort_unstable();
        Ok(PlannedRun {
            time: times[times.len() / 2],
            report,
            link,
            peak_bytes: self.arena.stats().peak_bytes,
        })
    }

    /// Measures the link in an arena of its own, since this one may be full; this one has the files.
    fn arena_link(&self) -> Result<Link, Failure> {
        if self.homes == Homes::File {
            return Ok(self.arena.measure_link()?);
        }
        let budget = Budget::Bytes(32 << 20);
        Ok(Arena::new(self.stack.backend.device(), budget)?.measure_link()?)
    }
}
