//! The overview plot: our times divided by those of the best raw CUDA contender, by size.

use crate::measure::size_text;
use crate::measurements::OVERVIEW;
use crate::report::{CaseReport, Kind, MeasurementReport, Report};
use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::combinators::LogCoord;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (1200, 860);
const HEAD: u32 = 84;
const COLORS: [RGBColor; 3] = [
    RGBColor(0, 110, 180),
    RGBColor(214, 94, 0),
    RGBColor(0, 140, 100),
];

/// One point of a line: bytes, and our median over the best raw median.
type Point = (f64, f64);

struct Panel<'a> {
    title: &'a str,
    lines: Vec<(&'a str, Vec<Point>)>,
    /// The plain cudaMemcpy of ordinary memory, for comparison: the first raw contender of these measurements.
    plain: Option<(&'a str, Vec<Point>)>,
    sizes: Vec<f64>,
}

/// The plot as text; `None` if none of its measurements has more than one size.
pub fn svg(report: &Report) -> Result<Option<String>> {
    let find = |(name, title)| {
        let measurement = report.measurements.iter().find(|one| one.name == name)?;
        panel(measurement, title)
    };
    let panels: Vec<Panel<'_>> = OVERVIEW.into_iter().filter_map(find).collect();
    if panels.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(wrong)?;
        let (head, body) = area.split_vertically(HEAD);
        heading(&head, report)?;
        for (cell, panel) in body.split_evenly((2, 2)).iter().zip(&panels) {
            draw(cell, panel)?;
        }
        area.present().map_err(wrong)?;
    }
    Ok(Some(text))
}

fn panel<'a>(measurement: &'a MeasurementReport, title: &'a str) -> Option<Panel<'a>> {
    let mut panel = Panel {
        title,
        lines: Vec::new(),
        plain: None,
        sizes: Vec::new(),
    };
    for case in &measurement.cases {
        let Some(best) = best_raw(case) else { continue };
        panel.sizes.push(case.bytes as f64);
        if let Some(plain) = case.contenders.iter().find(|c| c.kind == Kind::Raw)
            && let Some(seconds) = plain.seconds()
        {
            let (_, points) = panel.plain.get_or_insert((&plain.name, Vec::new()));
            points.push((case.bytes as f64, seconds.median.max(1e-9) / best));
        }
        for ours in case.contenders.iter().filter(|c| c.kind == Kind::Ours) {
            let Some(seconds) = ours.seconds() else {
                continue;
            };
            let point = (case.bytes as f64, seconds.median.max(1e-9) / best);
            match panel.lines.iter_mut().find(|line| line.0 == ours.name) {
                Some(line) => line.1.push(point),
                None => panel.lines.push((&ours.name, vec![point])),
            }
        }
    }
    (panel.sizes.len() > 1 && !panel.lines.is_empty()).then_some(panel)
}

/// The smallest median of raw CUDA.
fn best_raw(case: &CaseReport) -> Option<f64> {
    let raw = case.contenders.iter().filter(|c| c.kind == Kind::Raw);
    raw.filter_map(|contender| Some(contender.seconds()?.median.max(1e-9)))
        .min_by(f64::total_cmp)
}

fn heading(area: &DrawingArea<SVGBackend<'_>, Shift>, report: &Report) -> Result<()> {
    let place = match report.predicted {
        true => format!(
            "{}: PREDICTIONS of a cost model, not measurements",
            report.gpu
        ),
        false => format!("{}, CUDA {}", report.gpu, report.cuda),
    };
    let lines = [
        (
            "cuda-um over the best hand-written raw CUDA".to_owned(),
            26,
            14,
        ),
        (
            format!(
                "{place}. Median time over that of the fastest raw CUDA contender of the size; in copies that may be one with pinned memory."
            ),
            15,
            48,
        ),
    ];
    for (words, size, top) in lines {
        let style = ("sans-serif", size).into_font().color(&BLACK);
        area.draw(&Text::new(words, (24, top), style))
            .map_err(wrong)?;
    }
    Ok(())
}

