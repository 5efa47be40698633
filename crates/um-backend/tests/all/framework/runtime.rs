//! Backends that share a runtime.

use um_backend::cuda_um::Runtime;
use um_backend::sim::Sim;
use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, RuntimeChoice};

use crate::support::{Machine, on_each_preset};

/// The names of the calls that `work` makes.
fn calls(sim: &Sim, work: impl FnOnce()) -> Vec<&'static str> {
    let before = sim.trace().len();
    work();
    sim.trace()[before..].iter().map(|call| call.name).collect()
}

fn one_copy(machine: &Machine, source: &CudaBackend, target: &CudaBackend) {
    let sim = machine.sim();
    let elements: Vec<f32> = (0..1 << 20).map(|i| i as f32).collect();
    let source = source.create_from(BufferKind::Cuda, &elements).unwrap();
    let mut copy = target
        .create::<f32>(BufferKind::Cuda, elements.len())
        .unwrap();
    let made = calls(sim, || copy.copy_from_buffer(&*source).unwrap());
    let copies = made.iter().filter(|name| name.contains("Memcpy")).count();
    assert_eq!(copies, 1, "{made:?}");
    assert!(
        !made
            .iter()
            .any(|name| name.contains("Alloc") || name.contains("Synchronize")),
        "{made:?}"
    );
    assert_eq!(copy.to_vec().unwrap(), elements);
}

/// Two backends over one simulator share a runtime: a copy between their devices is one call of CUDA.
#[test]
fn backends_over_one_simulator_share_a_runtime() {
    on_each_preset(
        |builder| builder.devices(2),
        |machine| {
            let open = |ordinal| {
                let config = machine.config().device(ordinal);
                machine.open(config)
            };
            let (first, second) = (open(0), open(1));
            one_copy(machine, &first, &second);
            one_copy(machine, &second, &first.sibling(0).unwrap());
            assert!(second.is_simulated() && second.simulator().is_some());
        },
    );
}

/// A backend that is given the runtime of another one is simulated, too.
#[test]
fn a_given_runtime_of_a_simulator_is_known() {
    on_each_preset(
        |builder| builder,
        |machine| {
            let first = machine.backend();
            let runtime = RuntimeChoice::Given(first.device().runtime().clone());
            let given = CudaBackendConfig::default().runtime(runtime);
            let given = machine.open(given);
            assert!(given.is_simulated());
            let table = machine.sim().table();
            let other = RuntimeChoice::Given(Runtime::from_table(table).unwrap());
            let other = machine.open(machine.config().runtime(other));
            assert!(other.is_simulated() && other.simulator().is_some());
        },
    );
}
