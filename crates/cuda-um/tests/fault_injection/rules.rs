//! Allowed effects besides an error that names the call, each with its reason. A rule that is no longer needed fails the test.

use std::collections::BTreeSet;
use std::sync::Mutex;

/// The subject of a rule.
pub type About = &'static str;
pub const NO_ERROR: About = "no error";
pub const NO_ERROR_OF_TWO: About = "no error of the second failure";
pub const LEAKS: About = "one thing leaks";
pub const LEAKS_UNTOLD: About = "one thing leaks that was made and not told of";
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
            "cudaMemPoolDestroy",
        ],
        "a drop has nobody to tell: it is a warning of `tracing`; `close` tells, and `reclaim` what was freed late",
    ),
    rule(
        NO_ERROR,
        &["cudaGetDevice"],
        "before what gives something back it is asked once more; before any other call it fares as that call",
    ),
    rule(
        NO_ERROR,
        &["cudaSetDevice"],
        "the same; and the caller's device is made current again in a second try",
    ),
    rule(
        NO_ERROR,
        &[
            "cudaHostAlloc",
            "cudaEventCreateWithFlags",
            "cudaPointerGetAttributes",
        ],
        "a copy does without a chunk of the ring, or without the ring: the driver copies",
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
        "a pool that is refused memory gives back what it does not use, and asks once more",
    ),
    rule(
        NO_ERROR,
        &["cudaEventQuery", "cudaEventRecord"],
        "a drop cannot ask whether the work is over: the reclaim thread waits for it in another way",
    ),
    rule(
        NO_ERROR,
        &["cudaStreamQuery"],
        "a stream that goes cannot ask for its last work: whoever needs to know waits for the device",
    ),
    rule(
        NO_ERROR,
        &["cudaHostUnregister"],
        "it is tried once more: the memory is still the caller's alone, so that meets nobody else's",
    ),
    rule(
        NO_ERROR,
        &["cudaMemPoolGetAttribute", "cudaMemPoolTrimTo"],
        "`trim` and `stats` of a pool have no error: they say what they know",
    ),
    rule(
        NO_ERROR,
        &["cudaDeviceGetAttribute"],
        "an older runtime calls the NUMA node of the host, which it does not know, an invalid value: then none is known",
    ),
    rule(
        NO_ERROR_OF_TWO,
        &["cudaStreamSynchronize"],
        "a pool of the driver that was refused memory waits for what is being freed: if it could not, the next refusal tells",
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
            "cudaMemPoolDestroy",
        ],
        "giving it back was refused: a second try could give back what is somebody else's by now",
    ),
    rule(
        LEAKS_UNTOLD,
        &[
            "cudaMallocManaged",
            "cudaMalloc",
            "cudaMallocFromPoolAsync",
            "cudaHostAlloc",
            "cudaStreamCreateWithFlags",
            "cudaEventCreateWithFlags",
            "cuModuleLoadData",
            "cudaMemPoolCreate",
        ],
        "it was made, and a failure reported: what such a call writes is not documented, so nobody has its address or handle",
    ),
    rule(
        LEAKS_BY_TWO,
        &["cudaGetDevice", "cudaSetDevice", "cudaHostUnregister"],
        "what is tried twice is not tried a third time: to make a device current before something is given back, and to unregister",
    ),
    Rule {
        about: NO_ERROR,
        scenarios: &[
            "pools_of_all_devices",
            "dropped_while_another_device_reads",
            "pools_are_shared",
        ],
        calls: &["cudaStreamWaitEvent"],
        why: "the drop of a driver pool's memory cannot put the free behind its use: the reclaim thread waits for that",
    },
    Rule {
        about: NOT_YET_STICKY,
        scenarios: &["from_open_to_end"],
        calls: &[ANY],
        why: "before a runtime has made a stream, a device that is unavailable may be another process's for a while",
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
