//! Whether a run waits for a person, and for whom.
//!
//! A run that waits is active as far as its record says. `run watch` stops with a message when only
//! a person can move the run: an approval is open, or no worker takes its task.

use std::time::{Duration, Instant};

use semel_api::Client;
use semel_api::types::{
    Approval, ChildRunFilter, ChildRunState, RunDetail, RunStatus, Task, TaskFilter,
};
use semel_model::RunId;
use semel_model::task::TaskState;
use serde_json::{Value, json};

use crate::answer::{Answer, Problem};
use crate::text::printable;

/// How long a task may stay open before an operator should look at its workers.
const TASK_PATIENCE: Duration = Duration::from_secs(10);

/// How many active items are looked into.
const ITEMS_MAX: u16 = 100;

/// How many of what is waited for are named.
const NAMED_MAX: usize = 5;

/// What a run waits for that only people can give.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) approvals: Vec<Approval>,
    /// Tasks that no worker has taken.
    pub(super) tasks: Vec<Task>,
}

impl Wanted {
    /// Looks for it. Costs nothing for a run that does not wait.
    pub(super) async fn find(client: &Client, found: &RunDetail) -> Result<Self, Problem> {
        let run = &found.run;
        if run.state.is_ended() || (run.state != RunStatus::Waiting && found.child_runs.is_empty())
        {
            return Ok(Self::default());
        }
        let items = open_items(client, found).await?;
        let mut approvals = client.list_approvals(Some(run.id)).await?.items;
        if !items.is_empty() {
            let others = client.list_approvals(None).await?.items;
            approvals.extend(others.into_iter().filter(|one| items.contains(&one.run)));
        }
        let filter = TaskFilter {
            run: Some(run.id),
            state: Some(TaskState::Open),
            ..TaskFilter::default()
        };
        let tasks = client.list_tasks(&filter).await?.items;
        Ok(Self { approvals, tasks })
    }

    /// Adds to an answer what is waited for, and how to look at it. Deciding is left to people.
    pub(super) fn tell(&self, mut answer: Answer) -> Answer {
        if let (Value::Object(data), false) = (&mut answer.data, self.is_empty()) {
            data.insert("waits_for".to_owned(), self.describe());
        }
        for one in self.approvals.iter().take(NAMED_MAX) {
            let from: Vec<String> = one.from.iter().map(|name| printable(name)).collect();
            let step = printable(&one.step);
            answer = answer
                .note(format!(
                    "`{step}` waits for a decision of {}",
                    from.join(", ")
                ))
                .next(format!("semel approval show {}", one.approval));
        }
        for one in self.tasks.iter().take(NAMED_MAX) {
            let (step, queue) = (printable(&one.step), printable(&one.queue));
            answer = answer
                .note(format!(
                    "`{step}` waits for a worker of the queue `{queue}`"
                ))
                .next(format!("semel task show {}", one.task));
        }
        answer
    }

    fn is_empty(&self) -> bool {
        self.approvals.is_empty() && self.tasks.is_empty()
    }

    fn describe(&self) -> Value {
        let approvals = self.approvals.iter().map(|one| {
            json!({ "kind": "approval", "approval": one.approval, "run": one.run,
                "step": one.step, "from": one.from, "until": one.until })
        });
        let tasks = self.tasks.iter().map(|one| {
            json!({ "kind": "task", "task": one.task, "run": one.run, "step": one.step,
                "queue": one.queue, "until": one.until })
        });
        approvals.chain(tasks).collect()
    }
}

/// The items and branches of a run that are active.
async fn open_items(client: &Client, found: &RunDetail) -> Result<Vec<RunId>, Problem> {
    if found.child_runs.is_empty() {
        return Ok(Vec::new());
    }
    let filter = ChildRunFilter {
        state: Some(ChildRunState::Open),
        limit: Some(ITEMS_MAX),
        ..ChildRunFilter::default()
    };
    let page = client.list_child_runs(found.run.id, &filter).await?;
    Ok(page.items.into_iter().map(|child| child.run).collect())
}

/// How long the same tasks have lain there.
#[derive(Default)]
pub(super) struct Idle {
    since: Option<Instant>,
}

impl Idle {
    /// Whether a person is needed now: for a decision at once, for a task once no worker took it
    /// for a while.
    pub(super) fn needs_person(&mut self, wanted: &Wanted) -> bool {
        if !wanted.approvals.is_empty() {
            return true;
        }
        if wanted.tasks.is_empty() {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        since.elapsed() >= TASK_PATIENCE
    }
}
