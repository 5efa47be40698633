//! Plans of small programs.

use cuda_um_plan::{Access, Budget, BufferSpec, Link, Plan, Program, Repeat, Role, Step, Use};

const SLOT: u64 = cuda_um_plan::SLOT_BYTES;

fn layers(count: usize, slots: u64, compute_seconds: f64) -> Program {
    let buffer = |index| BufferSpec {
        name: format!("layer {index}"),
        bytes: slots * SLOT,
        role: Role::ReadOnly,
        in_place: false,
    };
    let step = |index| Step {
        name: format!("layer {index}"),
        uses: vec![Use {
            buffer: index,
            access: Access::Read,
        }],
        compute_seconds,
    };
    Program {
        buffers: (0..count).map(buffer).collect(),
        steps: (0..count).map(step).collect(),
        repeat: Repeat::Cyclic,
    }
}

#[test]
fn a_plan_is_valid_and_comes_back_as_it_was() {
    let program = layers(8, 2, 1e-4);
    let budget = Budget { bytes: 8 * SLOT };
    let plan = program.solve(budget, Link::pcie5()).unwrap();
    plan.check(&program).unwrap();
    println!("{:?}", plan.prediction());
    let read = Plan::from_json(&plan.to_json(), &program, budget).unwrap();
    assert_eq!(read, plan);
    assert_eq!(Program::from_json(&program.to_json()).unwrap(), program);
}
