//! The names in expressions: steps that come before, waits, constants.

use super::Check;
use crate::diagnostic::Code;
use crate::effect::Effect;
use crate::expr::Path;
use crate::nearest::nearest;
use crate::outline::{Outline, StepIndex};
use crate::steps::StepKind;
use crate::tree::env_of;
use crate::triggers;

/// What is known of a step, a wait, a run and a trigger.
const STEP: [&str; 3] = ["result", "external_id", "status"];
const WAIT: [&str; 1] = ["url"];
const TRIGGER: [&str; 1] = ["kind"];
/// What is known of a trigger where a tick of a schedule can be it.
const TICK: [&str; 2] = ["kind", "nominal"];
const RUN: [&str; 4] = ["id", "key", "flow", "release"];
const EFFECT: [&str; 1] = ["key"];

/// What `reconcile` knows of the run of an item.
const RUN_OF_ITEM: [&str; 4] = ["id", "key", "state", "result"];

type Problem = Option<(Code, String, String)>;

impl Check<'_, '_, '_> {
    pub(super) fn names(&mut self) {
        let outline = self.outline;
        let env = env_of(outline.flow);
        let env: Vec<&str> = env
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::keys)
            .map(String::as_str)
            .collect();
        let starts = outline.flow.map("trigger").into_iter();
        let mut starts = starts.flat_map(triggers::declared);
        let trigger = match starts.any(|(spec, _)| spec.has_instant) {
            true => &TICK[..],
            false => &TRIGGER[..],
        };
        let known_env = outline.flow.value("env").is_some() || !outline.flow.has("env");
        let mut found = vec![];
        outline.each_expr(|at, field, placed| {
            for path in placed.expr.references() {
                let problem = match path.root.as_str() {
                    "steps" => unknown_step(outline, path, at, field)
                        .or_else(|| unknown_part(path, 1, &STEP)),
                    "waits" => unknown_wait(outline, path).or_else(|| unknown_part(path, 1, &WAIT)),
                    "run" if field == "reconcile" => unknown_part(path, 0, &RUN_OF_ITEM),
                    "run" => unknown_part(path, 0, &RUN),
                    "headers" => upper_header(path),
                    "trigger" => unknown_part(path, 0, trigger),
                    "env" if known_env => unknown_part(path, 0, &env),
                    "effect" => self
                        .misplaced_effect(at, field)
                        .or_else(|| unknown_part(path, 0, &EFFECT)),
                    _ => None,
                };
                if let Some(problem) = problem {
                    found.push((placed.path_span(self.report.source, path), problem));
                }
            }
        });
        for (span, (code, message, help)) in found {
            self.add(code, span, &message, &help);
        }
        self.answers();
    }

    /// `effect` where the step has none, or before its key is known.
    fn misplaced_effect(&self, at: Option<StepIndex>, field: &str) -> Problem {
        let step = &self.outline.steps[at?];
        let sends = field == "probe" || step.kind.is_some_and(|kind| kind.name() == field);
        if sends && Effect::of(step, self.context).is_some() {
            return None;
        }
        let message = match sends {
            true => "`effect` belongs to an effect, and this step has none".to_owned(),
            false => format!("`effect` is not known in `{field}`"),
        };
        let help = "read `effect.key` in what an effect sends or in its `probe`";
        Some((Code::ExpressionName, message, help.to_owned()))
    }

    /// Examples answer for steps that exist.
    fn answers(&mut self) {
        let outline = self.outline;
        for example in outline.flow.maps("examples") {
            let Some(crate::tree::Value::Named(answers)) = example.value("answers") else {
                continue;
            };
            for answer in answers {
                let named = answer.name.as_str();
                let step = named.strip_suffix(".undo").or(named.strip_suffix(".probe"));
                let step = step.unwrap_or(named);
                if outline.find(step).is_some() {
                    continue;
                }
                let message = format!("there is no step `{step}`");
                let ids = outline.steps.iter().map(|step| step.id);
                let help = match nearest(step, ids) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "name a step of this flow".to_owned(),
                };
                self.add(Code::StepUnknown, answer.name_span.clone(), &message, &help);
            }
        }
    }
}

