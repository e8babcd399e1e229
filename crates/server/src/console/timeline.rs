//! The timeline of a run as a picture: one row for each step, with what happened at its time.
//!
//! Stretches in which nothing was under way and that are long beside the rest are cut, with their
//! length. Geometry is in attributes and colours are in the stylesheet, so that the page needs no style
//! of its own. The journal below has the same content as a table.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

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

/// The picture of a journal; nothing where it has no events to show.
pub(super) fn draw(journal: &[JournalLine]) -> Markup {
    let mut rows = rows(journal);
    let left_out = rows.len().saturating_sub(ROWS_MAX);
    if left_out > 0 {
        rows.sort_by_key(|row| !row.has_trouble());
        rows.truncate(ROWS_MAX);
    }
    if rows.is_empty() {
        return Markup::default();
    }
    let scale = Scale::of(&rows);
    let height = TOP + ROW * rows.len() as f64 + 8.0;
    let mut svg = format!(
        "<div class=\"timeline\"><svg role=\"img\" viewBox=\"0 0 {WIDTH} {height}\" aria-labelledby=\"timeline-title\" aria-describedby=\"journal\">\
         <title id=\"timeline-title\">Timeline of the run</title>"
    );
    scale.draw(&mut svg, height);
    for (index, row) in rows.iter().enumerate() {
        row.draw(&mut svg, &scale, TOP + ROW * (index as f64 + 0.5));
    }
    svg.push_str("</svg></div>");
    if left_out > 0 {
        let _ = write!(
            svg,
            "<p class=\"help\">{left_out} further steps are in the journal below.</p>"
        );
    }
    assembled(svg)
}

fn rows(journal: &[JournalLine]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut count = 0;
    for line in journal {
        for event in &line.events {
            if count == MARKS_MAX {
                return rows;
            }
            count += 1;
            let step = event.event["step"].as_str().unwrap_or(RUN);
            let place = *places.entry(step.to_owned()).or_insert_with(|| {
                rows.push(Row {
                    name: step.to_owned(),
                    marks: Vec::new(),
                });
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
mod tests {
    use semel_api::types::JournalEvent;
    use serde_json::json;

    use super::*;

    fn line(seq: i32, millis: i64, event: &str, step: &str) -> JournalLine {
        JournalLine {
            seq,
            at: Timestamp::from_millisecond(millis).unwrap(),
            events: vec![JournalEvent {
                summary: format!("<{event}>"),
                event: json!({"event": event, "step": step}),
            }],
        }
    }

    #[test]
    fn a_long_rest_is_cut_and_an_attempt_is_not() {
        let journal = [
            line(1, 0, "computed", "read"),
            line(2, 10, "intended", "charge"),
            line(3, 5_010, "done", "charge"),
            line(4, 5_020, "wait_opened", "bank"),
            line(5, 7_205_020, "wait_ended", "bank"),
        ];

        let picture = draw(&journal).to_string();

        assert_eq!(picture.matches("class=\"gap\"").count(), 1, "{picture}");
        assert!(
            picture.contains(">1 h<") || picture.contains(">2 h<"),
            "{picture}"
        );
        assert!(picture.contains("&lt;done&gt;") && !picture.contains("<done>"));
        assert!(picture.contains("href=\"#seq-3\""));
    }

    #[test]
    fn a_picture_is_bounded_and_the_same_each_time() {
        let journal: Vec<JournalLine> = (0..1_000)
            .map(|n| line(n, i64::from(n), "doubted", &format!("s{n}")))
            .collect();

        let picture = draw(&journal).to_string();

        assert_eq!(picture, draw(&journal).to_string());
        assert!(picture.len() < 120_000, "{}", picture.len());
        assert!(picture.contains("further steps"));
        assert!(draw(&[]).is_empty());
    }
}
