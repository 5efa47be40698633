//! Prints a synthetic trace with about the number of records in the argument (default 10,000), to test reports and pictures:
//!
//! ```text
//! cargo run -p cuda-um-trace --example synthetic_trace -- 100000 > trace.json
//! ```
//!
//! With `hostile` as a second argument, its names contain HTML that must not take effect in the page.

#[path = "../tests/all/support.rs"]
mod support;

use cuda_um_trace::{BLOCK_BYTES, Cause, OperationKind, Place, RecordKind};
use std::io::Write as _;
use support::{Builder, DEVICE};

/// The number of records, and true if names contain HTML.
fn arguments() -> Result<(usize, bool), std::num::ParseIntError> {
    let mut words = std::env::args().skip(1);
    let wanted = words.next().map_or(Ok(10_000), |text| text.parse())?;
    Ok((wanted, words.next().is_some_and(|word| word == "hostile")))
}

/// The buffers of the trace.
struct Buffers {
    targets: u64,
    queries: u64,
    scores: u64,
    table: u64,
    slab: u64,
    pooled: Vec<u64>,
}

impl Buffers {
    fn new(builder: &mut Builder, hostile: bool) -> Self {
        let targets = match hostile {
            true => {
                "</script><script>throw 1</script><img src=http://127.0.0.1:9/x onerror=throw(2)>\"'`&amp;"
            }
            false => "targets",
        };
        let targets = builder.buffer(targets, 24 << 20);
        let queries = builder.buffer("queries", 3 << 20);
        let scores = builder.buffer("scores", 6 << 20);
        let table = builder.buffer("lookup_table", 4 << 20);
        let slab = builder.buffer("pool slab", 8 << 20);
        let base = builder.get(slab).address;
        let pooled = (0..6).map(|number| {
            let name = format!("activations[{number}]");
            builder.buffer_at(&name, base + number * (1 << 20), 1 << 20, Some(slab))
        });
        Self {
            targets,
            queries,
            scores,
            table,
            slab,
            pooled: pooled.collect(),
        }
    }

    /// One round of work.
    fn round(&self, builder: &mut Builder, round: u64) {
        let Self {
            targets,
            queries,
            scores,
            ..
        } = *self;
        if round % 7 == 3 {
            builder.host_faulting(targets, true);
        }
        builder.host(queries, true);
        builder.prefetch(queries, DEVICE);
        if round % 4 == 1 {
            builder.prefetch_of_nothing(queries, DEVICE);
        }
        let over = [
            (targets, false),
            (queries, false),
            (scores, true),
            (self.table, false),
        ];
        builder.launch_with("cosine", &over, |builder| {
            if !matches!(round % 7, 0 | 3) {
                return builder.wait(140_000);
            }
            builder.fault_in(targets);
            builder.move_all(targets, BLOCK_BYTES, DEVICE, Cause::Prefetch);
            builder.wait(40_000);
        });
        for &id in &self.pooled {
            builder.launch_faulting("normalize", &[(id, true)]);
        }
        if round.is_multiple_of(3) {
            builder.prefetch(scores, Place::Host);
            builder.host(scores, false);
        } else {
            builder.host_faulting(scores, false);
        }
        for &id in &self.pooled {
            builder.host_faulting(id, false);
        }
        builder.prefetch(queries, Place::Host);
        if round % 5 == 4 {
            let address = builder.get(self.slab).address;
            builder.record(RecordKind::Thrashing { bytes: 65_536 }, address, 0);
            builder.move_all(targets, BLOCK_BYTES, Place::Host, Cause::Eviction);
        }
        let name = "end of round".to_owned();
        builder.operation(OperationKind::Other { name }, &[]);
        builder.wait(50_000);
    }
}

fn main() -> std::io::Result<()> {
    let (wanted, hostile) = arguments().unwrap_or_else(|error| {
        eprintln!("the number of records is not a number: {error}");
        std::process::exit(2);
    });
    let mut builder = Builder::new();
    let buffers = Buffers::new(&mut builder, hostile);
    builder.host(buffers.targets, true);
    builder.advise(buffers.table, "SetReadMostly");
    builder.prefetch(buffers.table, DEVICE);
    let mut round = 0;
    while builder.trace.records.len() < wanted {
        buffers.round(&mut builder, round);
        round += 1;
    }
    let text = builder.finish().to_json() + "\n";
    match std::io::stdout().write_all(text.as_bytes()) {
        // The reader closed the pipe (`| head`).
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}
