//! Passes that are recorded, planned and run: bytes, time, contents, and runs that leave their plan.

mod contents;

use std::io::Write as _;
use std::ops::RangeInclusive;

use crate::support::{Machine, SLOT, each_machine};
use um_backend::cuda_um::{UnifiedBuffer, buffer::TransferOptions};
use um_backend::sim::Gpu;
use um_backend::{Buffer, kernels::Saxpy};
use um_residency::{
    Arena, Error, Homed, InOut, Input, Link, Output, Plan, Planned, Program, Role, working_set,
};

/// A stack of layers: forward, and backward in the reverse order, with one activation for each layer.
struct Stack<'m> {
    machine: &'m Machine,
    arena: Arena,
    weights: Vec<Homed<f32>>,
    activations: Vec<Homed<f32>>,
    gradients: Vec<Homed<f32>>,
    saxpy: Option<Saxpy>,
    /// The launches of a step.
    launches: usize,
}

impl<'m> Stack<'m> {
    fn new(machine: &'m Machine, slots: u64, layers: usize, launches: usize) -> Self {
        Self::of_slots(machine, slots, (layers, 1), launches)
    }

    fn of_slots(machine: &'m Machine, slots: u64, of: (usize, usize), launches: usize) -> Self {
        let arena = machine.arena(slots);
        let homed = |elements: &[f32], role| match role {
            Role::Scratch => Homed::zeroed(&arena, elements.len(), role).unwrap(),
            _ => Homed::from_slice(&arena, elements, role).unwrap(),
        };
        Self::of_homes((machine, &arena), of, launches, homed)
    }

