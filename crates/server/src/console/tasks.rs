//! Tasks: what workers outside have to do, by queue, and who holds what.

use std::collections::BTreeMap;

use jiff::Timestamp;
use semel_api::types::{Page as Found, Task};
use semel_model::task::TaskState;

use super::forms::section;
use super::markup::{self, Markup};
use super::named_runs::NamedRuns;
use super::shell::{Shell, keep, next_page, show_list};
use super::visit::Visit;
use super::{empty, words};
use crate::answer::Answered;

/// How many tasks a page looks at.
const LOOKED_AT: usize = 100;

/// What is known of a queue.
#[derive(Default)]
struct Queue {
    open: usize,
    held: usize,
    oldest: Option<Timestamp>,
    workers: Vec<String>,
}

/// `GET /console/{namespace}/tasks`.
pub(super) async fn page(visit: Visit) -> Answered {
    let (queue, all) = (visit.parameter("queue"), visit.parameter("all") == "yes");
    let (limit, cursor) = (LOOKED_AT.to_string(), visit.parameter("cursor"));
    let asked = [
        ("queue", queue),
        ("all", if all { "true" } else { "" }),
        ("limit", &limit),
        ("cursor", cursor),
    ];
    let json = words::address("/v1/tasks", &asked);
    let mut command = "semel task list".to_owned();
    if !queue.is_empty() {
        words::push_option(&mut command, "queue", queue);
    }
    if all {
        command.push_str(" --all");
    }
    if !cursor.is_empty() {
        words::push_option(&mut command, "cursor", cursor);
    }
    let other = match all {
        true => Markup::text("Only open ones").link(&address(&visit, queue, "")),
        false => Markup::text("Ended ones, too").link(&address(&visit, queue, "yes")),
    };
    let every = (!queue.is_empty()).then(|| {
        let all = if all { "yes" } else { "" };
        Markup::text("Every queue").link(&address(&visit, "", all))
    });
    let links = Markup::join([other].into_iter().chain(every));
    let mut body = vec![links.within("p", "presets")];
    let shell = Shell::new(&visit, "/tasks", "Tasks and workers", &json, &command);
    let found: Found<Task> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, body),
    };
    if found.items.is_empty() && found.next.is_some() {
        let older = "Among the newest tasks none is open. Older ones may be.";
        body.push(Markup::text(older).within("p", "empty"));
    } else if found.items.is_empty() {
        body.push(empty::teach(
            "No worker has anything to do. A step of the kind task puts work into a queue; a worker, or a program of your own, claims it.",
            "semel worker --help",
            "docs/tasks.md",
        ));
    } else {
        body.push(section("queues", "Queues", &queues(&visit, &found.items)));
        let named = NamedRuns::of(&visit, found.items.iter().map(|it| it.run).collect()).await?;
        let table = table(&visit, &found.items, &named);
        body.push(section("tasks", "Tasks", &table));
    }
    let filter = [("queue", queue), ("all", if all { "yes" } else { "" })];
    let here = visit.page("/tasks");
    let next = found.next.as_deref();
    body.extend(next_page("Older tasks", &here, &filter, next));
    let lead = Markup::fixed("What workers outside have to do, and who holds what.");
    show_list(shell, lead, body)
}

fn address(visit: &Visit, queue: &str, all: &str) -> String {
    words::address(&visit.page("/tasks"), &[("queue", queue), ("all", all)])
}

fn queues(visit: &Visit, tasks: &[Task]) -> Markup {
    let mut queues: BTreeMap<&str, Queue> = BTreeMap::new();
    for task in tasks {
        let queue = queues.entry(&task.queue).or_default();
        match task.state {
            TaskState::Open => {
                queue.open += 1;
                let older = queue.oldest.is_none_or(|oldest| task.opened_at < oldest);
                if older {
                    queue.oldest = Some(task.opened_at);
                }
            }
            TaskState::Held => queue.held += 1,
            TaskState::Done | TaskState::Failed | TaskState::Lost | TaskState::Withdrawn => {}
        }
        if let Some(worker) = &task.worker
            && !queue.workers.contains(worker)
        {
            queue.workers.push(worker.clone());
        }
    }
    let rows: Vec<Vec<Markup>> = queues
        .iter()
        .map(|(name, queue)| {
            vec![
                markup::code(name).link(&address(visit, name, "")),
                Markup::text(&queue.open.to_string()),
                Markup::text(&queue.held.to_string()),
                queue.oldest.map(|at| visit.time(at)).unwrap_or_default(),
                Markup::text(&queue.workers.join(", ")),
            ]
        })
        .collect();
    let columns = ["Queue", "Open", "Held", "Oldest open", "Workers"];
    markup::table("Queues", &columns, &rows)
}

fn table(visit: &Visit, tasks: &[Task], named: &NamedRuns) -> Markup {
    let row = |task: &Task| {
        let effect = task.task.to_string();
        vec![
            state(task),
            markup::code(&task.step).link(&visit.page(&format!("/effects/{effect}"))),
            Markup::text(&task.queue),
            Markup::text(task.worker.as_deref().unwrap_or("-")),
            Markup::text(&task.attempt.to_string()),
            visit.time(task.opened_at),
            task.lease_until
                .map(|at| visit.time(at))
                .unwrap_or_default(),
            named.link(visit, task.run),
        ]
    };
    let rows: Vec<Vec<Markup>> = tasks.iter().map(row).collect();
    let columns = [
        "State",
        "Step",
        "Queue",
        "Worker",
        "Attempt",
        "Opened",
        "Lease until",
        "Key of the run",
    ];
    markup::table("Tasks, the newest first", &columns, &rows)
}

fn state(task: &Task) -> Markup {
    match task.state {
        TaskState::Open => markup::other_state("rest", "◔", "open"),
        TaskState::Held => markup::other_state("live", "▶", "held"),
        TaskState::Done => markup::other_state("good", "●", "done"),
        TaskState::Failed => markup::other_state("bad", "■", "failed"),
        TaskState::Lost => markup::other_state("doubt", "◆", "lost"),
        TaskState::Withdrawn => markup::other_state("quiet", "✕", "withdrawn"),
    }
}
