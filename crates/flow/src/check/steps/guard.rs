//! How an effect is made safe to meet twice.

use semel_model::Guard;

use super::super::Check;
use super::an;
use crate::diagnostic::Code;
use crate::effect::{changes, guards, method};
use crate::tree::{Record, StepInfo};

/// Which guard each part of one belongs to.
const PARTS: [(&str, Guard); 3] = [
    ("window", Guard::Key),
    ("because", Guard::Repeat),
    ("probe", Guard::Probe),
];

impl<'t> Check<'_, 't, '_> {
    pub(super) fn guard(
        &mut self,
        step: &StepInfo<'t>,
        action: &'static str,
        body: Option<&'t Record>,
    ) {
        let record = step.record;
        if let Some(probe) = record.map("probe") {
            self.probe(probe);
        }
        if record.has("guard") && record.value("guard").is_none() {
            return;
        }
        // Nothing can be said about a call that could not be read.
        if action == "http" && body.and_then(method).is_none() {
            return;
        }
        let named: Option<Guard> = record.text("guard").and_then(|word| word.parse().ok());
        if !changes(action, body) {
            self.guard_of_nothing(record, action, body);
            return;
        }
        let fitting = guards(action, body, self.facts);
        if let Some(guard) = named.filter(|guard| !fitting.contains(guard)) {
            self.unfit(record, action, guard, &fitting);
            return;
        }
        self.stray_parts(record, named.or(fitting.first().copied()));
        if let Some(guard) = named {
            self.whole(record, guard, fitting.first() == Some(&Guard::Probe));
        }
    }

    fn guard_of_nothing(&mut self, record: &Record, action: &str, body: Option<&Record>) {
        let all = ["guard", "window", "because", "probe"];
        for field in all.into_iter().filter(|field| record.has(field)) {
            let (message, help) = match (action, field) {
                ("http", "guard") => {
                    let method = body.and_then(method).unwrap_or("get");
                    let message = format!("a `{method}` has no effect to guard");
                    (message, "leave `guard` out")
                }
                ("kv" | "db", "guard") => (
                    "a read has no effect to guard".to_owned(),
                    "leave `guard` out",
                ),
                _ => (
                    format!("{} step cannot have `{field}`", an(action)),
                    "leave it out: there is no call whose answer could get lost",
                ),
            };
            let span = match field {
                "guard" if matches!(action, "http" | "kv" | "db") => record.value_span(field),
                _ => record.name_span(field),
            };
            self.add(Code::GuardUnfit, span, &message, help);
        }
    }

    fn unfit(&mut self, record: &Record, action: &str, guard: Guard, fitting: &[Guard]) {
        let mut names: Vec<&str> = fitting.iter().map(|guard| guard.as_str()).collect();
        names.sort_unstable();
        let (message, help) = match fitting {
            [Guard::Transaction] => (
                format!("{} step cannot have the guard `{guard}`", an(action)),
                "leave `guard` out: its effect and its marker commit together".to_owned(),
            ),
            _ if guard == Guard::Transaction => (
                format!("{} step cannot commit together with its marker", an(action)),
                format!("choose one of: {}", names.join(", ")),
            ),
            _ => (
                format!("{} step cannot have the guard `{guard}`", an(action)),
                format!("choose one of: {}", names.join(", ")),
            ),
        };
        self.add(
            Code::GuardUnfit,
            record.value_span("guard"),
            &message,
            &help,
        );
    }

    /// `window`, `because` and `probe` each belong to one guard.
    fn stray_parts(&mut self, record: &Record, guard: Option<Guard>) {
        for (field, owner) in PARTS {
            if record.has(field) && guard != Some(owner) {
                let message = format!("`{field}` belongs to `guard: {owner}`");
                let help = format!("add `guard: {owner}`, or leave `{field}` out");
                self.add(Code::GuardUnfit, record.name_span(field), &message, &help);
            }
        }
    }

    /// A guard that lacks what it rests on. `marked`: the command leaves a marker to be asked for.
    fn whole(&mut self, record: &Record, guard: Guard, marked: bool) {
        let span = record.value_span("guard");
        if guard == Guard::Repeat {
            match record.text("because").map(str::trim) {
                None if !record.has("because") => {
                    let message = "`guard: repeat` needs a reason";
                    let help = "add `because: why a second call does no harm`";
                    self.add(Code::GuardIncomplete, span, message, help);
                }
                Some("") => {
                    let help = "say why a second call does no harm";
                    let span = record.value_span("because");
                    self.add(Code::GuardIncomplete, span, "the reason is empty", help);
                }
                Some(_) | None => {}
            }
        } else if guard == Guard::Probe && !record.has("probe") && !marked {
            let message = "`guard: probe` needs a `probe` that tells whether it happened";
            let help =
                "add `probe: { http: { get: \"https://…\" }, found: probe.json.size() > 0 }`";
            self.add(Code::GuardIncomplete, span, message, help);
        }
    }

    fn probe(&mut self, probe: &'t Record) {
        if probe
            .text("because")
            .is_some_and(|because| because.trim().is_empty())
        {
            let help = "say why nothing can arrive later than `after`";
            let span = probe.value_span("because");
            self.add(Code::GuardIncomplete, span, "the reason is empty", help);
        }
        for action in ["http", "db"] {
            let Some(body) = probe.map(action) else {
                continue;
            };
            self.action(action, body);
            if changes(action, Some(body)) {
                let asked = match action {
                    "http" => method(body).unwrap_or("post"),
                    _ => "execute",
                };
                let message = format!("a probe reads, and `{asked}` does not");
                let help = match action {
                    "http" => "use `get` or `head`",
                    _ => "use `query`",
                };
                self.add(Code::GuardUnfit, probe.name_span(action), &message, help);
            }
        }
    }
}
