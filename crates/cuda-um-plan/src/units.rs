//! Sizes and times in readable form.

/// `"512 B"`, `"3.00 MiB"`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (bytes as f64, 0);
    // 1023.96 would print as 1024.0 of the smaller unit.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{} {}", three_digits(value), UNITS[unit]),
    }
}

/// `"640 us"`, `"1.92 ms"`, `"3.10 s"`.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds * 1e6 {
        0.0 => "0 us".to_owned(),
        us @ ..999.5 => format!("{} us", three_digits(us)),
        us @ ..999_500.0 => format!("{} ms", three_digits(us / 1e3)),
        us => format!("{} s", three_digits(us / 1e6)),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
