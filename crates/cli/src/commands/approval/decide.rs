//! `semel approval approve` and `semel approval reject`.

use semel_api::types::Decide;
use semel_model::WaitId;
use semel_model::approval::Digest;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::output::{self, Reader};
use crate::remote;
use crate::views;

/// Decide what is shown.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The approval.
    approval: WaitId,
    /// A comment on the decision.
    #[arg(long)]
    comment: Option<String>,
    /// The digest of what you saw; by default the command shows what is asked now and decides that.
    #[arg(long)]
    digest: Option<String>,
}

pub(crate) async fn run(
    ctx: &Context,
    arguments: &Arguments,
    approved: bool,
) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let digest = match &arguments.digest {
        Some(digest) => Digest::from_text(digest),
        None => {
            let found = client.get_approval(arguments.approval).await?;
            if ctx.reader == Reader::Person {
                output::note(&views::approval::detail(&found, ctx.style));
            }
            found.digest.ok_or_else(|| {
                Problem::local("your token may not see what this approval shows")
                    .hint("whoever it asks can decide it: `semel approval show` names them")
            })?
        }
    };
    let decide = Decide {
        approved,
        digest,
        comment: arguments.comment.clone(),
        name: None,
    };
    let answer = client.decide_approval(arguments.approval, &decide).await?;
    let decided = answer.body;
    let text = views::approval::decision(&decided.decision, ctx.style);
    let next = format!("semel run watch {}", decided.run);
    let done = Answer::done(&decided, text).next(next);
    Ok(match answer.replayed {
        true => done.note("it had the same decision already"),
        false => done,
    })
}
