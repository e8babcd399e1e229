//! What a batch does to entries and locks ahead of its statement, inside its transaction.

use futures_util::future::try_join;
use semel_model::effect::ConfirmedBy;
use semel_model::event::Event;
use semel_model::json::same;
use semel_model::kv::{Operation, Verb};
use semel_model::{Fault, RunId, SeededBug};
use serde_json::{Value, json};
use tokio_postgres::types::{Json, ToSql};
use tokio_postgres::{Error, Row};

use super::adds::Additions;
use super::{
    ADD, DELETE, HOLD, Placed, READ, SET_HELD, SET_IF_ABSENT, SET_ONE, Write, column, read_value,
    slot,
};
use crate::locks;
use crate::writer::connection::PreparedClient;

/// One statement or a few that depend on each other.
pub(crate) enum Task<'a> {
    /// An operation by itself.
    One(Placed<'a>),
    /// Additions to one entry, made as one.
    Additions(Additions<'a>),
}

/// What became of a task.
pub(crate) enum Performed {
    /// It was made; these are the events that were not known before.
    Made(Vec<(RunId, Event)>),
    /// Additions that cannot be made as one: nothing was changed, and they are to be made one by one.
    OneByOne,
}

/// The tasks of operations in their order. Additions to one entry that follow each other are one task, unless
/// they are to be made one by one.
pub(crate) fn tasks<'a>(ordered: &[Placed<'a>], one_by_one: bool) -> Vec<Task<'a>> {
    let mut tasks = Vec::with_capacity(ordered.len());
    let may_join = |one: &Placed<'a>, other: &Placed<'a>| {
        !one_by_one && is_add(one) && is_add(other) && one.place() == other.place()
    };
    for placed in ordered.chunk_by(may_join) {
        let together = (placed.len() > 1).then(|| Additions::of(placed));
        match together.flatten() {
            Some(additions) => tasks.push(Task::Additions(additions)),
            None => tasks.extend(placed.iter().copied().map(Task::One)),
        }
    }
    tasks
}

fn is_add(placed: &Placed<'_>) -> bool {
    matches!(placed.write.operation.verb, Verb::Add { .. })
}

impl Task<'_> {
    /// Carries it out inside the open transaction.
    pub(crate) async fn perform(&self, ready: PreparedClient<'_>) -> Result<Performed, Error> {
        match self {
            Self::One(placed) => {
                let event = perform_one(ready, *placed).await?;
                let made = event.map(|event| (placed.item.run, event));
                Ok(Performed::Made(made.into_iter().collect()))
            }
            Self::Additions(additions) => {
                let Some(results) = additions.perform(ready).await? else {
                    return Ok(Performed::OneByOne);
                };
                let made = additions.placed.iter().zip(results);
                let event = |(placed, result): (&Placed<'_>, Value)| {
                    (placed.item.run, done(&placed.write.step, result))
                };
                Ok(Performed::Made(made.map(event).collect()))
            }
        }
    }
}

fn done(step: &str, result: Value) -> Event {
    Event::Done {
        step: step.to_owned(),
        by: ConfirmedBy::Commit,
        external_id: None,
        status: None,
        result,
    }
}

/// Makes one operation inside the open transaction; gives its event, where that was not known
/// before.
async fn perform_one(
    ready: PreparedClient<'_>,
    Placed { item, write }: Placed<'_>,
) -> Result<Option<Event>, Error> {
    let Write {
        step,
        operation: Operation { entry, verb },
        retry_at,
        set_count,
    } = write;
    let slot = column(slot(item.namespace_id, entry));
    let namespace = &item.namespace_id;
    let client = ready.client;
    let outcome = match verb {
        Verb::Add { by, ttl } => {
            let ttl = ttl.map(semel_model::Span::as_secs_f64);
            let values: [&(dyn ToSql + Sync); 5] = [&slot, namespace, entry, by, &ttl];
            let row = client.query_opt(ready.statement(ADD), &values).await?;
            row.map(|row| json!(row.get::<_, i64>(0))).ok_or_else(|| {
                Fault::permanent("kv-not-a-number", format!("{entry} is not a whole number"))
            })
        }
        Verb::Set {
            value,
            if_absent: false,
            expect: None,
            ttl,
        } => {
            let ttl = ttl.map(semel_model::Span::as_secs_f64);
            let values: [&(dyn ToSql + Sync); 6] =
                [&slot, namespace, entry, &Json(value), &ttl, set_count];
            client.execute(ready.statement(SET_ONE), &values).await?;
            return Ok(None);
        }
        Verb::Delete => {
            let values: [&(dyn ToSql + Sync); 3] = [&slot, namespace, entry];
            client.execute(ready.statement(DELETE), &values).await?;
            return Ok(None);
        }
        Verb::Set {
            value, ttl, expect, ..
        } => {
            let ttl = ttl.map(semel_model::Span::as_secs_f64);
            let value = Json(value);
            let values: [&(dyn ToSql + Sync); 5] = [&slot, namespace, entry, &value, &ttl];
            let place: [&(dyn ToSql + Sync); 3] = [&slot, namespace, entry];
            let text = match expect.as_ref().filter(|expect| !expect.is_null()) {
                Some(expected) => {
                    let row = client.query_opt(ready.statement(HOLD), &place).await?;
                    let is_there = |row: Row| same(&read_value(&row), expected);
                    row.is_some_and(is_there).then_some(SET_HELD)
                }
                // Nothing is expected, so nothing may be there.
                None => Some(SET_IF_ABSENT),
            };
            // Sent together, so that no other statement of the batch comes in between.
            let set = async {
                match text {
                    Some(text) => client.query_opt(ready.statement(text), &values).await,
                    None => Ok(None),
                }
            };
            let (set, row) = try_join(set, client.query_opt(ready.statement(READ), &place)).await?;
            let held = row.map_or(Value::Null, |row| read_value(&row));
            Ok(json!({ "set": set.is_some(), "value": held }))
        }
        Verb::Lock { lease } => {
            let (run, lease) = (item.run.as_uuid(), lease.as_secs_f64());
            let values: [&(dyn ToSql + Sync); 5] = [&slot, namespace, entry, run, &lease];
            let row = client
                .query_opt(ready.statement(locks::TAKE), &values)
                .await?;
            row.map(|row| locks::describe(&row))
                .or_else(|| {
                    SeededBug::LockGivenTwice
                        .is_seeded()
                        .then(|| json!({ "token": 1 }))
                })
                .ok_or_else(|| locks::held(entry))
        }
        Verb::Unlock => {
            let values: [&(dyn ToSql + Sync); 4] = [&slot, namespace, entry, item.run.as_uuid()];
            let row = client
                .query_opt(ready.statement(locks::RELEASE), &values)
                .await?;
            Ok(json!({ "released": row.is_some() }))
        }
        Verb::Get => Ok(Value::Null),
    };
    Ok(Some(match outcome {
        Ok(result) => done(step, result),
        Err(fault) => Event::Failed {
            step: step.clone(),
            retry_at: retry_at.filter(|_| fault.retryable),
            fault,
        },
    }))
}
