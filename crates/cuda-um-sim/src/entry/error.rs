//! Versions, which work in a poisoned context, too.

use super::guard::entry_points;
use super::pointer::Out;

entry_points! { Inquiry;
    fn cudaRuntimeGetVersion(core, version: Out<i32>) { version.put(core.machine.cuda.number()) }
    fn cudaDriverGetVersion(core, version: Out<i32>) = cuDriverGetVersion { version.put(core.machine.cuda.number()) }
}