fn unknown_step(outline: &Outline<'_>, path: &Path, at: Option<StepIndex>, field: &str) -> Problem {
    // The whole map is a legitimate value, if an odd one.
    let id = path.fields.first()?;
    let found = outline.find(id);
    let own = found.is_some() && found == at;
    if own && field == "undo" {
        return None;
    }
    if found.is_some_and(|found| outline.is_known(found, at)) {
        return None;
    }
    let message = match found {
        Some(_) if own => format!("step `{id}` cannot read its own outcome here"),
        Some(found) if at.is_some_and(|at| found > at) => format!("step `{id}` comes later"),
        Some(found) => match outline.around(found).next() {
            Some((holder, _)) => {
                let holder = &outline.steps[holder];
                let kind = holder.kind.map_or("step", StepKind::name);
                format!("step `{id}` is inside the {kind} `{}`", holder.id)
            }
            None => format!("step `{id}` contains this one and has not ended"),
        },
        None => format!("there is no step `{id}`"),
    };
    let visible: Vec<&str> = outline
        .steps
        .iter()
        .enumerate()
        .filter(|(index, step)| !step.id.is_empty() && outline.is_known(*index, at))
        .map(|(_, step)| step.id)
        .collect();
    let help = match nearest(id, visible.iter().copied()) {
        Some(near) => format!("did you mean `steps.{near}`?"),
        None if visible.is_empty() => "no step comes before this".to_owned(),
        None => format!("steps before this: {}", listed(&visible)),
    };
    Some((Code::StepUnknown, message, help))
}

fn unknown_wait(outline: &Outline<'_>, path: &Path) -> Problem {
    let id = path.fields.first()?;
    let calls_back = |index: StepIndex| {
        let said = outline.steps[index].kind.zip(outline.body(index));
        said.is_some_and(|(kind, body)| (kind.has_link)(body))
    };
    if outline.find(id).is_some_and(calls_back) {
        return None;
    }
    let known = outline.steps.iter().enumerate();
    let known = known.filter(|(index, _)| calls_back(*index));
    let message = format!("no step `{id}` waits for a callback or an approval");
    let help = match nearest(id, known.map(|(_, step)| step.id)) {
        Some(near) => format!("did you mean `waits.{near}`?"),
        None => format!("add a step `{id}` with `wait: {{ callback: true, within: 7d }}`"),
    };
    Some((Code::WaitUnknown, message, help))
}

/// A header by a name that it never has: they arrive in lower case.
fn upper_header(path: &Path) -> Problem {
    let name = path.fields.first()?;
    let lower = name.to_ascii_lowercase();
    if *name == lower {
        return None;
    }
    let message = format!("no header is called `{name}`: their names are in lower case");
    let help = format!("write `headers[\"{lower}\"]`");
    Some((Code::ExpressionName, message, help))
}

/// A field at that depth of a path which is none of those that there are.
fn unknown_part(path: &Path, depth: usize, known: &[&str]) -> Problem {
    let field = path.fields.get(depth)?;
    if known.contains(&field.as_str()) {
        return None;
    }
    let of = std::iter::once(&path.root).chain(&path.fields[..depth]);
    let of = of.map(String::as_str).collect::<Vec<_>>().join(".");
    let help = match nearest(field, known.iter().copied()) {
        Some(near) => format!("did you mean `{of}.{near}`?"),
        None if known.is_empty() => format!("nothing is declared under `{of}`"),
        None => format!("it has: {}", known.join(", ")),
    };
    let message = format!("`{of}` has no `{field}`");
    Some((Code::ExpressionName, message, help))
}

/// The last few names, which are the likeliest.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 8;
    let from = names.len().saturating_sub(SHOWN);
    names[from..].join(", ")
}
