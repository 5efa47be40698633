//! One SVG for each measurement: time over size, or bars if there is one case.

use crate::report::{CaseReport, MeasurementReport, time_text};
use anyhow::{Result, anyhow};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

const SIZE: (u32, u32) = (960, 540);

/// The plot as text; `None` if nothing was measured.
pub fn svg(measurement: &MeasurementReport, subtitle: &str) -> Result<Option<String>> {
    let cases: Vec<&CaseReport> = measurement
        .cases
        .iter()
        .filter(|case| case.contenders.iter().any(|c| c.seconds().is_some()))
        .collect();
    if cases.is_empty() {
        return Ok(None);
    }
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).map_err(wrong)?;
        let caption = format!("{}: {subtitle}", measurement.name);
        if distinct_sizes(&cases) {
            lines(&area, &caption, measurement, &cases)?;
        } else {
            bars(&area, &caption, measurement, &cases)?;
        }
        area.present().map_err(wrong)?;
    }
    Ok(Some(text))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// True if there is more than one size, and each size occurs once.
fn distinct_sizes(cases: &[&CaseReport]) -> bool {
    cases.len() > 1 && cases.windows(2).all(|pair| pair[0].bytes < pair[1].bytes)
}

fn lines(
    area: &Area<'_>,
    caption: &str,
    measurement: &MeasurementReport,
    cases: &[&CaseReport],
) -> Result<()> {
    let (low, high) = medians(cases);
    let sizes = cases[0].bytes as f64..cases[cases.len() - 1].bytes as f64;
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(76)
        .build_cartesian_2d(
            sizes.log_scale().base(4.0),
            (low * 0.6..high * 2.0).log_scale(),
        )
        .map_err(wrong)?;
    chart
        .configure_mesh()
        .x_desc("bytes")
        .y_desc("median time, quartiles as bars")
        .x_label_formatter(&|bytes| crate::measure::size_text(*bytes as usize))
        .y_label_formatter(&|seconds| time_text(*seconds))
        .draw()
        .map_err(wrong)?;
    for (number, name) in measurement.names().into_iter().enumerate() {
        let points: Vec<_> = cases
            .iter()
            .filter_map(|case| {
                let contender = case.contenders.iter().find(|c| c.name == name)?;
                Some((case.bytes as f64, contender.seconds()?))
            })
            .collect();
        if points.is_empty() {
            continue;
        }
        let color = Palette99::pick(number).to_rgba();
        let line = points.iter().map(|(bytes, s)| (*bytes, s.median.max(1e-9)));
        let spread = points.iter().map(|(bytes, s)| {
            let ends = [s.lower_quartile, s.upper_quartile].map(|q| (*bytes, q.max(low * 0.6)));
            PathElement::new(ends.to_vec(), color)
        });
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)).point_size(3))
            .map_err(wrong)?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        chart.draw_series(spread).map_err(wrong)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()
        .map_err(wrong)
}

fn bars(
    area: &Area<'_>,
    caption: &str,
    measurement: &MeasurementReport,
    cases: &[&CaseReport],
) -> Result<()> {
    let names = measurement.names();
    let rows: Vec<(String, f64, usize)> = cases
        .iter()
        .flat_map(|case| case.contenders.iter().map(move |c| (case, c)))
        .filter_map(|(case, contender)| {
            let color = names.iter().position(|name| *name == contender.name)?;
            let label = format!("{}: {}", case.label, contender.name);
            Some((label, contender.seconds()?.median, color))
        })
        .collect();
    let longest = rows.iter().map(|row| row.1).fold(1e-12, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .build_cartesian_2d(0.0..longest * 1.05, 0.0..rows.len() as f64)
        .map_err(wrong)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("median time")
        .x_label_formatter(&|seconds| time_text(*seconds))
        .draw()
        .map_err(wrong)?;
    for (number, (label, median, color)) in rows.iter().enumerate() {
        let top = (rows.len() - number) as f64;
        bar(&mut chart, label, *median, top, *color)?;
    }
    Ok(())
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn bar(chart: &mut Chart<'_, '_>, label: &str, median: f64, top: f64, color: usize) -> Result<()> {
    let style = Palette99::pick(color).mix(0.6).filled();
    let corners = [(0.0, top - 0.15), (median, top - 0.85)];
    chart
        .draw_series([Rectangle::new(corners, style)])
        .map_err(wrong)?;
    let words = format!("{label}  {}", time_text(median));
    chart
        .draw_series([Text::new(words, (0.0, top - 0.35), ("sans-serif", 14))])
        .map_err(wrong)?;
    Ok(())
}

fn medians(cases: &[&CaseReport]) -> (f64, f64) {
    let all = cases.iter().flat_map(|case| &case.contenders);
    all.filter_map(|contender| Some(contender.seconds()?.median))
        .map(|median| median.max(1e-9))
        .fold((f64::MAX, 0.0), |(low, high), m| (low.min(m), high.max(m)))
}

fn wrong(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("plot: {error}")
}
