//! `semel task show`.

use semel_model::EffectId;
use semel_model::task::TaskState;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// Show one task.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The task.
    task: EffectId,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let found = remote::client(ctx)?.get_task(arguments.task).await?;
    let answer = Answer::done(&found, views::task::detail(&found, ctx.style));
    let answer = match found.state {
        TaskState::Lost => answer.next(format!("semel effect show {}", found.task)),
        TaskState::Open
        | TaskState::Held
        | TaskState::Done
        | TaskState::Failed
        | TaskState::Withdrawn => answer,
    };
    Ok(answer.next(format!("semel run show {}", found.run)))
}
