//! The graph of a flow as a picture: boxes within boxes, because a flow is a tree and never more.
//!
//! Sizes are found from the inside out and places from the outside in, in whole numbers, so that the same
//! flow is the same bytes. Alternatives stand side by side, what is done for each item stands in a frame,
//! and what takes a step back stands dashed at its left. Colours are in the stylesheet.

mod boxes;
mod counts;

use std::fmt::Write as _;

use semel_flow::{ActionKind, ChartForm, ChartStep};
use semel_model::{Guard, TriggerKind};

use super::markup::{Markup, assembled, escape, visible};
use boxes::{Lane, Placed};
pub(crate) use counts::StepCounts;

/// How many steps a picture has before the steps inside of others are folded.
const UNFOLDED_MAX: usize = 150;

/// The size of a step.
const NODE: (i32, i32) = (176, 44);

/// The size of what takes a step back.
const UNDO: (i32, i32) = (124, 32);

/// The size of what starts a run.
const START: (i32, i32) = (112, 30);

/// The room between two steps, and between two lanes.
const GAP: i32 = 28;

/// The room around everything and within a frame.
const PAD: i32 = 16;

/// The height of a lane's label.
const LABEL: i32 = 22;

/// The most characters of a step's name, and of a label.
const NAME_CHARS_MAX: usize = 19;

/// The colours of a picture that stands alone.
const STYLE: &str = "<style>svg{color-scheme:light dark;--ink:light-dark(#1c2024,#e6e8ea);--soft:light-dark(#5c6470,#a2abb5);--line:light-dark(#e3e5e8,#31373d);--paper:light-dark(#fff,#1b1f23);--good:light-dark(#1a6b3a,#7cce98);--doubt:light-dark(#8a5300,#ecb45c);--bad:light-dark(#b3261e,#f3948d);--live:light-dark(#1d5fa8,#86b9f2)}\
text{font:12px system-ui,sans-serif;fill:var(--ink)}.sub,.label{fill:var(--soft);font-size:11px}.node,.start{fill:var(--paper);stroke:var(--soft)}.edge,.frame{fill:none;stroke:var(--soft)}.frame,.undo{stroke-dasharray:5 4}.undo{fill:none;stroke:var(--soft)}.tip{fill:var(--soft)}.g-good{stroke:var(--good)}.g-doubt{stroke:var(--doubt)}.g-bad{stroke:var(--bad)}.t-good{fill:var(--good)}.t-doubt{fill:var(--doubt)}.t-bad{fill:var(--bad)}</style>";

/// What is drawn.
pub(crate) struct Graph<'a> {
    /// The flow's name.
    pub(crate) name: &'a str,
    /// What starts runs.
    pub(crate) starts: Vec<TriggerKind>,
    /// The steps.
    pub(crate) steps: &'a [ChartStep],
    /// Whether everything is shown, however much it is.
    pub(crate) whole: bool,
    /// How often attempts at each step had which outcome lately.
    pub(crate) counts: StepCounts,
}

impl Graph<'_> {
    /// Whether the steps inside of others are folded.
    pub(crate) fn is_folded(&self) -> bool {
        let count: usize = self.steps.iter().map(ChartStep::count).sum();
        !self.whole && count > UNFOLDED_MAX
    }

    /// The picture within a page, whose table below has the same content.
    pub(super) fn in_page(&self) -> Markup {
        // A picture with links in it is a group to who cannot see it.
        let attributes =
            "role=\"group\" aria-labelledby=\"graph-title\" aria-describedby=\"graph-table\"";
        let svg = self.draw(attributes, "", true);
        assembled(format!("<div class=\"graph\">{svg}</div>"))
    }

    /// The picture as a file.
    pub(crate) fn as_file(&self) -> String {
        let attributes =
            "xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-labelledby=\"graph-title\"";
        format!("{}\n", self.draw(attributes, STYLE, false))
    }

    fn draw(&self, attributes: &str, style: &str, linked: bool) -> String {
        let list = boxes::measure(self.steps, self.is_folded());
        let starts = i32::try_from(self.starts.len()).unwrap_or(i32::MAX);
        let starts_width = starts * (START.0 + PAD) - PAD;
        let size = boxes::size_of(&list).at_least(starts_width / 2);
        let (axis, top) = (PAD + size.left, PAD);
        let first = top + START.1 + GAP;
        let end = first + size.height + GAP;
        let (width, height) = (size.left + size.right + 2 * PAD, end + PAD + 6);
        let mut pen = Pen {
            svg: format!(
                "<svg viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" {attributes}>{style}\
                 <title id=\"graph-title\">Steps of {}</title>",
                shown(self.name)
            ),
            linked,
            counts: &self.counts,
        };
        pen.starts(&self.starts, axis, top);
        let goes_on = pen.list(&list, axis, (top + START.1 + GAP / 2, first));
        if goes_on {
            pen.edge(axis, first + size.height, end);
            let _ = write!(
                pen.svg,
                "<circle class=\"tip\" cx=\"{axis}\" cy=\"{end}\" r=\"5\"><title>end</title></circle>"
            );
        }
        pen.svg.push_str("</svg>");
        pen.svg
    }
}

