//! `semel approval show`.

use semel_model::WaitId;
use semel_model::approval::ApprovalState;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// Show what is to be decided, and by whom.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The approval.
    approval: WaitId,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let found = remote::client(ctx)?
        .get_approval(arguments.approval)
        .await?;
    let answer = Answer::done(&found, views::approval::detail(&found, ctx.style));
    Ok(match (found.state, &found.digest) {
        (ApprovalState::Open, Some(digest)) => {
            let words = format!("{} --digest {digest}", found.approval);
            answer
                .decision("to approve", format!("semel approval approve {words}"))
                .decision("to reject", format!("semel approval reject {words}"))
        }
        (
            ApprovalState::Open
            | ApprovalState::Decided
            | ApprovalState::Elapsed
            | ApprovalState::Withdrawn,
            _,
        ) => answer.next(format!("semel run show {}", found.run)),
    })
}
