//! The curve as a drawing.

use super::{Curve, Point};
use crate::drawing::{begin, key, put};
use crate::units;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
const PLAN: &str = "#2566b0";
const BOUND: &str = "#8a909b";

impl Curve {
    /// The time of a pass over the budget, beside the lower bound, as an SVG file with its own light background and a title for
    /// screen readers.
    pub fn svg(&self) -> String {
        let mut points = self.points.clone();
        points.sort_by_key(|point| point.budget.bytes);
        let title = format!(
            "time of a pass over the budget; all buffers have {}",
            units::bytes(self.buffer_bytes)
        );
        let mut svg = begin(&title, WIDTH, HEIGHT);
        let scale = Scale::of(&points);
        scale.axes(&mut svg);
        line(&mut svg, &scale, &points, BOUND, |point| {
            point.bound_seconds
        });
        line(&mut svg, &scale, &points, PLAN, |point| point.seconds);
        for (x, colour, text) in [(LEFT, PLAN, "plan"), (LEFT + 70.0, BOUND, "lower bound")] {
            key(&mut svg, (x, HEIGHT), colour, text);
        }
        svg += "</svg>\n";
        svg
    }
}

/// The largest values of both axes, which begin at zero.
struct Scale {
    bytes: f64,
    seconds: f64,
}

impl Scale {
    fn of(points: &[Point]) -> Self {
        let most = |of: fn(&Point) -> f64| points.iter().map(of).fold(f64::MIN_POSITIVE, f64::max);
        Self {
            bytes: most(|point| point.budget.bytes as f64),
            seconds: most(|point| point.seconds),
        }
    }

    fn x(&self, bytes: f64) -> f64 {
        LEFT + bytes / self.bytes * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, seconds: f64) -> f64 {
        HEIGHT - BOTTOM - seconds / self.seconds * (HEIGHT - TOP - BOTTOM)
    }

    fn axes(&self, svg: &mut String) {
        for quarter in 0..=4 {
            let part = f64::from(quarter) / 4.0;
            let (bytes, seconds) = (self.bytes * part, self.seconds * part);
            let (x, y) = (self.x(bytes), self.y(seconds));
            put(
                svg,
                format_args!(
                    "<path d=\"M{x:.1} {TOP}V{:.0}M{LEFT} {y:.1}H{:.0}\" stroke=\"#e3e5e9\"/>\
                    <text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"middle\" fill=\"#5d6470\">{}</text>\
                    <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#5d6470\">{}</text>\n",
                    HEIGHT - BOTTOM,
                    WIDTH - RIGHT,
                    HEIGHT - BOTTOM + 16.0,
                    units::bytes(bytes as u64),
                    LEFT - 6.0,
                    y + 4.0,
                    units::seconds(seconds)
                ),
            );
        }
    }
}

fn line(svg: &mut String, scale: &Scale, points: &[Point], colour: &str, of: fn(&Point) -> f64) {
    *svg += "<polyline fill=\"none\" stroke-width=\"2\" stroke=\"";
    *svg += colour;
    *svg += "\" points=\"";
    for point in points {
        let (x, y) = (scale.x(point.budget.bytes as f64), scale.y(of(point)));
        put(svg, format_args!("{x:.1},{y:.1} "));
    }
    *svg += "\"/>\n";
}
