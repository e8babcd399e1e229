//! The figures of the overview: what happened in a time and to which flow, as charts and as a table.
//!
//! Both are in the address of the page and chosen by links, so that a page can be kept and sent.

use std::collections::HashMap;

use semel_api::types::{Run, TallySeries};
use semel_model::{FlowName, Right, Span};

use super::super::chart::{self, Chart, Intervals, Series};
use super::super::markup::{self, Markup, assembled, escape};
use super::super::visit::Visit;
use super::super::{forms, words};
use crate::error::ApiError;

/// The times that links lead to, as the API spells them, and what they are called.
const RANGES: [(&str, &str, &str); 4] = [
    ("1h", "1 hour", "The last hour"),
    (DAY, "24 hours", "The last 24 hours"),
    ("7d", "7 days", "The last 7 days"),
    ("30d", "30 days", "The last 30 days"),
];

/// The time that is shown where none is asked for.
const DAY: &str = "24h";

/// The longest time that is counted.
const LONGEST: Span = Span::from_const_secs(90 * 86_400);

/// The most flows that links lead to.
const FLOWS_MAX: usize = 8;

/// What is drawn.
const CHARTS: [Chart; 3] = [
    Chart {
        id: "chart-starts",
        title: "Runs started",
        series: &[Series {
            what: "accepted",
            name: "started",
            class: "live",
            shape: "▶",
        }],
    },
    Chart {
        id: "chart-ends",
        title: "Runs that ended or stopped",
        series: &[
            Series {
                what: "succeeded",
                name: "succeeded",
                class: "good",
                shape: "●",
            },
            Series {
                what: "failed",
                name: "failed",
                class: "bad",
                shape: "■",
            },
            Series {
                what: "stopped",
                name: "stopped for you",
                class: "doubt",
                shape: "◆",
            },
            Series {
                what: "cancelled",
                name: "cancelled",
                class: "rest",
                shape: "×",
            },
        ],
    },
    Chart {
        id: "chart-duplicates",
        title: "Duplicates, none of which ran",
        series: &[
            Series {
                what: "repeat",
                name: "repeats answered",
                class: "rest",
                shape: "↺",
            },
            Series {
                what: "mismatch",
                name: "with another payload",
                class: "doubt",
                shape: "▲",
            },
            Series {
                what: "stale",
                name: "too late",
                class: "quiet",
                shape: "✕",
            },
        ],
    },
];

/// What the figures are asked for.
pub(super) struct Asked {
    last: String,
    flow: String,
}

impl Asked {
    /// What the address of the page says.
    pub(super) fn of(visit: &Visit) -> Self {
        let last = match visit.parameter("last") {
            "" => DAY,
            last => last,
        };
        Self {
            last: last.to_owned(),
            flow: visit.parameter("flow").to_owned(),
        }
    }

    /// What the figures are of.
    pub(super) fn heading(&self) -> String {
        let range = RANGES.iter().find(|(last, ..)| *last == self.last);
        let time = match range {
            Some((.., heading)) => (*heading).to_owned(),
            None => match self.last.parse::<Span>() {
                Ok(span) => format!("The last {}", span.min(LONGEST)),
                Err(_) => format!("The last {}", self.last),
            },
        };
        match self.flow.is_empty() {
            true => time,
            false => format!("{time} of {}", self.flow),
        }
    }

    /// The time that links keep: a word that is no time is not carried on.
    fn kept_time(&self) -> &str {
        match self.last.parse::<Span>() {
            Ok(_) => &self.last,
            Err(_) => DAY,
        }
    }

    /// The flow that links keep.
    fn kept_flow(&self) -> &str {
        match self.flow.parse::<FlowName>() {
            Ok(_) => &self.flow,
            Err(_) => "",
        }
    }

