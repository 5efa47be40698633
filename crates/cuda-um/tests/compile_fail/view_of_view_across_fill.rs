//! claim 2: The part of a mutable view that is read while the view is written.

use cuda_um::{Result, Stream, ViewMut};

fn misuse(mut view: ViewMut<'_, u32>, stream: &Stream) -> Result<u32> {
    let part = view.as_view();
    view.fill_on(1, stream)?;
    part.read_one(0)
}

fn main() {}
