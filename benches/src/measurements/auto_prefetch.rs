//! A loop that the host and a kernel share, with the prefetches by hand, without any, and with automatic prefetch.

use super::measurement::{FACTOR, Measurement};
use crate::Bench;
use crate::measure::{Case, Round};
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{Advice, AutoPrefetch, Location, UnifiedBuffer};
use std::time::Duration;
use um_kernels::Scale;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "auto_prefetch",
    what: "A loop on new managed memory: the host writes 3 MiB, a kernel reads them and writes other 3 MiB, and the host waits. The time \
           from the write to the end of the wait is the mean of ten turns, after two turns that are not timed. By hand: prefetched to the \
           device before the launch, and to the host after it; or advised to stay on the host, and read over the link.",
    run,
    notes,
};

const PREFETCHED: &str = "prefetched by hand";
const ADVISED: &str = "advised by hand";
const AUTOMATIC: &str = "automatic prefetch";
const WITHOUT: &str = "without prefetches";
/// 3 MiB.
const LEN: usize = 3 << 18;
/// From the third turn on, automatic prefetch has a plan.
const RECORDED: usize = 2;
const TIMED: u32 = 10;

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    let scale = Scale::load(&bench.device)?;
    let mut case = Case::new("3 MiB", LEN * 4, LEN);
    for name in [PREFETCHED, ADVISED, AUTOMATIC, WITHOUT] {
        let scale = &scale;
        case.ours(name, move |round| {
            let scope = match name {
                AUTOMATIC => Some(AutoPrefetch::start(&bench.device)?),
                _ => None,
            };
            let time = turns(bench, scale, round, name)?;
            drop(scope);
            Ok(time)
        });
    }
    cases.push(case.run(&bench.clock, &bench.settings));
    Ok(())
}

fn turns(bench: &Bench, scale: &Scale, round: &mut Round<'_>, name: &str) -> Result<Duration> {
    let (device, stream) = (&bench.device, &bench.stream);
    let mut input = UnifiedBuffer::<f32>::zeroed(device, LEN)?;
    let mut output = UnifiedBuffer::<f32>::zeroed(device, LEN)?;
    if name == ADVISED {
        input.advise(Advice::SetPreferredLocation(Location::Host))?;
        input.advise(Advice::SetAccessedBy(Location::from(device)))?;
    }
    let mut sum = Duration::ZERO;
    for turn in 0..RECORDED + TIMED as usize {
        let (clock, source) = (round.clock, round.source);
        let time = clock.time(|| {
            input.host_mut()?.copy_from_slice(source);
            if name == PREFETCHED {
                input.prefetch(device, stream)?;
            }
            scale.launch(stream, &input, &mut output, FACTOR)?;
            if name == PREFETCHED {
                input.prefetch(Location::Host, stream)?;
            }
            Ok(stream.synchronize()?)
        })?;
        if turn >= RECORDED {
            sum += time;
        }
    }
    output.copy_to_host(round.back)?;
    round.verified(sum / TIMED, FACTOR)
}

/// The ratio that the goals state.
fn notes(cases: &[CaseReport]) -> Vec<String> {
    let ratio = |name| {
        let case = cases.first()?;
        let best = case.median(PREFETCHED)?.min(case.median(ADVISED)?);
        let ratio = case.median(name)? / best;
        Some(format!(
            "{name} takes {ratio:.3} times as long as the better one by hand"
        ))
    };
    [AUTOMATIC, WITHOUT].into_iter().filter_map(ratio).collect()
}
