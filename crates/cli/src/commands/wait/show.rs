//! `semel wait show`.

use semel_model::WaitId;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views;

/// Show a wait, and what came for it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The wait.
    wait: WaitId,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let wait = remote::client(ctx)?.get_wait(arguments.wait).await?;
    let mut text = views::effect::waits(std::slice::from_ref(&wait), ctx.style);
    if let Some(payload) = &wait.payload {
        text.push_str(&format!(
            "\npayload  {}",
            crate::text::printable(&payload.to_string())
        ));
    }
    let answer = Answer::done(&wait, text);
    Ok(match wait.state.as_str() {
        "open" => answer.next(format!("semel wait complete {} --payload '{{…}}'", wait.id)),
        _ => answer.next(format!("semel run show {}", wait.run)),
    })
}
