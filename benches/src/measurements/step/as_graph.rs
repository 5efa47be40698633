//! A step as one graph: the temporaries belong to the graph, and the slices are copied in before its launch.

use super::ours::{Ours, Temporary};
use super::plan::{Op, Operations, Plan, SLOTS, Worker};
use anyhow::{Context, Result};
use cuda_um::kernel::Arguments;
use cuda_um::{DeviceBuffer, UnifiedBuffer, graph::GraphExec};

/// A temporary that stays from step to step.
pub(super) trait Kept: Temporary {
    fn write(&mut self, source: &[f32]) -> Result<()>;
    fn pass<'a>(&'a mut self, arguments: &mut Arguments<'a>);
}

macro_rules! kept {
    ($($buffer:ident)*) => {$(
        impl Kept for $buffer<f32> {
            fn write(&mut self, source: &[f32]) -> Result<()> {
                Ok(self.copy_from_host(source)?)
            }

            fn pass<'a>(&'a mut self, arguments: &mut Arguments<'a>) {
                arguments.push(self);
            }
        }
    )*};
}
kept! { UnifiedBuffer DeviceBuffer }

/// The contender. Its first step records the graph.
pub(super) struct AsGraph<'a, B, N, F> {
    ours: Ours<'a, B, N, F>,
    recorded: Option<Recorded<B>>,
}

struct Recorded<B> {
    exec: GraphExec,
    /// The copies of slices, with their lengths.
    slices: Vec<(usize, B)>,
    /// The one that is read.
    checked: usize,
}

impl<'a, B, N, F> AsGraph<'a, B, N, F>
where
    B: Kept,
    N: Fn(usize) -> Result<B>,
    F: Fn(&[f32]) -> Result<B>,
{
    pub(super) fn new(ours: Ours<'a, B, N, F>) -> Self {
        Self {
            ours,
            recorded: None,
        }
    }

    fn record(&mut self, plan: &Plan, source: &[f32]) -> Result<Recorded<B>> {
        let ours = &mut self.ours;
        let [first, second] = &ours.streams.clone();
        let mut slices = Vec::new();
        for op in &plan.ops {
            if let Op::Fill { len, .. } = *op {
                slices.push((len, Some((ours.filled)(&source[..len])?)));
            }
        }
        let (mut next, mut of_slot, mut checked) = (0, [None; SLOTS], None);
        let mut operate = |op: Op| match (op, op.slot()) {
            (Op::Allocate { len, .. }, slot) => ours.allocate(slot, len),
            (Op::Fill { .. }, slot) => {
                ours.slots[slot] = slices[next].1.take();
                of_slot[slot] = Some(next);
                next += 1;
                Ok(())
            }
            (Op::Scale { .. }, slot) => ours.scale(slot),
            (Op::Read { .. }, slot) => {
                checked = of_slot[slot];
                Ok(())
            }
            (Op::Free { .. }, slot) => match of_slot[slot].take() {
                Some(slice) => {
                    slices[slice].1 = ours.slots[slot].take();
                    Ok(())
                }
                None => ours.free(slot),
            },
        };
        let mut recorded = Ok(());
        let graph = first.capture(|recording| {
            recording.fork(second)?;
            recorded = plan.ops.iter().try_for_each(|op| operate(*op));
            Ok(())
        })?;
        recorded?;
        let kept = |(len, slice): (usize, Option<B>)| Some((len, slice?));
        Ok(Recorded {
            exec: graph.instantiate()?,
            slices: slices.into_iter().filter_map(kept).collect(),
            checked: checked.context("the step reads a slice")?,
        })
    }
}

impl<B, N, F> Worker for AsGraph<'_, B, N, F>
where
    B: Kept,
    N: Fn(usize) -> Result<B>,
    F: Fn(&[f32]) -> Result<B>,
{
    fn step(&mut self, plan: &Plan, source: &[f32], read: &mut [f32]) -> Result<()> {
        if self.recorded.is_none() {
            self.recorded = Some(self.record(plan, source)?);
        }
        let recorded = self.recorded.as_mut().context("recorded above")?;
        let Recorded {
            exec,
            slices,
            checked,
        } = recorded;
        let mut copies = slices.iter_mut();
        copies.try_for_each(|(len, slice)| slice.write(&source[..*len]))?;
        let mut arguments = Arguments::new();
        let all = slices.iter_mut();
        all.for_each(|(_, slice)| slice.pass(&mut arguments));
        exec.launch(&self.ours.streams[0], arguments)?;
        slices[*checked].1.read(read)
    }

    fn finish(&mut self) -> Result<()> {
        Worker::finish(&mut self.ours)
    }
}
