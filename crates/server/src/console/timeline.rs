//! The timeline of a run as a picture: one row for each step, with what happened at its time.
//!
//! Stretches in which nothing was under way and that are long beside the rest are cut, with their
//! length. Geometry is in attributes and colours are in the stylesheet, so that the page needs no style
//! of its own. The journal below has the same content as a table.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::ops::Range;

use jiff::Timestamp;
use semel_api::types::JournalLine;
use serde_json::Value;

use super::markup::{Markup, assembled, escape, visible};
use super::words;

/// The most rows of a picture.
const ROWS_MAX: usize = 200;

/// The most marks of a picture.
const MARKS_MAX: usize = 400;

/// The most characters of a row's name.
const NAME_CHARS_MAX: usize = 26;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 200.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 30.0;
const ROW: f64 = 28.0;

/// How wide a stretch is that was cut.
const CUT_WIDTH: f64 = 56.0;

/// The row of what concerns the run itself.
const RUN: &str = "run";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Intent,
    Good,
    Bad,
    Doubt,
    Opened,
    Closed,
    Note,
}

#[derive(Debug)]
struct Mark {
    at: Timestamp,
    seq: i32,
    kind: Kind,
    said: String,
}

#[derive(Debug)]
struct Row {
    name: String,
    marks: Vec<Mark>,
}

/// The picture of a journal, from a row on; nothing where it has no events to show.
///
/// A picture is bounded. Where it does not hold everything, rows with trouble come first, and it says
/// which rows it shows and where the others are.
pub(super) fn draw(journal: &[JournalLine], from: usize) -> Markup {
    let mut rows = rows(journal);
    let starts = starts(&rows);
    if starts.len() > 1 {
        rows.sort_by_key(|row| !row.has_trouble());
    }
    let starts = match starts.len() {
        0 | 1 => starts,
        _ => self::starts(&rows),
    };
    let window = starts.iter().rposition(|start| *start <= from).unwrap_or(0);
    let Some(start) = starts.get(window).copied() else {
        return Markup::default();
    };
    let end = starts.get(window + 1).copied().unwrap_or(rows.len());
    let mut drawn = picture(&rows[start..end]);
    if starts.len() > 1 {
        let before = window.checked_sub(1).map(|before| starts[before]..start);
        let after = starts.get(window + 1).map(|start| {
            let end = starts.get(window + 2).copied().unwrap_or(rows.len());
            *start..end
        });
        drawn.push_str(&pages((start..end, rows.len()), before, after));
    }
    assembled(drawn)
}

/// Reads which rows are asked for: `200-400`, or nothing.
pub(super) fn first_row(asked: &str) -> usize {
    let first = asked.split('-').next().unwrap_or_default();
    first
        .parse::<usize>()
        .map_or(0, |first| first.saturating_sub(1))
}

/// Which rows are shown, and links to the others.
fn pages(
    (shown, count): (Range<usize>, usize),
    before: Option<Range<usize>>,
    after: Option<Range<usize>>,
) -> String {
    let spelled = |rows: &Range<usize>| format!("{}-{}", rows.start + 1, rows.end);
    let link = |rows: Option<Range<usize>>, word: &str| match rows {
        Some(rows) => {
            let rows = spelled(&rows);
            format!(" <a href=\"?rows={rows}#timeline\">{word}: {rows}</a>")
        }
        None => String::new(),
    };
    format!(
        "<p class=\"help\">Rows {} of {count}, those with trouble first. The journal below has everything.{}{}</p>",
        spelled(&shown),
        link(before, "Rows before"),
        link(after, "Further rows")
    )
}

/// The first row of each picture, so that none has too many rows or marks.
fn starts(rows: &[Row]) -> Vec<usize> {
    let mut starts = Vec::new();
    let mut marks = 0;
    for (index, row) in rows.iter().enumerate() {
        let begun = starts.last().map_or(0, |start| index - start);
        if starts.is_empty() || begun == ROWS_MAX || marks + row.marks.len() > MARKS_MAX {
            starts.push(index);
            marks = 0;
        }
        marks += row.marks.len();
    }
    starts
}

fn picture(rows: &[Row]) -> String {
    let scale = Scale::of(rows);
    let height = TOP + ROW * rows.len() as f64 + 8.0;
    let mut svg = format!(
        "<div class=\"timeline\"><svg role=\"group\" viewBox=\"0 0 {WIDTH} {height}\" aria-labelledby=\"timeline-title\" aria-describedby=\"journal\">\
         <title id=\"timeline-title\">Timeline of the run</title>"
    );
    scale.draw(&mut svg, height);
    for (index, row) in rows.iter().enumerate() {
        row.draw(&mut svg, &scale, TOP + ROW * (index as f64 + 0.5));
    }
    svg.push_str("</svg></div>");
    svg
}

