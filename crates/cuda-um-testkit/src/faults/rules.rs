//! Allowed effects besides an error that names the call, each with its reason. A rule that is no longer needed fails the test.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// The subject of a rule.
pub type About = &'static str;
pub const NO_ERROR: About = "no error";
pub const NO_ERROR_OF_TWO: About = "no error of the second failure";
pub const LEAKS: About = "one thing leaks";
pub const LEAKS_UNTOLD: About = "one thing leaks that was created but not returned";
pub const LEAKS_BY_TWO: About = "one thing leaks by two failures";
pub const NOT_YET_STICKY: About = "not recognised as sticky";

pub struct Rule {
    pub about: About,
    /// Empty means any.
    pub scenarios: &'static [&'static str],
    pub calls: &'static [&'static str],
    pub why: &'static str,
}

const ANY: &str = "any call";

const fn rule(about: About, calls: &'static [&'static str], why: &'static str) -> Rule {
    Rule {
        about,
        scenarios: &[],
        calls,
        why,
    }
}

pub const RULES: &[Rule] = &[
    rule(
        NO_ERROR,
        &[
            "cudaStreamDestroy",
            "cudaEventDestroy",
            "cudaFree",
            "cudaFreeHost",
            "cudaFreeAsync",
            "cuModuleUnload",
            "cudaGraphDestroy",
            "cudaGraphExecDestroy",
        ],
        "a drop cannot return an error: it sends a `tracing` warning; `close` returns the error, and `reclaim` those of late frees",
    ),
    rule(
        NO_ERROR,
        &["cudaThreadExchangeStreamCaptureMode"],
        "the mode of a thread concerns captures of other libraries only; to restore it is tried twice",
    ),
    rule(
        NO_ERROR,
        &["cuFuncGetParamInfo"],
        "the error that ends the list of parameters is asked for twice",
    ),
    rule(
        NO_ERROR,
        &["cudaGetDevice"],
        "before a call that frees, it is retried once; before any other call its failure counts as that of the call",
    ),
    rule(
        NO_ERROR,
        &["cudaDeviceSynchronize"],
        "before pinned memory for copies is freed, the wait for the copies is tried once more",
    ),
    rule(
        NO_ERROR,
        &["cudaSetDevice"],
        "the same; restoring the caller's device is also retried once",
    ),
    rule(
        NO_ERROR,
        &[
            "cudaHostAlloc",
            "cudaEventCreateWithFlags",
            "cudaPointerGetAttributes",
        ],
        "a copy continues with fewer chunks, or without the ring: then the driver copies",
    ),
    rule(
        NO_ERROR,
        &[
            "cudaMallocManaged",
            "cudaMalloc",
            "cudaMemGetInfo",
            "cudaMallocFromPoolAsync",
            "cudaHostGetDevicePointer",
        ],
        "a pool that is refused memory frees its unused memory, and retries once",
    ),
    rule(
        NO_ERROR,
        &["cudaEventQuery", "cudaEventRecord"],
        "a drop cannot query if the work is done: a later call waits for it in another way",
    ),
    rule(
        NO_ERROR,
        &["cudaStreamQuery"],
        "a dropped stream cannot query its last work: the stream is kept, and queried again later",
    ),
    rule(
        NO_ERROR,
        &["cudaHostUnregister"],
        "it is retried once: the memory still belongs only to the caller, so a retry is safe",
    ),
    rule(
        NO_ERROR,
        &["cudaHostRegister"],
        "large pinned memory that is not registered comes from `cudaHostAlloc`",
    ),
    rule(
        NO_ERROR,
        &["cudaMemPoolGetAttribute", "cudaMemPoolTrimTo"],
        "`trim` and `stats` of a pool return no error: they return the known values",
    ),
    rule(
        NO_ERROR,
        &["cudaDeviceGetAttribute"],
        "an older runtime refuses the attribute for the host's NUMA node as an invalid value: then the node is unknown",
    ),
    rule(
        NO_ERROR,
        &["cuPointerGetAttribute"],
        "an import compares the last byte instead, if the driver does not report the extent of memory",
    ),
    rule(
        NO_ERROR_OF_TWO,
        &["cudaStreamSynchronize"],
        "a driver pool that was refused memory waits for pending frees: if the wait fails, the next refusal returns an error",
    ),
    rule(
        LEAKS,
        &[
            "cudaFree",
            "cudaFreeHost",
            "cudaFreeAsync",
            "cudaStreamDestroy",
            "cudaEventDestroy",
            "cuModuleUnload",
            "cudaGraphDestroy",
            "cudaGraphExecDestroy",
        ],
        "the free failed: a retry could free memory that has a new owner",
    ),
    rule(
        LEAKS_UNTOLD,
        &[
            "cudaStreamEndCapture",
            "cudaGraphInstantiateWithFlags",
            "cudaMallocManaged",
            "cudaMalloc",
            "cudaMallocFromPoolAsync",
            "cudaHostAlloc",
            "cudaStreamCreateWithFlags",
            "cudaEventCreateWithFlags",
            "cuModuleLoadDataEx",
            "cudaMemPoolCreate",
        ],
        "the call created it but reported a failure: its output is then undocumented, so the address or handle is unknown",
    ),
    rule(
        LEAKS_BY_TWO,
        &[
            "cudaGetDevice",
            "cudaSetDevice",
            "cudaHostUnregister",
            "cudaDeviceSynchronize",
        ],
        "a retry is not repeated: setting the device before a free, unregistering, and the wait before pinned memory for copies is freed",
    ),
    Rule {
        about: NO_ERROR,
        scenarios: &["pinned_pool", "read_ahead", "host"],
        calls: &["cudaHostRegister"],
        why: "large pinned memory that is not registered is allocated by cudaHostAlloc",
    },
    Rule {
        about: NO_ERROR,
        scenarios: &[
            "pools_of_all_devices",
            "dropped_while_another_device_reads",
            "pools_are_shared",
        ],
        calls: &["cudaStreamWaitEvent"],
        why: "the drop of driver pool memory cannot order the free after its uses: a later call waits for them",
    },
    Rule {
        about: NO_ERROR,
        scenarios: &["pinned_pool"],
        calls: &["cudaHostRegister"],
        why: "pinned memory that CUDA cannot register comes from cudaHostAlloc",
    },
    Rule {
        about: NO_ERROR,
        scenarios: &["system_memory"],
        calls: &["cudaMemAdvise"],
        why: "advice is undone before system memory goes back; memory that keeps advice goes back as well, because advice changes no contents",
    },
    Rule {
        about: NOT_YET_STICKY,
        scenarios: &["from_open_to_end"],
        calls: &[ANY],
        why: "before a runtime has created a stream, an unavailable device may be in temporary use by another process",
    },
];

