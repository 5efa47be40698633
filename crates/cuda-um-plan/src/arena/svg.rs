//! The drawing.

use super::run::Run;
use super::stays::{Stay, planned, ran};
use crate::drawing::{begin, key, markup, put};
use crate::{Plan, Program, units};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const HEAD: f64 = 40.0;
const FOOT: f64 = 40.0;
/// The heights of a panel's title, of its arena, of what is read in place, and of its stalls.
const TITLE: f64 = 26.0;
const ARENA: f64 = 260.0;
const HOMES: f64 = 12.0;
const STALLS: f64 = 50.0;
/// Places, and stalls, in a panel.
const MOST: usize = 2000;
/// Okabe and Ito's colours, which colour-blind people can distinguish. A buffer has one of them.
const COLOURS: [&str; 6] = [
    "#3a7fd5", "#2f9e8f", "#e0a526", "#7b3294", "#d5502e", "#7f8c9b",
];
const STALL: &str = "#b3446c";

/// What the panels have in common.
struct Scale<'a> {
    program: &'a Program,
    slots: f64,
    steps: f64,
    /// The longest stall.
    stall: f64,
}

pub(super) fn draw(plan: &Plan, program: &Program, run: Option<&Run>) -> String {
    let steps = plan.steps().len();
    let planned_stalls = &plan.prediction().stall_seconds;
    let stalls = run.map_or(&[][..], |run| &run.stall_seconds);
    let longest = planned_stalls.iter().chain(stalls).copied();
    let scale = Scale {
        program,
        slots: plan.budget().slots().max(1) as f64,
        steps: steps.max(1) as f64,
        stall: longest.fold(f64::MIN_POSITIVE, f64::max),
    };
    let panel = TITLE + ARENA + HOMES + STALLS;
    let panels = 1.0 + f64::from(u8::from(run.is_some()));
    let height = HEAD + panels * panel + FOOT;
    let title = format!(
        "{} slots over {steps} steps of a pass",
        plan.budget().slots()
    );
    let mut svg = begin(&title, WIDTH, height);
    let seconds = plan.prediction().seconds;
    scale.panel(
        &mut svg,
        HEAD,
        ("plan", seconds),
        planned(plan, steps),
        planned_stalls,
    );
    if let Some(run) = run {
        let stays = ran(plan, run, steps);
        scale.panel(&mut svg, HEAD + panel, ("run", run.seconds), stays, stalls);
    }
    key(
        &mut svg,
        (LEFT, height),
        STALL,
        "wait of a step for its transfers",
    );
    key(
        &mut svg,
        (LEFT + 230.0, height),
        "#c9cdd3",
        "pale: the buffer is coming",
    );
    key(
        &mut svg,
        (LEFT + 430.0, height),
        "#c9cdd3",
        "below the slots: read in place",
    );
    svg += "</svg>\n";
    svg
}

impl Scale<'_> {
    fn x(&self, step: usize) -> f64 {
        LEFT + step as f64 / self.steps * (WIDTH - LEFT - RIGHT)
    }

    fn panel(
        &self,
        svg: &mut String,
        top: f64,
        (name, seconds): (&str, f64),
        mut stays: Vec<Stay>,
        stalls: &[f64],
    ) {
        let all = stays.len();
        stays.sort_by_key(|stay| {
            std::cmp::Reverse(stay.slots.count.max(1) * (stay.until - stay.from) as u64)
        });
        stays.truncate(MOST);
        let waits = units::seconds(stalls.iter().sum());
        let time = units::seconds(seconds);
        let mut words = match stalls.is_empty() {
            true => format!("{name}: {time}"),
            false => format!("{name}: {time}, of which steps wait {waits}"),
        };
        if all > MOST {
            words += &format!("; {} of {all} places drawn", stays.len());
        }
        let arena = top + TITLE;
        put(
            svg,
            format_args!(
                "<text x=\"{LEFT}\" y=\"{:.0}\" font-weight=\"bold\" fill=\"#16181d\">{words}</text>\n\
                <rect x=\"{LEFT}\" y=\"{arena:.0}\" width=\"{:.0}\" height=\"{ARENA}\" fill=\"#f2f3f5\"/>\n",
                arena - 8.0,
                WIDTH - LEFT - RIGHT
            ),
        );
        for (slot, y) in [(0.0, arena + 10.0), (self.slots, arena + ARENA)] {
            put(
                svg,
                format_args!(
                    "<text x=\"{:.0}\" y=\"{y:.0}\" text-anchor=\"end\" fill=\"#5d6470\">slot {slot}</text>\n",
                    LEFT - 6.0
                ),
            );
        }
        stays.iter().for_each(|stay| self.stay(svg, arena, stay));
        let stalls = stalls.iter().enumerate();
        let mut stalls: Vec<_> = stalls.filter(|(_, stall)| **stall > 0.0).collect();
        stalls.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        for (step, &stall) in stalls.into_iter().take(MOST) {
            let height = (STALLS - 10.0) * stall / self.stall;
            put(
                svg,
                format_args!(
                    "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{STALL}\"><title>step {step} waits {}</title></rect>\n",
                    self.x(step),
                    arena + ARENA + HOMES + 4.0,
                    (self.x(step + 1) - self.x(step)).max(0.5),
                    units::seconds(stall)
                ),
            );
        }
    }

    fn stay(&self, svg: &mut String, top: f64, stay: &Stay) {
        let name = stay
            .buffer
            .and_then(|buffer| self.program.buffers.get(buffer));
        let name = name.map_or("another buffer", |spec| &spec.name);
        let colour = stay
            .buffer
            .map_or("#c9cdd3", |buffer| COLOURS[buffer % COLOURS.len()]);
        let y = |slot: u64| top + slot as f64 / self.slots * ARENA;
        let steps = format!("steps {} to {}", stay.from, stay.until - 1);
        let (above, below, how) = match stay.slots.count {
            0 => {
                let below = top + ARENA + HOMES;
                (below - 10.0, below, format!("{steps}, read in place"))
            }
            _ => {
                let how = if stay.moved {
                    "transferred"
                } else {
                    "without a transfer"
                };
                let (first, end) = (stay.slots.first, stay.slots.end());
                let slots = format!("slots {first} to {}", end - 1);
                (y(first), y(end), format!("{slots}, {steps}, {how}"))
            }
        };
        for (from, until, opacity) in [(stay.from, stay.used, 0.35), (stay.used, stay.until, 0.9)] {
            if from >= until {
                continue;
            }
            let (left, right) = (self.x(from), self.x(until));
            put(
                svg,
                format_args!(
                    "<rect x=\"{left:.1}\" y=\"{above:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\" fill-opacity=\"{opacity}\" \
                    stroke=\"#fff\" stroke-width=\"0.4\"><title>{}: {how}</title></rect>\n",
                    (right - left).max(0.5),
                    below - above,
                    markup(name)
                ),
            );
        }
        let width = self.x(stay.until) - self.x(stay.from);
        if below - above >= 12.0 && width >= 7.0 * name.chars().count() as f64 {
            put(
                svg,
                format_args!(
                    "<text x=\"{:.1}\" y=\"{:.1}\" fill=\"#16181d\">{}</text>\n",
                    self.x(stay.from) + 3.0,
                    f64::midpoint(above, below) + 4.0,
                    markup(name)
                ),
            );
        }
    }
}
