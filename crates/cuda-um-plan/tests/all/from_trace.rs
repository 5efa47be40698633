//! Programs from traces of a pass.

use cuda_um_plan::{Access, Link, PlanBudget, PlanError, Program, Role};
use cuda_um_trace::{Access as Touch, Buffer, KernelRun, Operation, OperationKind, Trace};

const MIB: u64 = 1 << 20;

fn buffer(id: u64, name: &str, within: bool) -> Buffer {
    Buffer {
        id,
        name: name.to_owned(),
        site: None,
        address: id << 32,
        bytes: 8 * MIB,
        element_bytes: 4,
        managed: true,
        slab: None,
        device: 0,
        allocated: within.then_some(15),
        freed: within.then_some(90),
    }
}

fn touch(buffer: u64, bytes: u64, write: bool) -> Touch {
    Touch {
        buffer,
        offset: 0,
        bytes,
        write,
    }
}

fn operation(id: u64, kind: OperationKind, accesses: &[Touch]) -> Operation {
    Operation {
        id,
        kind,
        stream: Some(1),
        device: 0,
        start: id * 10,
        end: id * 10 + 1,
        accesses: accesses.to_vec(),
    }
}

/// Weights are read, activations are filled and read, a gradient is added to.
fn pass() -> Trace {
    let launch = |kernel: &str| OperationKind::Launch {
        kernel: kernel.to_owned(),
    };
    let run = |operation: u64, nanoseconds: u64| KernelRun {
        name: "kernel".to_owned(),
        device: 0,
        stream: 7,
        start: operation * 10,
        end: operation * 10 + nanoseconds,
        operation: Some(operation),
    };
    let all = 8 * MIB;
    Trace {
        format: Trace::FORMAT,
        end: 1 << 20,
        buffers: vec![
            buffer(10, "weights", false),
            buffer(11, "activations", true),
            buffer(12, "gradient", false),
            buffer(13, "unused", false),
        ],
        operations: vec![
            operation(1, OperationKind::Host, &[touch(10, all, true)]),
            operation(2, OperationKind::Fill, &[touch(11, all, true)]),
            operation(
                3,
                launch("forward"),
                &[touch(10, all, false), touch(11, all, true)],
            ),
            operation(
                4,
                launch("back"),
                &[
                    touch(11, MIB, false),
                    touch(12, all, false),
                    touch(12, MIB, true),
                ],
            ),
            operation(
                5,
                OperationKind::Copy,
                &[touch(12, MIB, true), touch(10, all, false)],
            ),
        ],
        kernels: vec![run(3, 2500), run(4, 4000)],
        ..Trace::default()
    }
}

#[test]
fn steps_roles_and_times() {
    let program = Program::from_trace(&pass(), ..).unwrap();
    let buffers: Vec<_> = program
        .buffers
        .iter()
        .map(|one| (&*one.name, one.role))
        .collect();
    assert_eq!(
        buffers,
        [
            ("activations", Role::Scratch),
            ("weights", Role::ReadOnly),
            ("gradient", Role::ReadWrite),
        ]
    );
    assert!(program.buffers.iter().all(|one| one.bytes == 8 * MIB));
    let steps: Vec<_> = program
        .steps
        .iter()
        .map(|step| {
            let uses: Vec<_> = step
                .uses
                .iter()
                .map(|one| (one.buffer, one.access))
                .collect();
            (&*step.name, (step.compute_seconds * 1e9).round(), uses)
        })
        .collect();
    use Access::{Read, ReadWrite, Write};
    assert_eq!(
        steps,
        [
            ("fill", 0.0, vec![(0, Write)]),
            ("forward", 2500.0, vec![(1, Read), (0, ReadWrite)]),
            ("back", 4000.0, vec![(0, Read), (2, ReadWrite)]),
            ("copy", 0.0, vec![(2, ReadWrite), (1, Read)]),
        ]
    );
    let budget = PlanBudget { bytes: 16 * MIB };
    let plan = program.solve(budget, Link::pcie5()).unwrap();
    plan.check(&program).unwrap();
}

fn refused(change: impl FnOnce(&mut Trace)) -> String {
    let mut trace = pass();
    change(&mut trace);
    let error = Program::from_trace(&trace, ..).unwrap_err();
    assert!(matches!(error, PlanError::Invalid { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn what_is_missing_is_named() {
    let error = refused(|trace| trace.dropped_operations = 3);
    assert!(
        error.starts_with("dropped_operations of the trace is 3"),
        "{error}"
    );
    let error = refused(|trace| drop(trace.kernels.pop()));
    assert!(
        error.starts_with("the kernel of launch 4 (\"back\") is missing"),
        "{error}"
    );
    let error = refused(|trace| trace.operations[3].device = 1);
    assert!(
        error.starts_with("the device of operation 4 is 1"),
        "{error}"
    );
    let error = refused(|trace| trace.operations[3].accesses[0].buffer = 99);
    assert!(
        error.starts_with("a buffer of operation 4 is 99"),
        "{error}"
    );
    let host = |trace: &mut Trace| {
        let host = operation(9, OperationKind::Host, &[touch(11, 4, false)]);
        trace.operations.insert(3, host);
    };
    let error = refused(host);
    assert!(
        error.starts_with("the use of \"activations\" by operation 4"),
        "{error}"
    );
}

/// A trace of an H200.
#[test]
fn a_trace_of_a_device() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../benches/tests/data/h200-prefetch.json"
    );
    let trace = Trace::from_json(&std::fs::read_to_string(file).unwrap()).unwrap();
    // A round: the host writes, a kernel runs, the host reads.
    let program = Program::from_trace(&trace, 6..14).unwrap();
    let names: Vec<_> = program.buffers.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["weights", "activations"]);
    assert_eq!(program.steps.len(), 1);
    assert_eq!(program.steps[0].name, "saxpy_f32");
    assert_eq!((program.steps[0].compute_seconds * 1e9).round(), 3456.0);
    // With a second round, the host is between two steps.
    let error = Program::from_trace(&trace, 6..18).unwrap_err().to_string();
    assert!(error.contains("trace one pass"), "{error}");
    let none = Program::from_trace(&trace, 100..).unwrap();
    assert_eq!(none.steps, []);
}