/// A plot with logarithmic axes.
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<LogCoord<f64>, LogCoord<f64>>>;

fn draw(area: &DrawingArea<SVGBackend<'_>, Shift>, panel: &Panel<'_>) -> Result<()> {
    let all = || panel.lines.iter().chain(&panel.plain);
    let ratios = || all().flat_map(|line| &line.1).map(|p| p.1);
    // 1 is always in the plot, with space for the labels of the lines above it.
    let low = ratios().fold(0.8, f64::min) / 1.25;
    let high = ratios().fold(1.25, f64::max) * 1.25;
    let top = high * (high / low).powf(0.14 * all().count() as f64);
    let (first, last) = (panel.sizes[0], panel.sizes[panel.sizes.len() - 1]);
    let mut chart = ChartBuilder::on(area)
        .caption(
            panel.title,
            ("sans-serif", 18).into_font().style(FontStyle::Bold),
        )
        .margin(14)
        .margin_right(34) // half of a label is right of the axis
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(
            (first..last).log_scale().base(4.0),
            (low..top).log_scale().base(2.0),
        )
        .map_err(wrong)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .label_style(("sans-serif", 13))
        .x_desc("size of the data")
        .y_desc("time / best raw CUDA")
        .x_labels(10)
        .y_labels(8)
        .x_label_formatter(&|bytes| size_text(bytes.round() as usize))
        .y_label_formatter(&|ratio| ratio_text(*ratio))
        .draw()
        .map_err(wrong)?;
    reference(&mut chart, (first, last), low)?;
    lines(&mut chart, panel)
}

/// The line at 1, and the area below it.
fn reference(chart: &mut Chart<'_, '_>, (first, last): (f64, f64), low: f64) -> Result<()> {
    let below = Rectangle::new(
        [(first, 1.0), (last, low)],
        RGBColor(0, 150, 70).mix(0.08).filled(),
    );
    chart.draw_series([below]).map_err(wrong)?;
    let one = [(first, 1.0), (last, 1.0)];
    chart
        .draw_series(LineSeries::new(one, BLACK.stroke_width(2)))
        .map_err(wrong)?;
    let note = ("sans-serif", 13)
        .into_font()
        .color(&RGBColor(0, 100, 50))
        .pos(Pos::new(HPos::Left, VPos::Bottom));
    let words = Text::new(
        "below the line cuda-um is faster",
        (first * 1.15, low * 1.04),
        note,
    );
    chart.draw_series([words]).map_err(wrong)?;
    Ok(())
}

/// The lines of a panel, and their key.
fn lines<'a, 'b: 'a>(chart: &mut Chart<'a, 'b>, panel: &Panel<'_>) -> Result<()> {
    if let Some((name, points)) = &panel.plain {
        let gray = RGBColor(130, 130, 130);
        let line = DashedLineSeries::new(points.clone(), 6, 4, gray.stroke_width(2));
        chart
            .draw_series(line)
            .map_err(wrong)?
            .label(format!("raw: {name}"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], gray.stroke_width(2)));
    }
    for (number, (name, points)) in panel.lines.iter().enumerate() {
        let color = COLORS[number % COLORS.len()];
        let line = LineSeries::new(points.clone(), color.stroke_width(3)).point_size(4);
        chart
            .draw_series(line)
            .map_err(wrong)?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 14))
        .background_style(WHITE.mix(0.9))
        .border_style(BLACK.mix(0.2))
        .draw()
        .map_err(wrong)
}

/// `× 2`, `× 0.5`
fn ratio_text(ratio: f64) -> String {
    match ratio {
        r if r >= 10.0 => format!("× {r:.0}"),
        r => format!("× {}", (r * 100.0).round() / 100.0),
    }
}

fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("overview: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_in_words() {
        assert_eq!(
            [0.25, 0.985, 1.0, 2.5, 16.0].map(ratio_text),
            ["× 0.25", "× 0.99", "× 1", "× 2.5", "× 16"]
        );
    }
}
