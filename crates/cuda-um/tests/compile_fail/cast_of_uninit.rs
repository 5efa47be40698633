//! claim 4: Uninitialised elements become initialised by a cast.

use cuda_um::{Result, View};
use std::mem::MaybeUninit;

fn misuse(view: View<'_, MaybeUninit<u32>>) -> Result<View<'_, u32>> {
    view.cast()
}

fn main() {}
