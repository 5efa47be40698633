//! Simulated times against measured ones, every row and size.

use super::rows::ROWS;

/// One H200: rows, sizes and medians in microseconds.
const MEASURED: &str = include_str!("h200_times.csv");
const SIZES: [(&str, usize); 5] = [
    ("4 KiB", 4 << 10),
    ("64 KiB", 64 << 10),
    ("1 MiB", 1 << 20),
    ("16 MiB", 16 << 20),
    ("256 MiB", 256 << 20),
];
/// Simulated times may be off by this share of the measured ones.
const TOLERANCE: f64 = 0.25;

/// Lowest and highest figure of a cell such as `8.9` or `897-1113`.
fn range(cell: &str) -> (f64, f64) {
    let (low, high) = cell.split_once('-').unwrap_or((cell, cell));
    (low.parse().unwrap(), high.parse().unwrap())
}

#[test]
fn every_time_is_within_a_quarter_of_what_was_measured() {
    let lines: Vec<_> = MEASURED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    assert_eq!(lines.len(), ROWS.len(), "one line of the table for a row");
    let (mut wrong, mut cells_held) = (Vec::new(), 0);
    println!("simulated / measured, microseconds\n");
    println!(
        "| work |{}",
        SIZES.map(|(size, _)| format!(" {size} |")).concat()
    );
    println!("|---|{}", SIZES.map(|_| "---|").concat());
    for (line, (name, simulate)) in lines.into_iter().zip(ROWS) {
        let mut cells = line.split(',');
        assert_eq!(cells.next(), Some(*name), "rows in one order");
        let mut shown = format!("| {name} |");
        for (size, len) in SIZES {
            let cell = cells.next().unwrap();
            if cell.is_empty() {
                shown += " |";
                continue;
            }
            let simulated = simulate(len);
            let (low, high) = range(cell);
            let digits = if simulated < 20.0 { 1 } else { 0 };
            shown += &format!(" {simulated:.digits$} / {} |", cell.replace('-', "–"));
            cells_held += 1;
            if !(low * (1.0 - TOLERANCE)..=high * (1.0 + TOLERANCE)).contains(&simulated) {
                let off = simulated / simulated.clamp(low, high) * 100.0 - 100.0;
                wrong.push(format!(
                    "{name}, {size}: {simulated:.1} us simulated, {cell} us measured ({off:+.0} %)"
                ));
            }
        }
        assert_eq!(cells.next(), None, "{line}");
        println!("{shown}");
    }
    assert_eq!(cells_held, 103, "no figure of the table is left out");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