    /// Links to other times and flows: to those of the runs that the page reads anyway, so that nothing more is
    /// read for it.
    pub(super) fn choices<'a>(
        &'a self,
        visit: &Visit,
        runs: impl Iterator<Item = &'a Run>,
    ) -> Markup {
        let times = RANGES.iter().map(|(last, name, _)| {
            let is_chosen = *last == self.last;
            link(
                &self.address(visit, last, self.kept_flow()),
                name,
                is_chosen,
            )
        });
        let flows = std::iter::once(("", "All flows".to_owned()));
        let flows = flows.chain(
            self.flows(runs)
                .into_iter()
                .map(|flow| (flow, flow.to_owned())),
        );
        let flows = flows.map(|(flow, name)| {
            let href = self.address(visit, self.kept_time(), flow);
            link(&href, &name, flow == self.flow)
        });
        Markup::join([choice("Time", times), choice("Flow", flows)])
    }

    /// A form for a flow that has no link.
    pub(super) fn form(&self, visit: &Visit) -> Markup {
        let help = "The name of a flow; leave it empty for all of them.";
        let flow = forms::line("flow", "Flow", markup::offered(&self.flow), help);
        let last = forms::carried("last", markup::offered(self.kept_time()));
        let of = (visit.page("/"), Right::Read);
        let form = forms::ask_page(visit, of, vec![flow, last], "Show");
        forms::folded("Another flow", false, &form)
    }

    fn address(&self, visit: &Visit, last: &str, flow: &str) -> String {
        // The page without parameters is the day of all flows.
        let last = if last == DAY { "" } else { last };
        words::address(&visit.page("/"), &[("last", last), ("flow", flow)])
    }

    /// The flows that most of these runs are of and the one that is chosen, by name.
    fn flows<'a>(&'a self, runs: impl Iterator<Item = &'a Run>) -> Vec<&'a str> {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for run in runs {
            *counts.entry(run.flow.as_str()).or_default() += 1;
        }
        let mut flows: Vec<(&str, usize)> = counts.into_iter().collect();
        flows.sort_by_key(|(flow, count)| (std::cmp::Reverse(*count), *flow));
        flows.truncate(FLOWS_MAX);
        let mut names: Vec<&str> = flows.into_iter().map(|(flow, _)| flow).collect();
        let chosen = self.kept_flow();
        if !chosen.is_empty() && !names.contains(&chosen) {
            names.push(chosen);
        }
        names.sort_unstable();
        names
    }

    /// The figures, as charts and as a table.
    pub(super) async fn draw(&self, visit: &Visit) -> Result<Markup, ApiError> {
        let asked = [("last", self.last.as_str()), ("flow", self.flow.as_str())];
        let json = words::address("/v1/tallies/series", &asked);
        let found: TallySeries = visit.get(&json).await?;
        let times = Intervals::new(&found, visit.now, &visit.look.zone);
        let charts = CHARTS.iter().map(|chart| chart::draw(chart, &times));
        let caption = format!("What happened in each {}, the latest first", times.one());
        let table = chart::as_table(&caption, &CHARTS, &times);
        let open = json.strip_prefix("/v1").unwrap_or(&json);
        let same = Markup::fixed("as JSON").link(&visit.page(&format!("/json{open}")));
        let help = format!(
            "Each bar is {}. The figures are approximate: a server that was killed had not told its last ten seconds. The lists are exact. The same",
            times.length()
        );
        let command = format!("semel api GET {}", words::shell_word(&json));
        let help = [
            Markup::text(&help),
            same,
            Markup::fixed("and by"),
            markup::code(&command),
        ];
        let unknown = match found.items.is_empty() && !self.flow.is_empty() {
            true => Markup::join([
                Markup::fixed("Nothing was counted for a flow of this name in this time: see"),
                Markup::fixed("all flows").link(&visit.page("/flows")),
            ])
            .within("p", "empty"),
            false => Markup::default(),
        };
        Ok(Markup::join([
            unknown,
            Markup::join(charts).within("div", "charts"),
            forms::folded("All of it as a table", false, &table),
            self.form(visit),
            Markup::join(help).within("p", "help"),
        ]))
    }
}

/// Links of which one is chosen, with what they choose.
fn choice(name: &'static str, links: impl Iterator<Item = Markup>) -> Markup {
    let links: String = links.map(|link| format!("<li>{link}</li>")).collect();
    assembled(format!(
        "<nav class=\"choices\" aria-label=\"{name} of the figures\"><span aria-hidden=\"true\">{name}</span><ul>{links}</ul></nav>"
    ))
}

fn link(href: &str, name: &str, is_chosen: bool) -> Markup {
    let current = if is_chosen {
        " aria-current=\"true\""
    } else {
        ""
    };
    assembled(format!(
        "<a href=\"{}\"{current}>{}</a>",
        escape(href),
        Markup::text(name)
    ))
}
