//! How an effect is made safe to repeat.

use semel_model::Guard;

use super::super::Check;
use crate::diagnostic::Code;
use crate::effect::connection;
use crate::outline::StepInfo;
use crate::steps::{ActionKind, StepKind, db, http};
use crate::tree::Record;

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
        kind: &'static StepKind,
        body: Option<&'t Record>,
    ) {
        let record = step.record;
        if let Some(probe) = record.map("probe") {
            self.probe(probe);
        }
        if record.has("guard") && record.value("guard").is_none() {
            return;
        }
        match kind.changes(body) {
            Some(true) => {}
            Some(false) => return self.guard_of_nothing(record, kind, body),
            // Nothing can be said about a call that could not be read.
            None => return,
        }
        let named: Option<Guard> = record.text("guard").and_then(|word| word.parse().ok());
        let fitting = kind.guards(body, connection(body, self.context));
        if let Some(guard) = named.filter(|guard| !fitting.contains(guard)) {
            self.unfit(record, kind, guard, &fitting);
            return;
        }
        self.stray_parts(record, named.or(fitting.first().copied()));
        if let Some(guard) = named {
            self.whole(record, guard, fitting.first() == Some(&Guard::Probe));
        }
    }

    fn guard_of_nothing(&mut self, record: &Record, kind: &StepKind, body: Option<&Record>) {
        let all = ["guard", "window", "because", "probe"];
        for field in all.into_iter().filter(|field| record.has(field)) {
            // Another step of the kind could have an effect, and a guard.
            let (message, help, span) = match field == "guard" && kind.effect.is_some() {
                true => (
                    format!("a `{}` has no effect to guard", kind.verb(body)),
                    "leave `guard` out",
                    record.value_span(field),
                ),
                false => (
                    format!("{} step cannot have `{field}`", kind.spoken()),
                    "leave it out: there is no call whose response could be lost",
                    record.name_span(field),
                ),
            };
            self.add(Code::GuardUnfit, span, &message, help);
        }
    }

    fn unfit(&mut self, record: &Record, kind: &StepKind, guard: Guard, fitting: &[Guard]) {
        let mut names: Vec<&str> = fitting.iter().map(|guard| guard.as_str()).collect();
        names.sort_unstable();
        let (message, help) = match fitting {
            [Guard::Transaction] => (
                format!("{} step cannot have the guard `{guard}`", kind.spoken()),
                "leave `guard` out: its effect and its marker commit together".to_owned(),
            ),
            _ if guard == Guard::Transaction => (
                format!(
                    "{} step cannot commit together with its marker",
                    kind.spoken()
                ),
                format!("choose one of: {}", names.join(", ")),
            ),
            _ => (
                format!("{} step cannot have the guard `{guard}`", kind.spoken()),
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
            let message = "`guard: probe` needs a `probe` that shows whether it happened";
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
        for kind in [&http::KIND, &db::KIND] {
            let Some(body) = probe.map(kind.name()) else {
                continue;
            };
            self.body(kind, body);
            if kind.changes(Some(body)) == Some(true) {
                let message = format!("a probe reads, and `{}` does not", kind.verb(Some(body)));
                let help = match kind.kind == ActionKind::Http {
                    true => "use `get` or `head`",
                    false => "use `query`",
                };
                let span = probe.name_span(kind.name());
                self.add(Code::GuardUnfit, span, &message, help);
            }
        }
    }
}
