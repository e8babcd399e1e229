//! The result of a step whose child runs have ended.

use semel_flow::Action;
use semel_flow::release::{Foreach, Join, OnError, Parallel};
use semel_model::event::Event;
use semel_model::{Fault, json};
use semel_store::child_runs::{self, ChildCounts, ChildRunFilter, ChildRunView};
use serde_json::{Map, Value, json};

use super::super::{Turn, TurnError};
use super::unsure;
use crate::state::Current;

/// How many items give their results to the step's own.
const RESULTS_MAX: i64 = 1000;

/// How large those results may be together.
const RESULTS_BYTES_MAX: usize = 64 * 1024;

/// How many items that failed are named in the step's result.
const FAILURES_MAX: i64 = 20;

/// How deep the results of branches may nest: two levels are around each step's result.
const JOINED_DEPTH_MAX: usize = json::RESULT_DEPTH_MAX + 2;

/// How many of them are named in the step's fault.
const FAILURES_NAMED: usize = 5;

/// How many characters of each one's reason are shown there.
const REASON_CHARS_SHOWN: usize = 200;

impl Turn {
    /// The outcome of the child runs.
    pub(super) async fn gather(&self) -> Result<Event, TurnError> {
        let counts = child_runs::count(self.cell(), self.of())
            .await
            .map_err(unsure)?;
        let failures = self.list(Some("failed"), FAILURES_MAX).await?;
        let by_a_person = match &self.state.current {
            Current::Fan(fan) => fan.stopped.clone().and_then(|(fault, _)| fault),
            Current::Fresh
            | Current::Reading(_)
            | Current::Effect(_)
            | Current::Waiting { .. }
            | Current::Approving(_)
            | Current::Broken(_) => None,
        };
        let (mut result, mut joined, mut fault) = (Value::Null, Value::Null, None);
        if let Action::Foreach(each) = &self.step().action {
            let results = self.results(&counts).await?;
            result = each_result(&counts, results, &failures);
            fault = each_fault(each, &counts, &failures);
        }
        if let Action::Parallel(parallel) = &self.step().action {
            let ended = self.ended(parallel).await?;
            joined = join(&ended);
            fault = branch_fault(parallel, &ended, &counts, &failures);
            if json::depth(&joined) > JOINED_DEPTH_MAX {
                joined = Value::Null;
                let message = "what the branches gave nests too deep";
                fault = fault.or_else(|| Some(Fault::permanent("value-unstorable", message)));
            }
        }
        Ok(Event::FanEnded {
            step: self.step().id.to_string(),
            result,
            joined,
            fault: by_a_person.or(fault),
        })
    }

    async fn list(&self, state: Option<&str>, most: i64) -> Result<Vec<ChildRunView>, TurnError> {
        let filter = ChildRunFilter {
            step: Some(self.step().id.as_str()),
            state,
            after: None,
        };
        child_runs::list(self.cell(), self.run, filter, most)
            .await
            .map_err(unsure)
    }

    /// Each item's result, where they are small enough to keep.
    async fn results(&self, counts: &ChildCounts) -> Result<Value, TurnError> {
        if counts.all() > RESULTS_MAX {
            return Ok(Value::Null);
        }
        let views = self.list(None, RESULTS_MAX).await?;
        let bytes: usize = views
            .iter()
            .map(|it| it.result.as_ref().map_or(4, String::len))
            .sum();
        if bytes > RESULTS_BYTES_MAX {
            return Ok(Value::Null);
        }
        let results = Value::Array(views.iter().map(result_of).collect());
        // Two levels of the step's own are around it.
        match json::depth(&results) + 2 > json::RESULT_DEPTH_MAX {
            true => Ok(Value::Null),
            false => Ok(results),
        }
    }

    /// The branches that count.
    async fn ended(&self, parallel: &Parallel) -> Result<Vec<ChildRunView>, TurnError> {
        match parallel.join {
            Join::All => self.list(Some("succeeded"), RESULTS_MAX).await,
            Join::First => {
                let found = child_runs::first_succeeded(self.cell(), self.of()).await;
                Ok(found.map_err(unsure)?.into_iter().collect())
            }
        }
    }
}

fn each_result(counts: &ChildCounts, results: Value, failures: &[ChildRunView]) -> Value {
    let failures: Vec<Value> = failures.iter().map(failure).collect();
    json!({
        "count": counts.all(),
        "succeeded": counts.succeeded,
        "failed": counts.failed + counts.cancelled,
        "results": results,
        "failures": failures,
    })
}

fn each_fault(each: &Foreach, counts: &ChildCounts, failures: &[ChildRunView]) -> Option<Fault> {
    let goes_on = match each.on_error {
        OnError::Continue => true,
        OnError::Stop | OnError::Collect => false,
    };
    if goes_on || counts.succeeded == counts.all() {
        return None;
    }
    let mut named: Vec<String> = failures
        .iter()
        .take(FAILURES_NAMED)
        .map(|child| {
            let why = fault_of(child).map_or_else(String::new, |fault| {
                format!(": {}", cut(&fault.message, REASON_CHARS_SHOWN))
            });
            format!("item {}{why}", child.key)
        })
        .collect();
    if named.is_empty() {
        named.push("an item was cancelled".to_owned());
    }
    let message = format!(
        "{} ({} done, {} failed, {} cancelled, {} not begun)",
        named.join("; "),
        counts.succeeded,
        counts.failed,
        counts.cancelled,
        counts.pending
    );
    Some(Fault::permanent("item-failed", message))
}

/// The beginning of a text.
fn cut(text: &str, most: usize) -> &str {
    let end = text.char_indices().nth(most);
    end.map_or(text, |(at, _)| &text[..at])
}

fn branch_fault(
    parallel: &Parallel,
    ended: &[ChildRunView],
    counts: &ChildCounts,
    failures: &[ChildRunView],
) -> Option<Fault> {
    let enough = match parallel.join {
        Join::All => counts.succeeded == counts.all(),
        Join::First => !ended.is_empty(),
    };
    if enough {
        return None;
    }
    let message = match failures.first() {
        Some(child) => {
            let why = fault_of(child).map_or_else(|| "failed".to_owned(), |fault| fault.message);
            format!("branch {}: {why}", child.key)
        }
        None => "a branch was cancelled".to_owned(),
    };
    Some(Fault::permanent("branch-failed", message))
}

/// What the steps of branches gave, by step.
fn join(ended: &[ChildRunView]) -> Value {
    let mut steps = Map::new();
    for child in ended {
        if let Value::Object(given) = result_of(child) {
            steps.extend(given);
        }
    }
    Value::Object(steps)
}

fn failure(child: &ChildRunView) -> Value {
    let fault = fault_of(child);
    json!({
        "index": child.index,
        "key": child.key,
        "run": child.run.to_string(),
        "code": fault.as_ref().map(|fault| fault.code.clone()),
        "message": fault.as_ref().map(|fault| fault.message.clone()),
    })
}

fn result_of(child: &ChildRunView) -> Value {
    let text = child.result.as_deref();
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

fn fault_of(child: &ChildRunView) -> Option<Fault> {
    serde_json::from_str(child.fault.as_deref()?).ok()
}
