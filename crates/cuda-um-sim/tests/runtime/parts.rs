//! Unit tests of parts of the simulator, which need no program of their own, and of the failures that are not accepted.
#![allow(dead_code, reason = "only the tests of the parts are used")]

#[path = "../../src/engine/address_space.rs"]
mod address_space;
#[path = "../../src/engine/managed/fault_plan.rs"]
mod fault_plan;
#[path = "../../src/engine/memory/free_list.rs"]
mod free_list;
#[path = "../../src/engine/status.rs"]
mod status;

mod foreign {
    /// Where the simulator keeps events until it holds no lock.
    pub(crate) fn event(event: impl FnOnce() + 'static) {
        event();
    }
}

mod failures {
    use cuda_um_sim::Fail;
    use cuda_um_sys::cudaError;

    #[test]
    fn a_failure_of_a_call_that_cannot_fail_is_refused_with_the_nearest_name() {
        for (name, meant) in [
            ("cudaMalocManaged", "cudaMallocManaged"),
            ("cuLaunchKernels", "cuLaunchKernel"),
        ] {
            let refused = std::panic::catch_unwind(|| Fail::call(name)).unwrap_err();
            let text = refused.downcast_ref::<String>().unwrap();
            assert!(
                text.contains(&format!("`{name}`: is `{meant}` meant?")),
                "{text}"
            );
        }
        // Names of functions that return no status, of this crate's own, and none.
        for name in [
            "cudaGetLastError",
            "cudaMemAdvise_13",
            "cuUmSimLaunchKernel",
            "",
        ] {
            assert!(
                std::panic::catch_unwind(|| Fail::call(name)).is_err(),
                "{name}"
            );
        }
    }
    #[test]
    #[should_panic(expected = "no call 0")]
    fn a_failure_of_the_call_0_is_refused() {
        let _ = Fail::call("cudaMalloc").nth(0);
    }

    #[test]
    #[should_panic(expected = "0, which is success")]
    fn a_failure_does_not_claim_success() {
        let _ = Fail::call("cudaStreamSynchronize").with(cudaError::cudaSuccess);
    }

    #[test]
    #[should_panic(expected = "0, which is success")]
    fn a_failure_does_not_claim_success_by_its_number() {
        let _ = Fail::call("cuptiActivityEnable").with_code(0);
    }
}
