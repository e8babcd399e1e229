//! Steps of a release.

use semel_model::{Guard, RetryPolicy, Span};
use serde_json::Value as Json;

use super::row;
use crate::outline::{Outline, StepIndex};
use crate::release::{Ask, BusinessKey, BusinessScope, Follow, KEY_WINDOW, Probe, Step, StepGuard};
use crate::steps::{self, DbStep, HttpStep, Lowering, StepKind, db, http};
use crate::tree::Record;

/// Quiet time before the marker of a command is asked for.
const MARKER_AFTER: Span = Span::from_const_secs(1);

pub(super) fn step(
    outline: &Outline<'_>,
    place: StepIndex,
    retry: RetryPolicy,
    env: &Json,
) -> Option<Step> {
    let record = outline.steps[place].record;
    let kind = outline.steps[place].kind?;
    let lowering = Lowering {
        step: record,
        body: outline.body(place),
        env,
        first: &|list| row::first(outline, place, list),
        after: row::after(outline, place),
    };
    let step = Step {
        id: record.text("id")?.parse().ok()?,
        condition: record.expr("if").map(|placed| placed.expr.clone()),
        action: (kind.lower)(&lowering)?,
        guard: guard(&lowering, kind)?,
        result: record.expr("result").map(|placed| placed.expr.clone()),
        external_id: record.expr("external_id").map(|placed| placed.expr.clone()),
        retry: super::retry(record, retry),
        follow: row::follow(outline, place),
        inside: row::inside(outline, place),
        undo: None,
        named: named(record)?.map(Box::new),
        reads_key: false,
    };
    Some(Step {
        reads_key: step.sees_key(),
        ..step
    })
}

/// What the effect of a step is called, where its author says so.
fn named(record: &Record) -> Option<Option<BusinessKey>> {
    let Some(placed) = record.expr("key") else {
        return Some(None);
    };
    Some(Some(BusinessKey {
        key: placed.expr.clone(),
        scope: BusinessScope::of(record.word("scope")?)?,
        keep: record.span_of("keep")?,
        accepts_other: record.word("mismatch") == Some("accept"),
        undoes_shared: record.word("undo_shared") == Some("always"),
    }))
}

/// The step that takes another one back: an effect of its own.
pub(super) fn undo(record: &Record, of: &Step, env: &Json) -> Option<Step> {
    let undo = record.map("undo")?;
    let kind = steps::kind_in(undo)?;
    let lowering = Lowering {
        step: undo,
        body: undo.map(kind.name()),
        env,
        first: &|_| None,
        after: None,
    };
    Some(Step {
        id: of.id.undo(),
        condition: None,
        action: (kind.lower)(&lowering)?,
        guard: guard(&lowering, kind)?,
        result: None,
        external_id: None,
        retry: of.retry,
        follow: Follow::End,
        inside: of.inside,
        undo: None,
        named: None,
        reads_key: false,
    })
}

/// How a step is made safe. Only what is known to change nothing is a read.
fn guard(lowering: &Lowering<'_>, kind: &StepKind) -> Option<StepGuard> {
    let Lowering { step, body, .. } = *lowering;
    if !kind.changes(body).unwrap_or(kind.effect.is_some()) {
        return Some(StepGuard::Read);
    }
    let named: Option<Guard> = step.text("guard").and_then(|word| word.parse().ok());
    let first = kind.guards(body, None).first().copied()?;
    if named.is_none() && first == Guard::Review && kind.is_decided_by_connection(body) {
        return Some(StepGuard::Connection);
    }
    match named.unwrap_or(first) {
        Guard::Key => {
            // Over a connection, what that says holds when the intent is written.
            let connected = body.is_some_and(|body| body.has("connection"));
            let said = step.span_of("window");
            Some(StepGuard::Key {
                window: said.or((!connected).then_some(KEY_WINDOW)),
            })
        }
        Guard::Natural => Some(StepGuard::Natural),
        Guard::Review => Some(StepGuard::Review),
        Guard::Repeat => Some(StepGuard::Repeat {
            because: step.text("because")?.trim().to_owned(),
        }),
        Guard::Probe => probe(lowering).map(|probe| StepGuard::Probe(Box::new(probe))),
        Guard::Transaction => Some(StepGuard::Transaction),
    }
}

fn probe(lowering: &Lowering<'_>) -> Option<Probe> {
    let Some(probe) = lowering.step.map("probe") else {
        // The marker that the command itself leaves.
        return Some(Probe {
            ask: Ask::Marker,
            result: None,
            before: false,
            after: MARKER_AFTER,
            because: None,
        });
    };
    let found = probe.expr("found")?.expr.clone();
    let ask = match probe.map(db::KIND.name()) {
        Some(query) => Ask::Db {
            query: Box::new(DbStep::of(query)?),
            found,
        },
        None => Ask::Http {
            request: Box::new(HttpStep::of(probe.map(http::KIND.name())?, lowering.env)?),
            found,
        },
    };
    Some(Probe {
        ask,
        result: probe.expr("result").map(|placed| placed.expr.clone()),
        before: probe.truth("before").unwrap_or(false),
        after: probe.span_of("after")?,
        because: probe
            .text("because")
            .map(|because| because.trim().to_owned())
            .filter(|because| !because.is_empty()),
    })
}
