//! Objects of the program that graphs keep.

use super::guard::entry_points;
use super::pointer::{HostFunction, Out, UserData};
use crate::engine::Code;

entry_points! { Runtime;
    fn cudaUserObjectCreate(core, object: Out<usize>, data: UserData, destroy: HostFunction, count: u32, flags: u32) = cuUserObjectCreate {
        /// `cudaUserObjectNoDestructorSync`, which has to be given.
        const NO_SYNC: u32 = 1;
        if flags != NO_SYNC || count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        object.put(core.state.lock().graphs.create_object(destroy.with(data)?, count))
    }

    fn cudaUserObjectRetain(core, object: usize, count: u32) = cuUserObjectRetain { core.state.lock().graphs.retain_object(object, count) }

    fn cudaUserObjectRelease(core, object: usize, count: u32) = cuUserObjectRelease { core.state.lock().graphs.release_object(object, count) }

    fn cudaGraphRetainUserObject(core, graph: usize, object: usize, count: u32, flags: u32) = cuGraphRetainUserObject {
        // 1 is `cudaGraphUserObjectMove`.
        if flags > 1 || count == 0 {
            return Err(Code::INVALID_VALUE);
        }
        core.state.lock().graphs.hold_object((graph, object), count, flags == 1)
    }

    fn cudaGraphReleaseUserObject(core, graph: usize, object: usize, count: u32) = cuGraphReleaseUserObject {
        core.state.lock().graphs.drop_object((graph, object), count)
    }
}
