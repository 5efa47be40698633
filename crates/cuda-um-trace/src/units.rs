//! Sizes and times in readable form. The data keep the exact values.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

/// Limit on the characters of a name that outputs repeat: with a name of 64 KiB in each line, outputs would grow out of
/// proportion to the trace.
const LONGEST_NAME: usize = 200;

/// A name, shortened for outputs that repeat it.
pub(crate) fn short(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(LONGEST_NAME) {
        None => name.into(),
        Some((end, _)) => format!("{}…", &name[..end]).into(),
    }
}

/// `"0 B"`, `"512 B"`, `"3.00 MiB"`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64 / 1024.0;
    if value < 1.0 {
        return format!("{bytes} B");
    }
    let mut unit = 0;
    // 1023.96 would print as 1024.0 of the smaller unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// `"0 us"`, `"6.40 us"`, `"640 us"`, `"1.92 ms"`, `"3.10 s"`.
pub(crate) fn time(time: Duration) -> String {
    let us = time.as_nanos() as f64 / 1e3;
    match us {
        0.0 => "0 us".to_owned(),
        ..999.5 => format!("{} us", three_digits(us)),
        ..999_500.0 => format!("{} ms", three_digits(us / 1e3)),
        _ => format!("{} s", three_digits(us / 1e6)),
    }
}

/// `"1 fault"`, `"412 faults"`.
pub(crate) fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The numbered parts of a given size that a range of bytes touches, and the number of bytes in each.
pub(crate) fn parts(bytes: Range<u64>, size: u64) -> impl Iterator<Item = (u64, u64)> {
    let touched = bytes.start / size..bytes.end.div_ceil(size);
    touched.map(move |part| {
        let end = bytes.end.min((part + 1).saturating_mul(size));
        (part, end - bytes.start.max(part * size))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_are_enough() {
        let sizes = [0, 1023, 1024, 3 << 20, (1 << 20) - 1, 10 << 30, u64::MAX];
        assert_eq!(
            sizes.map(bytes),
            [
                "0 B", "1023 B", "1.00 KiB", "3.00 MiB", "1.00 MiB", "10.0 GiB", "16.0 EiB"
            ]
        );
        let times = [0, 6_400, 640_000, 999_600, 1_920_000, 3_100_000_000];
        assert_eq!(
            times.map(|ns| time(Duration::from_nanos(ns))),
            ["0 us", "6.40 us", "640 us", "1.00 ms", "1.92 ms", "3.10 s"]
        );
    }
}
