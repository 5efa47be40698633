//! A progress bar on standard error, for long searches.

use crate::args::BufferKind;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// Searches shorter than this show nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// Progress of one run; the bar disappears when this is dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// At first nothing is shown. If standard error is not a terminal, nothing is ever shown.
    pub fn new(kind: BufferKind, total: usize, of: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total as u64), ProgressDrawTarget::hidden());
        let style =
            ProgressStyle::with_template("{prefix:<8} {wide_bar} {pos}/{len} {msg}, {eta} left");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(kind.name());
        bar.set_message(of);
        Self {
            bar,
            started: Instant::now(),
        }
    }

    /// Reports how many are done.
    pub fn at(&self, done: usize) {
        if self.bar.is_hidden() && self.started.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(done as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
