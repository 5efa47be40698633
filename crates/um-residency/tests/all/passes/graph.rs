//! Steps as graphs.

use super::*;

/// All steps have one shape, so they share one executable graph, which gets the memory of each step's buffers.
#[test]
fn steps_of_a_planned_pass_are_launches_of_one_graph() {
    let machine = Machine::new(Gpu::H200);
    let stack = Stack::new(&machine, 4, 6, 1);
    let (stream, saxpy) = (&machine.stream, stack.saxpy.as_ref().unwrap());
    let mut recorded = None;
    let mut pass = || {
        for (weight, gradient) in stack.weights.iter().zip(&stack.gradients) {
            let (weight, mut gradient) = working_set(stream, (Input(weight), InOut(gradient)))?;
            if recorded.is_none() {
                let mut places = None;
                let graph = stream.capture(|recording| {
                    let parameters = (
                        recording.buffer(&weight.view()),
                        recording.buffer(&gradient.view()),
                    );
                    places = Some(parameters);
                    (0..10).try_for_each(|_| {
                        let (x, y) = (weight.view(), gradient.view_mut());
                        let launched = saxpy.launch(stream, 0.5, x, y);
                        launched.map_err(um_backend::cuda_um::Error::from)
                    })
                })?;
                recorded = Some((graph.instantiate()?, places.unwrap()));
            }
            let (exec, places) = recorded.as_mut().unwrap();
            exec.set_buffer(places.0, &weight.view())?;
            exec.set_buffer(places.1, &gradient.view())?;
            exec.launch(stream, (weight.view(), gradient.view_mut()))?;
        }
        Ok::<(), Error>(())
    };
    let (done, program) = stack.arena.record(stream, &mut pass).unwrap();
    done.unwrap();
    let plan = program.solve(stack.arena.plan_budget(), Link::pcie5());
    let mut planned = Planned::new(&stack.arena, program, plan.unwrap()).unwrap();
    for _ in 0..2 {
        planned.run(stream, &mut pass).unwrap().unwrap();
    }
    let report = planned.report().unwrap();
    assert_eq!(report.passes[1].in_bytes, report.prediction.in_bytes);
    for (layer, gradient) in stack.gradients.iter().enumerate() {
        let expected = 3.0 * 5.0 * (layer as f32 + 1.0);
        assert!(gradient.to_vec().unwrap().iter().all(|it| *it == expected));
    }
}
