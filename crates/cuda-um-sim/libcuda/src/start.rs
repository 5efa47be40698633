//! The simulator of this process.

use std::sync::OnceLock;

use cuda_um_sim::Sim;

use crate::log;

static SIM: OnceLock<Option<Sim>> = OnceLock::new();

/// The simulator; the first call starts it. `None` if it did not start.
pub(crate) fn sim() -> Option<&'static Sim> {
    SIM.get_or_init(|| {
        log::to_standard_error();
        match Sim::from_env() {
            Ok(sim) => Some(sim),
            Err(error) => {
                eprintln!("cuda-um-sim: {error}");
                None
            }
        }
    })
    .as_ref()
}
