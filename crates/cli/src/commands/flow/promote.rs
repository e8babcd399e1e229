//! `semel flow promote`: which release new runs start on.

use semel_api::types::{FlowDetail, Promote};
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::remote;

/// Make a release the one that new runs start on.
///
/// Runs stay on the release that they started on. To go back, promote an older release.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel flow promote greet       the latest release
  semel flow promote greet r1    back to the first")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The release; the latest by default.
    #[arg(value_name = "rN", value_parser = read_number)]
    release: Option<i32>,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let flow = &arguments.flow;
    let found = client.get_flow(flow).await?;
    let release = match arguments.release {
        Some(release) => release,
        None => latest(&found)?,
    };
    // Promoting r1, r2 and r1 again are three commands, so what is live now goes into the key.
    let live = found.flow.live.unwrap_or_default().to_string();
    let key =
        arguments
            .repeat
            .key_or(&["flow promote", flow.as_str(), &release.to_string(), &live]);
    let promoted = client
        .promote_flow(flow, &Promote { release }, &key)
        .await?
        .body;
    let text = format!("{flow} r{} is live", promoted.release);
    Ok(Answer::done(&promoted, text).next(format!("semel flow show {flow}")))
}

fn latest(found: &FlowDetail) -> Result<i32, Problem> {
    found.flow.latest.ok_or_else(|| {
        let name = &found.flow.name;
        Problem::new(
            Outcome::NotFound,
            semel_api::Code::ReleaseNotFound.as_str(),
            format!("{name} has no release"),
        )
        .hint("publish its draft first")
        .next(format!("semel flow publish {name}"))
    })
}

/// Reads `r3` or `3`.
fn read_number(text: &str) -> Result<i32, String> {
    text.strip_prefix('r')
        .unwrap_or(text)
        .parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| "expected a release such as r3".to_owned())
}