    fn of_homes(
        (machine, arena): (&'m Machine, &Arena),
        (layers, each): (usize, usize),
        launches: usize,
        homed: impl Fn(&[f32], Role) -> Homed<f32>,
    ) -> Self {
        let made = |name: &str, layer: usize, role, value: f32| {
            let mut buffer = homed(&vec![value; each * SLOT], role);
            buffer.set_name(&format!("{name} {layer}"));
            buffer
        };
        let all = |name: &str, role, value: fn(usize) -> f32| -> Vec<_> {
            (0..layers)
                .map(|layer| made(name, layer, role, value(layer)))
                .collect()
        };
        Self {
            machine,
            weights: all("weight", Role::ReadOnly, |layer| layer as f32 + 1.0),
            gradients: all("gradient", Role::ReadWrite, |_| 0.0),
            activations: all("activation", Role::Scratch, |_| 0.0),
            saxpy: Saxpy::load(&machine.device).ok(),
            arena: arena.clone(),
            launches,
        }
    }

    /// One pass: activation `n` is the sum of the weights up to `n`, and each gradient grows by its activation.
    fn pass(&self) -> Result<(), Error> {
        let stream = &self.machine.stream;
        for (layer, weight) in self.weights.iter().enumerate() {
            let before = layer
                .checked_sub(1)
                .map(|before| Input(&self.activations[before]));
            let before: Vec<_> = before.into_iter().collect();
            let set = (before, Input(weight), Output(&self.activations[layer]));
            let (before, weight, mut to) = working_set(stream, set)?;
            match before.first() {
                Some(before) => stream.copy(&before.view(), &mut to.view_mut())?,
                None => to.view_mut().fill_on(0.0, stream)?,
            }
            self.add(&weight.view(), &mut to.view_mut())?;
        }
        for (layer, weight) in self.weights.iter().enumerate().rev() {
            let set = (
                Input(weight),
                Input(&self.activations[layer]),
                InOut(&self.gradients[layer]),
            );
            let (_weight, activation, mut gradient) = working_set(stream, set)?;
            self.add(&activation.view(), &mut gradient.view_mut())?;
        }
        Ok(())
    }

    fn add(
        &self,
        x: &um_backend::cuda_um::View<'_, f32>,
        y: &mut um_backend::cuda_um::ViewMut<'_, f32>,
    ) -> Result<(), Error> {
        let Some(saxpy) = &self.saxpy else {
            return Ok(());
        };
        for launch in 0..self.launches {
            let a = if launch == 0 { 1.0 } else { 0.0 };
            let launched = saxpy.launch(&self.machine.stream, a, *x, y.reborrow());
            launched.map_err(um_backend::CudaError::from)?;
        }
        Ok(())
    }

    /// Checks the gradients after some passes.
    fn check(&self, passes: usize) {
        if self.saxpy.is_none() {
            return;
        }
        let mut sum = 0.0;
        for (layer, gradient) in self.gradients.iter().enumerate() {
            sum += layer as f32 + 1.0;
            let found = gradient.to_vec().unwrap();
            assert!(
                found.iter().all(|&value| value == sum * passes as f32),
                "layer {layer}: {}",
                found[0]
            );
        }
    }

    fn record(&self, link: Link) -> (Program, Plan) {
        let (done, program) = self
            .arena
            .record(&self.machine.stream, || self.pass())
            .unwrap();
        done.unwrap();
        let plan = program.solve(self.arena.plan_budget(), link).unwrap();
        (program, plan)
    }
}

/// The bytes exactly, and the time within 5 %, if the link is the limit and if computing is.
#[test]
fn a_pass_does_what_its_plan_says() {
    for (layers, each, launches, slots) in [
        (8, 1, 1, 10),
        (8, 4, 1, 40),
        (8, 1, 6, 10),
        (8, 1, 20, 15),
        (8, 4, 1, 60),
        (8, 1, 1, 24),
        // Many transfers are ahead of their steps.
        (20, 1, 6, 14),
    ] {
        let machine = Machine::new(Gpu::H200);
        println!("{layers} layers of {each} slots, {launches} launches, {slots} slots");
        let stack = Stack::of_slots(&machine, slots, (layers, each), launches);
        does_what_its_plan_says(&stack, 0.95..=1.05);
    }
}

/// As above, with homes in files, which the thread of the pass reads and writes: the device waits for it in short steps.
#[test]
fn a_pass_over_files_does_what_its_plan_says() {
    for (layers, each, launches, slots) in [(12, 2, 1, 24), (12, 2, 20, 24), (20, 1, 6, 14)] {
        let machine = Machine::new(Gpu::H200);
        println!("{layers} layers of {each} slots, {launches} launches, {slots} slots");
        // The driver copies: with the ring, the time on the simulator depends on how often a thread looks whether a copy is complete.
        let options = TransferOptions::default().ring_bytes(0);
        machine.device.set_transfer_options(options);
        let arena = machine.arena(slots);
        let homed = |elements: &[f32], role| {
            if role == Role::Scratch {
                return Homed::zeroed(&arena, elements.len(), role).unwrap();
            }
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(bytemuck::cast_slice(elements)).unwrap();
            Homed::from_file(&arena, file, (0, elements.len()), role).unwrap()
        };
        let stack = Stack::of_homes((&machine, &arena), (layers, each), launches, homed);
        does_what_its_plan_says(&stack, 0.85..=1.15);
    }
}

/// As above, with homes in unified buffers: copies from their pages on the host take as long as those from pinned memory.
#[test]
fn a_pass_over_unified_buffers_does_what_its_plan_says() {
    for (layers, each, launches, slots) in [(8, 4, 1, 40), (20, 1, 6, 14)] {
        let machine = Machine::new(Gpu::H200);
        let arena = machine.arena(slots);
        let homed = |elements: &[f32], role| {
            let home = UnifiedBuffer::from_slice(&machine.device, elements).unwrap();
            Homed::from_unified(&arena, home, role).unwrap()
        };
        let stack = Stack::of_homes((&machine, &arena), (layers, each), launches, homed);
        does_what_its_plan_says(&stack, 0.95..=1.05);
    }
}

fn does_what_its_plan_says(stack: &Stack<'_>, times: RangeInclusive<f64>) {
    let machine = stack.machine;
    let link = stack.arena.measure_link().unwrap();
    let (program, plan) = stack.record(link);
    let mut planned = Planned::new(&stack.arena, program, plan).unwrap();
    for _ in 0..3 {
        planned
            .run(&machine.stream, || stack.pass())
            .unwrap()
            .unwrap();
    }
    let report = planned.report().unwrap();
    println!("{link:?}\n{report}");
    for pass in &report.passes {
        assert_eq!(pass.divergence, None);
    }
    for pass in &report.passes[2..] {
        let bytes = [pass.in_bytes, pass.out_bytes];
        let planned = [report.prediction.in_bytes, report.prediction.out_bytes];
        assert_eq!(bytes, planned, "{report}");
        let ratio = pass.time.as_secs_f64() / report.prediction.seconds;
        println!("{ratio}");
        // A GPU is measured by the example, in runs that are longer.
        assert!(
            machine.sim.is_none() || times.contains(&ratio),
            "{ratio}: {report}"
        );
    }
    assert!(stack.arena.stats().peak_bytes <= stack.arena.budget_bytes());
    stack.check(4);
}

#[test]
fn plans_run_on_each_machine() {
    each_machine(|machine| {
        let stack = Stack::new(machine, 7, 6, 1);
        let (program, plan) = stack.record(Link::pcie5());
        let (saved, program_text) = (plan.to_json(), program.to_json());
        let program = Program::from_json(&program_text).unwrap();
        let plan = Plan::from_json(&saved, &program, stack.arena.plan_budget()).unwrap();
        let mut planned = Planned::new(&stack.arena, program, plan).unwrap();
        planned.measure_stalls(true);
        for _ in 0..3 {
            planned
                .run(&machine.stream, || stack.pass())
                .unwrap()
                .unwrap();
        }
        let report = planned.report().unwrap();
        assert!(
            report
                .passes
                .iter()
                .all(|pass| pass.divergence.is_none() && pass.stalls.len() == 12),
            "{report}"
        );
        assert!(!report.changes.is_empty());
        stack.check(4);
    });
}

#[test]
fn a_run_that_leaves_its_plan_is_correct_and_says_where() {
    let machine = Machine::new(Gpu::H200);
    let stack = Stack::new(&machine, 7, 6, 1);
    let (program, plan) = stack.record(Link::pcie5());
    let mut planned = Planned::new(&stack.arena, program, plan).unwrap();
    let run = |planned: &mut Planned, extra: bool| {
        let pass = || {
            if extra {
                drop(working_set(&machine.stream, Input(&stack.weights[3]))?);
            }
            stack.pass()
        };
        planned.run(&machine.stream, pass).unwrap().unwrap();
    };
    run(&mut planned, false);
    run(&mut planned, true);
    run(&mut planned, false);
    planned.run(&machine.stream, || ()).unwrap();
    run(&mut planned, false);
    stack.check(5);
    let report = planned.report().unwrap();
    let left: Vec<_> = report
        .passes
        .iter()
        .map(|pass| pass.divergence.as_ref().map(|left| left.step))
        .collect();
    assert_eq!(left, [None, Some(0), None, Some(0), None]);
    let left = report.passes[1].divergence.as_ref().unwrap();
    assert_eq!(
        (&*left.expected, &*left.found),
        ("Read weight 0, Write activation 0", "Read weight 3")
    );
    assert!(
        report.to_string().contains("left the plan at step 0"),
        "{report}"
    );
}

#[test]
fn passes_and_programs_that_do_not_fit() {
    let machine = Machine::new(Gpu::H200);
    let stack = Stack::new(&machine, 7, 3, 1);
    let (program, plan) = stack.record(Link::pcie5());
    let nested = || stack.arena.record(&machine.stream, || ()).map(drop);
    let (inner, _) = stack.arena.record(&machine.stream, nested).unwrap();
    assert!(matches!(
        inner.unwrap_err(),
        Error::PassActive { call: "record" }
    ));
    if machine.sim.is_some() {
        let stream = &Machine::new(Gpu::H200).stream;
        let is_refused = |error: Error| error.to_string().contains("another runtime");
        let alone = stack.arena.record(stream, || ()).map(drop);
        assert!(is_refused(alone.unwrap_err()));
        let within = || working_set(stream, Input(&stack.weights[0])).map(drop);
        let (within, _) = stack.arena.record(&machine.stream, within).unwrap();
        assert!(is_refused(within.unwrap_err()));
        let mut planned = Planned::new(&stack.arena, program.clone(), plan.clone()).unwrap();
        assert!(is_refused(planned.run(stream, || ()).unwrap_err()));
    }
    let other = machine.arena(7);
    let refused = Planned::new(&other, program.clone(), plan.clone())
        .err()
        .unwrap();
    assert!(
        matches!(refused, Error::UnknownBuffer { found: 0, .. }),
        "{refused}"
    );
    let small = machine.arena(6);
    let refused = Planned::new(&small, program.clone(), plan.clone())
        .err()
        .unwrap();
    assert!(matches!(refused, Error::Plan(_)), "{refused}");
    let mut planned = Planned::new(&stack.arena, program, plan).unwrap();
    let Stack {
        weights,
        activations,
        gradients,
        ..
    } = stack;
    drop(gradients);
    let refused = planned.run(&machine.stream, || ()).unwrap_err();
    assert!(matches!(refused, Error::UnknownBuffer { .. }), "{refused}");
    drop((weights, activations));
}

/// Three buffers of one value that take turns in an arena of two slots, and a scratch buffer.
fn scratch_beside_others(arena: &Arena) -> (Homed<u32>, Vec<Homed<u32>>) {
    let mut scratch = Homed::<u32>::zeroed(arena, SLOT, Role::Scratch).unwrap();
    scratch.copy_from_host(&vec![42; SLOT]).unwrap();
    let other = |value| Homed::from_slice(arena, &vec![value; SLOT], Role::ReadOnly).unwrap();
    (scratch, (100..103).map(other).collect())
}

/// A pass that panics ends, and the next one begins anew.
#[test]
fn a_pass_that_panics_ends() {
    let machine = Machine::new(Gpu::H200);
    let stack = Stack::new(&machine, 7, 4, 1);
    let (program, plan) = stack.record(Link::pcie5());
    let mut planned = Planned::new(&stack.arena, program, plan).unwrap();
    let panics = || {
        drop(working_set(&machine.stream, Input(&stack.weights[0])).unwrap());
        std::panic::resume_unwind(Box::new("on purpose"));
    };
    let run = std::panic::AssertUnwindSafe(|| planned.run(&machine.stream, panics));
    assert!(std::panic::catch_unwind(run).is_err());
    let run = std::panic::AssertUnwindSafe(|| stack.arena.record(&machine.stream, panics));
    assert!(std::panic::catch_unwind(run).is_err());
    planned
        .run(&machine.stream, || stack.pass())
        .unwrap()
        .unwrap();
    assert_eq!(planned.report().unwrap().passes[0].divergence, None);
    stack.check(2);
}
