//! The curve of a start as a picture.

use std::fmt::Write as _;

use super::watched::Samples;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 400.0;
/// Room for the axes.
const LEFT: f64 = 60.0;
const BELOW: f64 = 40.0;

/// An SVG with the flows in force and the hosts in sync over time, each as a share of the last value.
pub(super) fn svg(samples: &Samples) -> String {
    let samples = &samples.samples;
    let end = samples.last().map_or(1.0, |last| last.at.as_secs_f64()).max(0.001);
    let (x, y) = (
        |s: f64| LEFT + s / end * (WIDTH - LEFT - 20.0),
        |share: f64| (HEIGHT - BELOW) - share * (HEIGHT - BELOW - 20.0),
    );
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
    );
    // Writing to a text does not fail.
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{0:.1}\" x2=\"{1:.1}\" y2=\"{0:.1}\" stroke=\"#ddd\"/><text x=\"8\" y=\"{2:.1}\">{3} %</text>\
             <text x=\"{4:.1}\" y=\"{5:.1}\">{6:.0} s</text>",
            y(share),
            WIDTH - 20.0,
            y(share) + 4.0,
            quarter * 25,
            x(end * share) - 12.0,
            HEIGHT - 16.0,
            end * share
        );
    }
    let flows = samples.last().map_or(0, |last| last.flows).max(1) as f64;
    let hosts = samples.iter().map(|sample| sample.synced).max().unwrap_or(0).max(1) as f64;
    let ports = samples.last().map_or(0, |last| last.reported).max(1) as f64;
    let lines: [(&str, &str, Vec<f64>); 3] = [
        ("flows in force", "#0a6", samples.iter().map(|sample| sample.flows as f64 / flows).collect()),
        ("hosts in sync", "#06c", samples.iter().map(|sample| sample.synced as f64 / hosts).collect()),
        ("ports reported", "#999", samples.iter().map(|sample| sample.reported as f64 / ports).collect()),
    ];
    for (number, (name, colour, shares)) in lines.iter().enumerate() {
        let at = samples.iter().zip(shares);
        let points: Vec<String> =
            at.map(|(sample, share)| format!("{:.1},{:.1}", x(sample.at.as_secs_f64()), y(*share))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" fill=\"{colour}\">{name}</text>",
            points.join(" "),
            LEFT + 12.0,
            34.0 + 16.0 * number as f64
        );
    }
    svg.push_str("</svg>\n");
    svg
}
