//! The linker of the driver. What it links is PTX, so its result is the text of all parts, which the loader takes as it takes PTX.

use super::guard::entry_points;
use super::pointer::{Array, JitOptions, Out, Text};
use crate::engine::{Code, Linked};

/// `CU_JIT_INPUT_PTX`.
const PTX: u32 = 1;

entry_points! { Driver;
    fn cuLinkCreate_v2(core, _count: u32, _options: JitOptions, _values: Out<usize>, link: Out<usize>) {
        let mut state = core.state.lock();
        let handle = state.handles.fresh();
        state.links.insert(handle, Linked::default());
        link.put(handle)
    }

    fn cuLinkAddData_v2(
        core, link: usize, kind: u32, data: Array<u8>, bytes: usize, _name: Text, _count: u32, _options: JitOptions, _values: Out<usize>,
    ) {
        let data = data.to_vec(bytes)?;
        let mut state = core.state.lock();
        let linked = state.links.get_mut(&link).ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        linked.add(kind == PTX, data)
    }

    fn cuLinkAddFile_v2(core, link: usize, kind: u32, path: Text, _count: u32, _options: JitOptions, _values: Out<usize>) {
        let data = std::fs::read(path.path()?).map_err(|_| Code::FILE_NOT_FOUND)?;
        let mut state = core.state.lock();
        let linked = state.links.get_mut(&link).ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        linked.add(kind == PTX, data)
    }

    fn cuLinkComplete(core, link: usize, image: Out<usize>, bytes: Out<usize>) {
        let mut state = core.state.lock();
        let linked = state.links.get_mut(&link).ok_or(Code::INVALID_RESOURCE_HANDLE)?;
        let text = linked.image();
        image.put(text.as_ptr() as usize)?;
        if bytes.is_null() { Ok(()) } else { bytes.put(text.len()) }
    }

    fn cuLinkDestroy(core, link: usize) {
        let removed = core.state.lock().links.remove(&link);
        removed.map(drop).ok_or(Code::INVALID_RESOURCE_HANDLE)
    }
}
