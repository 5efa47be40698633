//! The resources that are left at the end, and the failures that explain them.

use crate::faults::failure::{Failure, Kind};
use crate::faults::rules::{self, About};
use cuda_um_sim::{Leak, Sim};

/// The kinds of the remaining resources.
pub fn words(sim: &Sim) -> Vec<&'static str> {
    let mut words: Vec<_> = sim.leaks().iter().map(word).collect();
    words.sort_unstable();
    words
}

fn word(leak: &Leak) -> &'static str {
    match leak {
        Leak::Memory { kind, .. } => kind,
        Leak::Stream => "stream",
        Leak::Event => "event",
        Leak::Pool => "pool",
        Leak::Module => "module",
        Leak::Graph => "graph",
        Leak::GraphExec => "executable graph",
        Leak::Registration { .. } => "registration",
        _ => "?",
    }
}

/// The kinds of resources that a function releases.
fn given_back_by(call: &str) -> &'static [&'static str] {
    match call {
        "cudaFreeAsync" => &["cudaMallocAsync"],
        "cudaFree" => &["cudaMallocManaged", "cudaMalloc", "cudaMallocAsync"],
        "cudaFreeHost" => &["cudaHostAlloc"],
        "cudaStreamDestroy" => &["stream"],
        "cudaEventDestroy" => &["event"],
        "cuModuleUnload" => &["module"],
        "cudaGraphDestroy" => &["graph"],
        "cudaGraphExecDestroy" => &["executable graph"],
        "cudaMemPoolDestroy" => &["pool"],
        _ => &[],
    }
}

/// The resource that a function creates. If the function does its work but reports a failure, the library does not get this
/// resource.
fn made_by(failure: &Failure) -> Option<&'static str> {
    if failure.kind != Kind::Late {
        return None;
    }
    match failure.name() {
        "cudaMallocManaged" => Some("cudaMallocManaged"),
        "cudaMalloc" => Some("cudaMalloc"),
        "cudaMallocFromPoolAsync" => Some("cudaMallocAsync"),
        "cudaHostAlloc" => Some("cudaHostAlloc"),
        "cudaStreamCreateWithFlags" => Some("stream"),
        "cudaEventCreateWithFlags" => Some("event"),
        "cuModuleLoadDataEx" => Some("module"),
        "cudaStreamEndCapture" => Some("graph"),
        "cudaGraphInstantiateWithFlags" => Some("executable graph"),
        "cudaMemPoolCreate" => Some("pool"),
        _ => None,
    }
}

/// Functions that are retried once before a resource is leaked.
fn is_tried_twice(failure: &Failure) -> bool {
    let calls = [
        "cudaGetDevice",
        "cudaSetDevice",
        "cudaHostUnregister",
        "cudaDeviceSynchronize",
    ];
    calls.contains(&failure.call)
}

/// The failures that explain the remaining resources: each failure explains one resource that was not released, or two failures
/// explain one resource with a retry. `None` if they do not explain them.
pub fn explained_by<'a>(left: &[&str], failures: &'a [Failure]) -> Option<Vec<&'a Failure>> {
    let mut left = left.to_vec();
    let (mut explained, mut keeps_pool) = (Vec::new(), false);
    let mut remove = |is_it: &dyn Fn(&str) -> bool| {
        let found = left.iter().position(|word| is_it(word));
        let word = found.map(|index| left.swap_remove(index));
        keeps_pool |= word == Some("cudaMallocAsync");
        word.is_some()
    };
    for failure in failures {
        let (kinds, made) = (given_back_by(failure.call), made_by(failure));
        if remove(&|word| kinds.contains(&word) || made == Some(word)) {
            explained.push(failure);
        }
    }
    if failures.len() == 2 && failures.iter().all(is_tried_twice) && remove(&|_| true) {
        explained.extend(failures);
    }
    // Memory of a pool keeps its pool alive.
    if keeps_pool && let Some(pool) = left.iter().position(|word| *word == "pool") {
        left.swap_remove(pool);
    }
    left.is_empty().then_some(explained)
}

/// The rule that must allow it.
pub fn rule_about(failure: &Failure) -> About {
    match is_tried_twice(failure) {
        true => rules::LEAKS_BY_TWO,
        false if made_by(failure).is_some() => rules::LEAKS_UNTOLD,
        false => rules::LEAKS,
    }
}
