//! The drawing of the arena over the steps of a pass.

use crate::shapes::{forward, there_and_back, training, with_compute};
use cuda_um_plan::{
    Link, Plan, PlanBudget, Program, Run, RunChange, SLOT_BYTES, Slots, TransferKind,
};
use roxmltree::{Document, Node};

const WIDTH: f64 = 1000.0 - 70.0 - 16.0;
const STALL: &str = "#b3446c";

fn solved(program: &Program, slots: u64) -> Plan {
    let bytes = slots * SLOT_BYTES;
    program.solve(PlanBudget { bytes }, Link::pcie5()).unwrap()
}

fn title<'a>(node: &Node<'a, '_>) -> Option<&'a str> {
    node.children()
        .find(|one| one.has_tag_name("title"))?
        .text()
}

/// The titles of the places, and the extent of each: left, right, top, bottom.
fn places(svg: &str) -> Vec<(String, [f64; 4])> {
    let document = Document::parse(svg).unwrap();
    let rectangles = document.descendants();
    let rectangles = rectangles.filter(|node| node.has_tag_name("rect"));
    let places = rectangles.filter_map(|node| {
        let title = title(&node).filter(|title| title.contains("slots"))?;
        let number = |name: &str| node.attribute(name).unwrap().parse::<f64>().unwrap();
        let (x, y) = (number("x"), number("y"));
        let extent = [x, x + number("width"), y, y + number("height")];
        Some((title.to_owned(), extent))
    });
    places.collect()
}

/// No two buffers are at the same place at the same time.
#[test]
fn places_of_a_plan_do_not_overlap() {
    for program in [training(12), there_and_back(12)] {
        let program = with_compute(&program, 0.02);
        let plan = solved(&program, 150);
        let places = places(&plan.svg(&program));
        assert!(places.len() > 12, "{}", places.len());
        for (index, (one, extent)) in places.iter().enumerate() {
            for (other, with) in &places[..index] {
                let both = |low: usize, high: usize| {
                    extent[high].min(with[high]) - extent[low].max(with[low])
                };
                assert!(both(0, 1) < 0.3 || both(2, 3) < 0.3, "{one} and {other}");
            }
        }
        for placed in plan.resident() {
            let name = &program.buffers[placed.buffer].name;
            let name = format!("{name}: slots {} to", placed.slots.first);
            assert!(
                places.iter().any(|(title, _)| title.starts_with(&name)),
                "{name}"
            );
        }
    }
}

#[test]
fn a_run_is_drawn_below_its_plan() {
    let mut program = with_compute(&forward(4), 1e-3);
    program.buffers[1].name = "<weights & \"more\"\u{1}>".to_owned();
    let plan = solved(&program, 48);
    let change = |step, kind, buffer, first| RunChange {
        step,
        kind,
        buffer,
        slots: Slots { first, count: 16 },
    };
    let run = Run {
        changes: vec![
            change(1, TransferKind::Drop, Some(1), 0),
            change(1, TransferKind::In, Some(2), 0),
            change(2, TransferKind::Out, Some(2), 0),
            change(3, TransferKind::Claim, None, 32),
            change(9, TransferKind::Drop, Some(3), 16),
        ],
        stall_seconds: vec![0.0, 1e-3, 0.0, 2e-3],
        seconds: 4e-3,
    };
    let svg = plan.svg_beside(&program, &run);
    let document = Document::parse(&svg).unwrap();
    let texts: Vec<_> = document
        .descendants()
        .filter_map(|node| node.text())
        .collect();
    assert!(
        texts.contains(&"run: 4.00 ms, of which steps wait 3.00 ms"),
        "{texts:?}"
    );
    let stalls = document
        .descendants()
        .filter(|node| node.attribute("fill") == Some(STALL) && title(node).is_some());
    let stalls: Vec<_> = stalls.filter_map(|node| title(&node)).collect();
    assert!(
        stalls.ends_with(&["step 3 waits 2.00 ms", "step 1 waits 1.00 ms"]),
        "{stalls:?}"
    );
    let places = places(&svg);
    let below = places.iter().filter(|(_, extent)| extent[2] > 360.0);
    let mut below: Vec<_> = below
        .map(|(title, [left, right, ..])| (&**title, ((right - left) / WIDTH * 4.0).round()))
        .collect();
    below.retain(|(title, _)| !title.starts_with("weights 0"));
    below.sort_unstable_by(|one, other| one.0.cmp(other.0));
    assert_eq!(
        below,
        [
            (
                "<weights & \"more\"\u{fffd}>: slots 0 to 15, steps 0 to 0, without a transfer",
                1.0
            ),
            (
                "another buffer: slots 32 to 47, steps 3 to 3, without a transfer",
                1.0
            ),
            ("weights 2: slots 0 to 15, steps 1 to 3, transferred", 3.0),
            (
                "weights 3: slots 16 to 31, steps 0 to 3, without a transfer",
                4.0
            ),
        ]
    );
}

/// A buffer that a step reads in its home is below the slots, in the plan and in the run.
#[test]
fn what_is_read_in_place_is_below_the_slots() {
    let mut program = with_compute(&forward(4), 1e-3);
    program.steps[0].compute_seconds = 0.1;
    program.buffers[0].in_place = true;
    let plan = solved(&program, 48);
    let change = |step, kind, count| RunChange {
        step,
        kind,
        buffer: Some(0),
        slots: Slots { first: 0, count },
    };
    let run = Run {
        changes: vec![
            change(0, TransferKind::ReadInPlace, 0),
            change(1, TransferKind::In, 16),
            change(2, TransferKind::ReadInPlace, 0),
        ],
        ..Run::default()
    };
    let svg = plan.svg_beside(&program, &run);
    let document = Document::parse(&svg).unwrap();
    let titles = document.descendants().filter_map(|node| {
        let (title, top) = (title(&node)?, node.attribute("y")?);
        let mine = title.starts_with("weights 0:");
        mine.then(|| (title, top.parse::<f64>().unwrap()))
    });
    let mut titles: Vec<_> = titles.collect();
    titles.sort_unstable_by(|one, other| one.1.total_cmp(&other.1));
    let words: Vec<_> = titles.iter().map(|(title, _)| *title).collect();
    assert_eq!(
        words,
        [
            "weights 0: steps 0 to 0, read in place",
            "weights 0: slots 0 to 15, steps 1 to 3, transferred",
            "weights 0: steps 0 to 0, read in place",
            "weights 0: steps 2 to 2, read in place",
        ]
    );
    assert!(titles[0].1 > 326.0, "{titles:?}");
    assert_eq!(titles[2].1, titles[3].1);
}

#[test]
fn a_large_drawing_says_what_it_leaves_out() {
    let program = with_compute(&forward(3000), 1.0);
    let svg = solved(&program, 1000).svg(&program);
    assert!(svg.contains("; 2000 of "), "{}", svg.len());
    assert!(svg.len() < 2 << 20, "{}", svg.len());
    let empty = Program::default();
    let svg = solved(&empty, 0).svg(&empty);
    Document::parse(&svg).unwrap();
}
