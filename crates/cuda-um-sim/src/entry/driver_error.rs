//! The driver's names and texts of errors, which work in a poisoned context, too.

use super::guard::entry_points;
use super::names::driver_texts;
use super::pointer::Out;
use crate::engine::Code;

entry_points! { Inquiry;
    fn cuGetErrorName(core, code: u32, text: Out<usize>) {
        let found = driver_texts(core, code);
        text.put(found.map_or(0, |(name, _)| name.as_ptr() as usize))?;
        found.map(drop).ok_or(Code::INVALID_VALUE)
    }

    fn cuGetErrorString(core, code: u32, text: Out<usize>) {
        let found = driver_texts(core, code);
        text.put(found.map_or(0, |(_, string)| string.as_ptr() as usize))?;
        found.map(drop).ok_or(Code::INVALID_VALUE)
    }
}