/// The rules, and the calls for which each was needed.
#[derive(Default)]
pub struct Rules {
    used: Mutex<BTreeSet<(usize, &'static str)>>,
}

impl Rules {
    pub fn allow(&self, about: About, scenario: &str, call: &str) -> bool {
        let call = call.strip_suffix("_v2").unwrap_or(call);
        let fitting = RULES.iter().enumerate().find_map(|(index, rule)| {
            let is_it = rule.about == about
                && (rule.scenarios.is_empty() || rule.scenarios.contains(&scenario));
            let of = |name: &&&str| **name == call || **name == ANY;
            let found = rule.calls.iter().find(of).filter(|_| is_it)?;
            Some((index, *found))
        });
        fitting.is_some_and(|used| {
            self.used.lock().unwrap().insert(used);
            true
        })
    }

    /// Rules that were not needed. Rules for two failures are not needed in runs of one failure.
    pub fn unused(&self) -> Vec<String> {
        let used = self.used.lock().unwrap();
        let all = RULES.iter().enumerate();
        all.filter(|(_, rule)| ![LEAKS_BY_TWO, NO_ERROR_OF_TWO].contains(&rule.about))
            .flat_map(|(index, rule)| rule.calls.iter().map(move |call| (index, *call, rule)))
            .filter(|(index, call, _)| !used.contains(&(*index, *call)))
            .map(|(_, call, rule)| format!("{}, {call}: {}", rule.about, rule.why))
            .collect()
    }
}