fn rows(journal: &[JournalLine]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for line in journal {
        for event in &line.events {
            let step = event.event["step"].as_str().unwrap_or(RUN);
            let place = places.get(step).copied();
            // A row with more than a picture holds goes on in another one.
            let open = place.filter(|place| rows[*place].marks.len() < MARKS_MAX);
            let place = open.unwrap_or_else(|| {
                rows.push(Row {
                    name: step.to_owned(),
                    marks: Vec::new(),
                });
                places.insert(step.to_owned(), rows.len() - 1);
                rows.len() - 1
            });
            rows[place].marks.push(Mark {
                at: line.at,
                seq: line.seq,
                kind: kind(&event.event),
                said: event.summary.clone(),
            });
        }
    }
    rows
}

/// What an event looks like. One that this page does not know is a note.
fn kind(event: &Value) -> Kind {
    match event["event"].as_str().unwrap_or_default() {
        "ended" => match event["state"].as_str() {
            Some("succeeded") => Kind::Good,
            Some("failed") => Kind::Bad,
            Some(_) | None => Kind::Note,
        },
        "intended" => Kind::Intent,
        "done" | "computed" | "reused" => Kind::Good,
        "failed" | "read_failed" | "broken" | "undoing" => Kind::Bad,
        "doubted" | "stopped" => Kind::Doubt,
        "gate_waiting" => Kind::Opened,
        "admitted" => Kind::Closed,
        opened if opened.ends_with("_opened") => Kind::Opened,
        closed if closed.ends_with("_ended") => Kind::Closed,
        _ => Kind::Note,
    }
}

impl Row {
    fn has_trouble(&self) -> bool {
        let mut marks = self.marks.iter();
        marks.any(|mark| matches!(mark.kind, Kind::Bad | Kind::Doubt))
    }

    /// Whether an attempt was under way right after a time.
    fn is_busy_after(&self, at: Timestamp) -> bool {
        let last = self.marks.iter().rev().find(|mark| mark.at <= at);
        last.is_some_and(|mark| mark.kind == Kind::Intent)
    }

    fn draw(&self, svg: &mut String, scale: &Scale, y: f64) {
        let whole = escape(&visible(&self.name, false));
        let short: String = match self.name.chars().nth(NAME_CHARS_MAX).is_some() {
            true => self
                .name
                .chars()
                .take(NAME_CHARS_MAX - 1)
                .chain(['…'])
                .collect(),
            false => self.name.clone(),
        };
        let short = escape(&visible(&short, false));
        let baseline = y + 4.0;
        let end = WIDTH - RIGHT;
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y}\" x2=\"{end}\" y2=\"{y}\"/>\
             <text x=\"8\" y=\"{baseline}\">{short}<title>{whole}</title></text>"
        );
        self.draw_spans(svg, scale, y);
        for mark in &self.marks {
            mark.draw(svg, scale.place(mark.at), y);
        }
    }

    /// From each beginning to what follows it, or to the end.
    fn draw_spans(&self, svg: &mut String, scale: &Scale, y: f64) {
        for (index, mark) in self.marks.iter().enumerate() {
            let class = match mark.kind {
                Kind::Intent => "span",
                Kind::Opened => "rests",
                Kind::Good | Kind::Bad | Kind::Doubt | Kind::Closed | Kind::Note => continue,
            };
            let from = scale.place(mark.at);
            let to = match self.marks.get(index + 1) {
                Some(next) => scale.place(next.at),
                None => WIDTH - RIGHT,
            };
            let (width, top) = ((to - from).max(2.0), y - 7.0);
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" height=\"14\" rx=\"3\"/>"
            );
        }
    }
}

