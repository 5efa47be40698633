//! The arena over the steps of a pass: what a plan says, and what a run did.

mod run;
mod stays;
mod svg;

use crate::{Plan, Program};
pub use run::{Run, RunChange};

impl Plan {
    /// The arena over the steps of a pass as an SVG file: which buffer is in which slots, and how long each step waits.
    ///
    /// Each rectangle is a buffer in its place, with a title. It is pale while the buffer is coming. Buffers that a step reads in place are
    /// drawn below the slots. Of more than 2000 rectangles the smallest are left out.
    pub fn svg(&self, program: &Program) -> String {
        svg::draw(self, program, None)
    }

    /// The same, with a run of the plan below it.
    pub fn svg_beside(&self, program: &Program, run: &Run) -> String {
        svg::draw(self, program, Some(run))
    }
}
