//! From a tree to a release: what this build can run, and the rest by name.

mod gate;
mod pending;
mod row;
mod step;

pub(crate) use pending::pending;

use semel_model::{FlowName, RetryPolicy, Span};
use serde_json::Value as Json;

use crate::diagnostic::{Code, Report};
use crate::outline::Outline;
use crate::release::{Flow, Follow, Step};
use crate::tree::{Record, env_of};
use crate::types::input_schema;
use crate::{reconcile, triggers};

/// The release of a tree without mistakes and without anything pending.
///
/// A tree that passed its checks always has one; if it has not, that is reported as a mistake
/// instead of being ignored.
pub(crate) fn flow(outline: &Outline<'_>, report: &mut Report<'_>) -> Option<Flow> {
    let flow = try_flow(outline);
    if flow.is_none() {
        let message = "this flow cannot be made into a release";
        let help = "report it: `check` should have said why";
        report.add(Code::NotInThisBuild, 0..0, message, help);
    }
    flow
}

fn try_flow(outline: &Outline<'_>) -> Option<Flow> {
    let flow = outline.flow;
    let name: FlowName = flow.text("flow")?.parse().ok()?;
    let env = env_of(flow);
    let retry = retry(flow, RetryPolicy::default());
    let input_schema = match input_schema(flow) {
        Some(schema) => Some(schema.ok()?),
        None => None,
    };
    Some(Flow {
        input_schema,
        about: flow.text("about").map(str::to_owned),
        trigger: triggers::lower(flow.map("trigger")?, &name)?,
        reconcile: match flow.map("reconcile") {
            Some(reconcile) => Some(Box::new(reconcile::lower(reconcile, &env)?)),
            None => None,
        },
        keep: keep_of(flow)?,
        expires_as_new: flow.map("keep").and_then(|keep| keep.word("then")) == Some("new"),
        history: flow.span_of("history"),
        overlap: gate::overlap(flow),
        limit: gate::limit(flow),
        retry,
        steps: steps(outline, retry, &env)?,
        result: flow.expr("result").map(|placed| placed.expr.clone()),
        undoes: flow.word("on_failure") == Some("undo"),
        env,
        name,
    })
}

/// How long a key is remembered.
pub(crate) fn keep_of(flow: &Record) -> Option<Span> {
    match flow.map("keep") {
        Some(keep) => keep.span_of("for"),
        None => flow.span_of("keep"),
    }
}

/// Every step of a flow in reading order, and behind them those that take others back.
fn steps(outline: &Outline<'_>, retry: RetryPolicy, env: &Json) -> Option<Vec<Step>> {
    let places = 0..outline.steps.len();
    let steps = places.map(|place| step::step(outline, place, retry, env));
    let mut steps = steps.collect::<Option<Vec<Step>>>()?;
    for (place, info) in outline.steps.iter().enumerate() {
        if info.record.has("undo") {
            let undo = step::undo(info.record, &steps[place], env)?;
            steps[place].undo = Some(steps.len());
            steps.push(undo);
        }
    }
    end_the_row(&mut steps, outline.steps.len());
    Some(steps)
}

/// The last step of the row leads to what stands behind the row, which must not be an undo.
fn end_the_row(steps: &mut [Step], count: usize) {
    let has_undos = steps.len() > count;
    if let Some(last) = count.checked_sub(1).and_then(|last| steps.get_mut(last))
        && has_undos
        && last.follow == Follow::Next
    {
        last.follow = Follow::End;
    }
}

/// The retry policy of a flow or a step; what it does not say is taken from `base`.
pub(crate) fn retry(record: &Record, base: RetryPolicy) -> RetryPolicy {
    let Some(said) = record.map("retry") else {
        return base;
    };
    let span = |name: &str, base: Span| said.span_of(name).unwrap_or(base);
    let attempts = said.whole("attempts");
    RetryPolicy {
        attempts: attempts
            .and_then(|attempts| u32::try_from(attempts).ok())
            .unwrap_or(base.attempts),
        delay: span("delay", base.delay),
        max_delay: span("max_delay", base.max_delay),
        within: span("within", base.within),
    }
}
