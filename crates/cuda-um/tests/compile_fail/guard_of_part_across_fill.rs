//! claim 1: A host guard of a part of a view while a fill writes the view.

use cuda_um::{Result, Stream, ViewMut};

fn misuse(mut view: ViewMut<'_, u32>, stream: &Stream) -> Result<u32> {
    let guard = view.host()?;
    view.fill_on(1, stream)?;
    Ok(guard[0])
}

fn main() {}