fn shown(text: &str) -> String {
    escape(&visible(text, false))
}

/// A text that fits.
fn short(text: &str, most: usize) -> String {
    match text.chars().nth(most).is_some() {
        true => {
            let kept: String = text.chars().take(most.saturating_sub(1)).collect();
            shown(&format!("{kept}…"))
        }
        false => shown(text),
    }
}

/// Writes the picture.
struct Pen<'a> {
    svg: String,
    linked: bool,
    counts: &'a StepCounts,
}

impl Pen<'_> {
    fn starts(&mut self, starts: &[TriggerKind], axis: i32, top: i32) {
        let count = i32::try_from(starts.len()).unwrap_or(i32::MAX);
        let mut x = axis - (count * (START.0 + PAD) - PAD) / 2;
        for start in starts {
            let (middle, baseline) = (x + START.0 / 2, top + 19);
            let _ = write!(
                self.svg,
                "<rect class=\"start\" x=\"{x}\" y=\"{top}\" width=\"{}\" height=\"{}\" rx=\"15\"/>\
                 <text x=\"{middle}\" y=\"{baseline}\" text-anchor=\"middle\">{}</text>",
                START.0,
                START.1,
                start.as_str()
            );
            let (bottom, meet) = (top + START.1, top + START.1 + GAP / 2);
            self.path(&format!("M{middle} {bottom}V{meet}H{axis}"));
            x += START.0 + PAD;
        }
    }

    /// Draws steps one below the other, from where the edge above them ends. False where nothing follows.
    fn list(&mut self, list: &[Placed<'_>], axis: i32, (above, top): (i32, i32)) -> bool {
        let (mut above, mut y) = (above, top);
        let mut goes_on = true;
        for placed in list {
            if goes_on {
                self.arrow(axis, above, y);
            }
            goes_on = self.step(placed, axis, y);
            above = y + placed.size.height;
            y = above + GAP;
        }
        goes_on
    }

    fn step(&mut self, placed: &Placed<'_>, axis: i32, y: i32) -> bool {
        let step = placed.step;
        self.node(placed, axis - NODE.0 / 2, y);
        if let Some(undo) = step.undo {
            self.undo(undo, axis - NODE.0 / 2, y);
        }
        if placed.lanes.is_empty() {
            return !step.ends;
        }
        let fork = y + NODE.1 + GAP / 2;
        let bottom = y + placed.size.height;
        let join = bottom - GAP / 2;
        let width = boxes::width(&placed.lanes);
        let framed = step.form == ChartForm::Each;
        self.edge(axis, y + NODE.1, fork);
        if framed {
            let (x, height) = (axis - width / 2 - PAD, join - fork - GAP / 2);
            let _ = write!(
                self.svg,
                "<rect class=\"frame\" x=\"{x}\" y=\"{fork}\" width=\"{}\" height=\"{height}\" rx=\"10\"/>",
                width + 2 * PAD
            );
        }
        let mut left = axis - width / 2;
        let mut goes_on = false;
        for lane in &placed.lanes {
            let middle = left + lane.size.left;
            goes_on |= self.lane(lane, (axis, middle), (fork, join), framed);
            left += lane.size.left + lane.size.right + GAP;
        }
        if goes_on {
            self.edge(axis, join, bottom);
        }
        goes_on && !step.ends
    }

    fn lane(
        &mut self,
        lane: &Lane<'_>,
        (axis, middle): (i32, i32),
        (fork, join): (i32, i32),
        framed: bool,
    ) -> bool {
        let inner = if framed { PAD } else { 0 };
        let (begin, top) = (fork + inner, fork + inner + LABEL);
        if !framed {
            self.path(&format!("M{axis} {fork}H{middle}V{begin}"));
        }
        let room = usize::try_from((lane.size.left + lane.size.right) / 6).unwrap_or_default();
        let (label, baseline) = (short(lane.label, room), begin + 14);
        let _ = write!(
            self.svg,
            "<text class=\"label\" x=\"{middle}\" y=\"{baseline}\" text-anchor=\"middle\">{label}<title>{}</title></text>",
            shown(lane.label)
        );
        let first = top + 8;
        let goes_on = match lane.steps.is_empty() {
            true => true,
            false => self.list(&lane.steps, middle, (top - 2, first)),
        };
        if goes_on && !framed {
            let bottom = match lane.steps.is_empty() {
                true => top - 2,
                false => first + lane.size.height,
            };
            self.path(&format!("M{middle} {bottom}V{join}H{axis}"));
        }
        // Items are runs of their own: the frame goes on, whatever ends inside of it.
        if framed {
            self.edge(axis, join - GAP / 2, join);
        }
        goes_on || framed
    }

    fn node(&mut self, placed: &Placed<'_>, x: i32, y: i32) {
        let step = placed.step;
        let (class, tone) = guard_class(step.guard);
        let (open, close) = match self.linked {
            true => (format!("<a href=\"#step-{}\">", shown(&step.id)), "</a>"),
            false => ("<g>".to_owned(), "</g>"),
        };
        let counted = self.counts.of(&step.id);
        // The guard stands at the right of the same line.
        let room = NAME_CHARS_MAX + step.guard.map_or(4, |_| 0);
        let mut sub = step.kind.as_str().to_owned();
        if placed.folded > 0 {
            let _ = write!(sub, " · {} steps", placed.folded);
        }
        for (has, word) in [
            (step.condition.is_some(), "if"),
            (step.key.is_some(), "named"),
        ] {
            if has {
                let _ = write!(sub, " · {word}");
            }
        }
        let _ = write!(
            self.svg,
            "{open}<title>{}</title><rect class=\"node {class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"8\"/>\
             <text class=\"icon\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text><text x=\"{}\" y=\"{}\">{}</text>\
             <text class=\"sub\" x=\"{}\" y=\"{}\">{}</text>",
            shown(&counted.told(told(step))),
            NODE.0,
            NODE.1,
            x + 18,
            y + 27,
            icon(step.kind),
            x + 34,
            y + 19,
            short(&step.id, NAME_CHARS_MAX - counted.room()),
            x + 34,
            y + 35,
            short(&sub, room)
        );
        if let Some(guard) = step.guard {
            let (x, y) = (x + NODE.0 - 8, y + 35);
            let _ = write!(
                self.svg,
                "<text class=\"sub {tone}\" x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{guard}</text>"
            );
        }
        if let Some(short) = counted.short() {
            let (x, y) = (x + NODE.0 - 8, y + 19);
            let _ = write!(
                self.svg,
                "<text class=\"sub\" x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{short}</text>"
            );
        }
        self.svg.push_str(close);
    }

    fn undo(&mut self, kind: ActionKind, node: i32, y: i32) {
        let (x, top) = (node - GAP - UNDO.0, y + (NODE.1 - UNDO.1) / 2);
        let (middle, baseline, across) = (x + UNDO.0 / 2, top + 20, top + UNDO.1 / 2);
        let edge = node - GAP;
        let _ = write!(
            self.svg,
            "<rect class=\"undo\" x=\"{x}\" y=\"{top}\" width=\"{}\" height=\"{}\" rx=\"8\"/>\
             <path class=\"undo\" d=\"M{node} {across}H{edge}\"/>\
             <text class=\"label\" x=\"{middle}\" y=\"{baseline}\" text-anchor=\"middle\">undo: {}</text>",
            UNDO.0,
            UNDO.1,
            kind.as_str()
        );
    }

    fn path(&mut self, d: &str) {
        let _ = write!(self.svg, "<path class=\"edge\" d=\"{d}\"/>");
    }

    fn edge(&mut self, x: i32, from: i32, to: i32) {
        self.path(&format!("M{x} {from}V{to}"));
    }

    fn arrow(&mut self, x: i32, from: i32, to: i32) {
        self.edge(x, from, to);
        let (left, top) = (x - 4, to - 6);
        let _ = write!(
            self.svg,
            "<path class=\"tip\" d=\"M{left} {top}h8l-4 6z\"/>"
        );
    }
}

