//! Line charts as SVG: a few lines over the same steps, with a legend.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 64.0;
const TOP: f64 = 40.0;
const PLOT_WIDTH: f64 = 520.0;
const PLOT_HEIGHT: f64 = 260.0;

/// Colours that are told apart in print and by most eyes.
const COLOURS: [&str; 6] = [
    "#1f6feb", "#bf3989", "#1a7f37", "#9a6700", "#8250df", "#57606a",
];

/// One line of a chart.
pub(crate) struct Line {
    /// Its name, for the legend.
    pub(crate) name: String,
    /// Its values, one for each step.
    pub(crate) values: Vec<f64>,
}

/// Draws lines over steps, each of which has a name.
pub(crate) fn draw(
    title: &str,
    unit: &str,
    step: &str,
    names: &[String],
    lines: &[Line],
) -> String {
    let steps = names.len();
    let highest = lines.iter().flat_map(|line| &line.values).copied();
    let highest = highest.fold(1.0_f64, f64::max) * 1.05;
    let x = |index: usize| LEFT + PLOT_WIDTH * index as f64 / steps.saturating_sub(1).max(1) as f64;
    let y = |value: f64| TOP + PLOT_HEIGHT * (1.0 - value / highest);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\" role=\"img\">\n<title>{title}</title>\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         fill=\"#ffffff\"/>\n<text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{title}</text>\n"
    );
    for part in 0..=4 {
        let value = highest * f64::from(part) / 4.0;
        let (at, right) = (y(value), LEFT + PLOT_WIDTH);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#d0d7de\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    for (index, name) in names.iter().enumerate() {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>",
            x(index),
            TOP + PLOT_HEIGHT + 18.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{step}</text>\
         <text x=\"{:.1}\" y=\"{:.1}\">{unit}</text>",
        LEFT + PLOT_WIDTH / 2.0,
        HEIGHT - 14.0,
        LEFT - 56.0,
        TOP - 6.0
    );
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points = line.values.iter().enumerate();
        let points = points.map(|(index, value)| format!("{:.1},{:.1}", x(index), y(*value)));
        let points: Vec<String> = points.collect();
        let (legend, at) = (LEFT + PLOT_WIDTH + 16.0, TOP + 18.0 * number as f64);
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <line x1=\"{legend}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            points.join(" "),
            legend + 18.0,
            legend + 24.0,
            at + 4.0,
            line.name
        );
    }
    svg.push_str("</svg>\n");
    svg
}
