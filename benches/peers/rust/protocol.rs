//! Common code of the Rust peers of um_bench: the protocol of ../peer.py. Each peer includes this file as a module.

use serde_json::{Value, json};
use std::io::{BufRead, Write};
use std::time::Instant;

/// The answer of a task.
pub struct Answer {
    pub seconds: f64,
    pub verified: bool,
}

/// An error as text: it becomes {"error": …}.
pub type Result<T> = std::result::Result<T, String>;

/// A request for work.
pub struct Request(Value);

impl Request {
    pub fn bytes(&self) -> usize {
        self.number("bytes")
    }

    pub fn count(&self) -> usize {
        self.bytes() / size_of::<f32>()
    }

    pub fn round(&self) -> usize {
        self.number("round")
    }

    pub fn repeats(&self) -> usize {
        self.number("repeats").max(1)
    }

    /// The kind of memory: "managed", "pool", or "" if the request does not name one.
    pub fn memory(&self) -> &str {
        self.text("memory")
    }

    /// True to measure until the data have arrived, and not only until the call has returned.
    pub fn wait(&self) -> bool {
        self.0["wait"] == true
    }

    /// A text, or "" if the request has none.
    pub fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    /// A number, or 0 if the request has none.
    pub fn number(&self, key: &str) -> usize {
        self.0[key].as_u64().unwrap_or_default() as usize
    }
}

/// Answers requests until standard input ends. `open` is called at the first request; its error is the reason why this peer
/// cannot run.
pub fn serve<P>(
    open: impl Fn() -> Result<(P, String)>,
    work: impl Fn(&mut P, &str, &Request) -> Result<Answer>,
) {
    let mut opened = None;
    for line in std::io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        let request = serde_json::from_str(&line).unwrap_or_default();
        let (peer, version) = match opened.get_or_insert_with(&open) {
            Ok((peer, version)) => (peer, version),
            Err(reason) => {
                answer(&json!({ "error": reason }));
                return;
            }
        };
        let request = Request(request);
        let told = match request.0["do"].as_str() {
            Some("hello") => json!({ "version": version }),
            wanted => match work(peer, wanted.unwrap_or_default(), &request) {
                Ok(answer) => json!({ "seconds": answer.seconds, "verified": answer.verified }),
                Err(error) => json!({ "error": error }),
            },
        };
        answer(&told);
    }
}

fn answer(told: &Value) {
    let mut out = std::io::stdout().lock();
    // If um_bench has ended, the answer is lost.
    let _ = writeln!(out, "{told}").and_then(|()| out.flush());
}

/// The answer to a task that the library does not support.
pub fn cannot(library: &str, task: &str) -> Result<Answer> {
    Err(format!("{library} does not support {task}"))
}

/// Seconds for one of `repeats` runs of `work`; `finish` waits for pending work before the clock starts.
pub fn time_each(
    repeats: usize,
    mut work: impl FnMut() -> Result<()>,
    finish: impl Fn() -> Result<()>,
) -> Result<f64> {
    finish()?;
    let start = Instant::now();
    for _ in 0..repeats {
        work()?;
    }
    Ok(start.elapsed().as_secs_f64() / repeats as f64)
}

/// Numbers from 1 to 2, plus an amount that depends on the round: different in each round, never zero.
pub fn fresh(target: &mut [f32], round: usize) {
    let raise = (round % 1024) as f32;
    for (place, number) in target.iter_mut().enumerate() {
        let mixed = (place as u32).wrapping_mul(0x9E37_79B1);
        *number = 1.0 + (mixed >> 9) as f32 / (1u32 << 23) as f32 + raise;
    }
}

/// A number for one place; it differs from round to round.
pub fn mark(request: &Request) -> f32 {
    (request.round() + 1) as f32
}