/// What the picture says of a step, in words.
pub(super) fn told(step: &ChartStep) -> String {
    let mut told = format!("{}: {}", step.id, step.kind.as_str());
    if let Some(guard) = step.guard {
        let _ = write!(told, ", guard {guard}");
    }
    if let Some(key) = &step.key {
        let _ = write!(told, ", once per {key}");
    }
    if let Some(condition) = &step.condition {
        let _ = write!(told, ", if {condition}");
    }
    told
}

/// How the guard of a step looks: its border, and its word.
const fn guard_class(guard: Option<Guard>) -> (&'static str, &'static str) {
    match guard {
        None => ("", ""),
        Some(Guard::Transaction | Guard::Key | Guard::Natural | Guard::Probe) => {
            ("g-good", "t-good")
        }
        Some(Guard::Review) => ("g-doubt", "t-doubt"),
        Some(Guard::Repeat) => ("g-bad", "t-bad"),
    }
}

const fn icon(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Http => "⇄",
        ActionKind::Db => "▤",
        ActionKind::Kv => "▦",
        ActionKind::Ssh => "❯",
        ActionKind::Notify => "✉",
        ActionKind::Llm => "✦",
        ActionKind::Persist => "▣",
        ActionKind::Emit => "↗",
        ActionKind::Call => "↳",
        ActionKind::Task => "⚒",
        ActionKind::Wait => "◔",
        ActionKind::Approval => "✓",
        ActionKind::Function => "ƒ",
        ActionKind::Foreach => "↻",
        ActionKind::Parallel => "∥",
        ActionKind::Switch => "◇",
        ActionKind::Return => "●",
        ActionKind::Fail => "■",
    }
}

#[cfg(test)]
mod tests;
