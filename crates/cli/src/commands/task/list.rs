//! `semel task list`.

use semel_api::types::TaskFilter;
use semel_model::RunId;
use semel_model::task::TaskState;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::paging::{PageArguments, more};
use crate::remote;
use crate::views;

/// List tasks that have not ended, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only those of this queue.
    #[arg(long, visible_alias = "type")]
    queue: Option<String>,
    /// Only those of this run.
    #[arg(long)]
    run: Option<RunId>,
    /// Only in this state: open, held, done, failed, lost or withdrawn.
    #[arg(long)]
    state: Option<TaskState>,
    /// Include ended ones.
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    page: PageArguments,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = TaskFilter {
        queue: arguments.queue.clone(),
        run: arguments.run,
        state: arguments.state,
        all: arguments.all,
        limit: arguments.page.limit,
        cursor: arguments.page.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_tasks(&filter).await?;
    let answer = Answer::done(&page, views::task::table(&page.items, ctx.style));
    let answer = more(answer, page.next.as_deref());
    let open = page.items.iter().find(|task| task.state == TaskState::Open);
    Ok(match (open, page.items.first()) {
        (Some(task), _) => answer.next(format!("semel worker --queue {} -- COMMAND", task.queue)),
        (None, Some(task)) => answer.next(format!("semel task show {}", task.task)),
        (None, None) if page.next.is_some() => answer,
        (None, None) => answer.note("no task matches"),
    })
}