impl Mark {
    fn draw(&self, svg: &mut String, x: f64, y: f64) {
        let title = escape(&visible(&self.said, false));
        let _ = write!(
            svg,
            "<a href=\"#seq-{}\"><g><title>{title}</title>",
            self.seq
        );
        let _ = match self.kind {
            Kind::Intent => write!(
                svg,
                "<rect class=\"m-live\" x=\"{:.1}\" y=\"{}\" width=\"3\" height=\"14\"/>",
                x - 1.5,
                y - 7.0
            ),
            Kind::Good => write!(
                svg,
                "<circle class=\"m-good\" cx=\"{x:.1}\" cy=\"{y}\" r=\"5\"/>"
            ),
            Kind::Bad => write!(
                svg,
                "<rect class=\"m-bad\" x=\"{:.1}\" y=\"{}\" width=\"10\" height=\"10\"/>",
                x - 5.0,
                y - 5.0
            ),
            Kind::Doubt => write!(
                svg,
                "<path class=\"m-doubt\" d=\"M{x:.1} {}l6.5 6.5l-6.5 6.5l-6.5 -6.5z\"/>",
                y - 6.5
            ),
            Kind::Opened | Kind::Closed => write!(
                svg,
                "<rect class=\"m-rest\" x=\"{:.1}\" y=\"{}\" width=\"3\" height=\"14\"/>",
                x - 1.5,
                y - 7.0
            ),
            Kind::Note => write!(
                svg,
                "<circle class=\"m-quiet\" cx=\"{x:.1}\" cy=\"{y}\" r=\"3.5\"/>"
            ),
        };
        svg.push_str("</g></a>");
    }
}

/// Where times are on the picture.
struct Scale {
    /// Each time with its place.
    places: Vec<(Timestamp, f64)>,
    /// The stretches that were cut, by the place of their middle, with their length.
    cuts: Vec<(f64, String)>,
    length: String,
}

impl Scale {
    fn of(rows: &[Row]) -> Self {
        let marks = rows.iter().flat_map(|row| &row.marks);
        let times: BTreeSet<Timestamp> = marks.map(|mark| mark.at).collect();
        let times: Vec<Timestamp> = times.into_iter().collect();
        let micros =
            |from: &Timestamp, to: &Timestamp| (to.as_microsecond() - from.as_microsecond()) as f64;
        let span = match (times.first(), times.last()) {
            (Some(first), Some(last)) => micros(first, last),
            _ => 0.0,
        };
        let is_cut = |from: &Timestamp, to: &Timestamp| {
            let idle = !rows.iter().any(|row| row.is_busy_after(*from));
            idle && times.len() > 3 && micros(from, to) > span * 0.05
        };
        let pairs = || times.iter().zip(times.iter().skip(1));
        let cut_count = pairs().filter(|(from, to)| is_cut(from, to)).count();
        let shown: f64 = pairs()
            .filter(|(from, to)| !is_cut(from, to))
            .map(|(from, to)| micros(from, to))
            .sum();
        let plot = WIDTH - RIGHT - LEFT - 16.0;
        let cut_width = CUT_WIDTH.min(plot * 0.6 / (cut_count.max(1) as f64));
        let room = plot - cut_width * cut_count as f64;
        let mut x = LEFT + 8.0;
        let mut places: Vec<(Timestamp, f64)> =
            times.first().map(|at| (*at, x)).into_iter().collect();
        let mut cuts = Vec::new();
        for (from, to) in pairs() {
            let width = match is_cut(from, to) {
                true => {
                    cuts.push((x + cut_width / 2.0, words::between(*from, *to)));
                    cut_width
                }
                false if shown > 0.0 => room * micros(from, to) / shown,
                false => 0.0,
            };
            x += width;
            places.push((*to, x));
        }
        let length = match (times.first(), times.last()) {
            (Some(first), Some(last)) => words::between(*first, *last),
            _ => String::new(),
        };
        Self {
            places,
            cuts,
            length,
        }
    }

    fn place(&self, at: Timestamp) -> f64 {
        let found = self.places.binary_search_by_key(&at, |(time, _)| *time);
        found.map_or(LEFT, |index| self.places[index].1)
    }

    fn draw(&self, svg: &mut String, height: f64) {
        let (start, end) = (LEFT + 8.0, WIDTH - RIGHT);
        let _ = write!(
            svg,
            "<text class=\"axis\" x=\"{start}\" y=\"16\">0</text>\
             <text class=\"axis\" x=\"{end}\" y=\"16\" text-anchor=\"end\">{}</text>",
            self.length
        );
        for (x, length) in &self.cuts {
            let bottom = height - 6.0;
            let _ = write!(
                svg,
                "<line class=\"gap\" x1=\"{x:.1}\" y1=\"22\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
                 <text class=\"axis\" x=\"{x:.1}\" y=\"16\" text-anchor=\"middle\">{length}</text>"
            );
        }
    }
}

#[cfg(test)]
mod tests;
