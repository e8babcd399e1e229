//! Tasks.

use semel_api::types::Task;
use semel_model::task::TaskState;

use super::{maybe_ago, value};
use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::{ago, printable};

const fn tone(state: TaskState) -> Tone {
    match state {
        TaskState::Done => Tone::Good,
        TaskState::Failed => Tone::Bad,
        TaskState::Lost => Tone::Odd,
        TaskState::Open | TaskState::Held | TaskState::Withdrawn => Tone::Plain,
    }
}

/// Tasks of any runs.
pub(crate) fn table(tasks: &[Task], style: Style) -> String {
    let header = [
        "TASK", "OPENED", "QUEUE", "STEP", "STATE", "ATTEMPT", "WORKER", "RUN",
    ];
    let mut table = style.table(&header);
    for task in tasks {
        table.add_row([
            cell(task.task.to_string()),
            cell(ago(task.opened_at)),
            cell(&task.queue),
            cell(&task.step),
            toned_cell(tone(task.state), task.state.as_str()),
            cell(task.attempt.to_string()),
            cell(task.worker.as_deref().unwrap_or("-")),
            cell(task.run.to_string()),
        ]);
    }
    render(&table)
}

/// Everything about a task.
pub(crate) fn detail(task: &Task, style: Style) -> String {
    let state = style.toned(tone(task.state), task.state.as_str());
    let mut lines = vec![
        format!("{}  {state}", style.bold(&task.task.to_string())),
        format!("  run       {}", task.run),
        format!("  step      {}", printable(&task.step)),
        format!("  queue     {}", printable(&task.queue)),
        format!("  attempt   {}", task.attempt),
        format!("  opened    {} ({})", task.opened_at, ago(task.opened_at)),
    ];
    if let Some(worker) = &task.worker {
        lines.push(format!("  worker    {}", printable(worker)));
    }
    if task.lease_until.is_some() {
        lines.push(format!("  lease     over {}", maybe_ago(task.lease_until)));
    }
    if task.until.is_some() {
        lines.push(format!("  until     {}", maybe_ago(task.until)));
    }
    if task.ended_at.is_some() {
        lines.push(format!("  ended     {}", maybe_ago(task.ended_at)));
    }
    lines.push(format!("  input     {}", value(&task.input)));
    if let Some(answer) = &task.answer {
        lines.push(format!("  answer    {}", value(answer)));
    }
    lines.join("\n")
}
