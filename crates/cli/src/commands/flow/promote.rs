//! `semel flow promote`: which release new runs start on.

use semel_api::types::{AskRehearsal, FlowDetail, Promote};
use semel_api::{Client, Code};
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::code;
use crate::commands::{Repeat, rehearse};
use crate::context::Context;
use crate::outcome::Outcome;
use crate::output;
use crate::remote;

/// Make a release the one that new runs start on.
///
/// Runs stay on the release that they started on. To go back, promote an older release. Where the
/// server requires a rehearsal that the release does not have, it is rehearsed first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel flow promote greet       the latest release
  semel flow promote greet r1    back to the first
  semel flow promote greet --override 'the bank is down'    without a passing rehearsal")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The release; the latest by default.
    #[arg(value_name = "rN", value_parser = read_number)]
    release: Option<i32>,
    /// The release, as other commands take it.
    #[arg(long = "release", value_name = "rN", value_parser = read_number, conflicts_with = "release")]
    named_release: Option<i32>,
    /// Promote without a passing rehearsal, for this reason. Needs the right `override`.
    #[arg(long = "override", value_name = "REASON")]
    override_reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let flow = &arguments.flow;
    let found = client.get_flow(flow).await?;
    let release = match arguments.release.or(arguments.named_release) {
        Some(release) => release,
        None => latest(&found)?,
    };
    // Promoting r1, r2, r1 and r2 again are four commands, so what is live now, and since when, goes into the key.
    let live = found.flow.live.unwrap_or_default().to_string();
    let live_at = found.flow.live_at.map(|at| at.to_string());
    let key = arguments.repeat.key_or(&[
        "flow promote",
        flow.as_str(),
        &release.to_string(),
        &live,
        live_at.as_deref().unwrap_or_default(),
    ]);
    let promote = Promote {
        release,
        override_reason: arguments.override_reason.clone(),
    };
    let promoted = match client.promote_flow(flow, &promote, &key).await {
        Err(error) if error.code() == Code::FlowNotRehearsed.as_str() => {
            prove(ctx, &client, &found, release).await?;
            // Another command: the first was answered with its refusal.
            let key = format!("{key}-rehearsed");
            client.promote_flow(flow, &promote, &key).await?.body
        }
        // The answer to an earlier promotion, and another release went live since.
        Ok(earlier) if earlier.replayed && !is_live(&client, flow, release).await? => {
            let message = format!(
                "the same command promoted r{release} before, and another release is live now"
            );
            return Err(
                Problem::new(Outcome::Conflict, code::PROMOTED_BEFORE, message)
                    .hint("to promote it again, pass --idempotency-key with a key of your own"),
            );
        }
        promoted => promoted?.body,
    };
    let text = format!("{flow} r{} is live", promoted.release);
    let answer = Answer::done(&promoted, text);
    let answer = match promoted.proof.filter(|proof| proof != "proven") {
        Some(proof) => answer
            .note(format!("warning: r{} is {proof}", promoted.release))
            .next(format!("semel rehearse {flow}")),
        None => answer,
    };
    Ok(answer.next(format!("semel flow show {flow}")))
}

/// Whether a release is live.
async fn is_live(client: &Client, flow: &FlowName, release: i32) -> Result<bool, Problem> {
    Ok(client.get_flow(flow).await?.flow.live == Some(release))
}

/// Has a release rehearsed that is to go live.
async fn prove(
    ctx: &Context,
    client: &Client,
    found: &FlowDetail,
    number: i32,
) -> Result<(), Problem> {
    let release = found.releases.iter().find(|one| one.number == number);
    let source = release.map(|one| one.source.clone()).unwrap_or_default();
    if semel_flow::examples(&source).is_empty() {
        return Err(without_examples(found, number, &source));
    }
    output::note(&format!(
        "{} r{number} is rehearsed before it goes live",
        found.flow.name
    ));
    let ask = AskRehearsal {
        source,
        file: found.flow.name.clone(),
        example: None,
        fault: None,
        seed: 0,
    };
    let rehearsal = rehearse::rehearse(ctx, client, &ask).await?;
    let report = rehearse::report_of(&rehearsal)?;
    match report.passed {
        true => Ok(()),
        false => {
            output::note(&report.to_text());
            let message = format!("r{number} is not live: its rehearsal shows violations");
            Err(
                Problem::new(Outcome::Failed, code::REHEARSAL_FAILED, message)
                    .hint("fix the flow, or promote with --override REASON"),
            )
        }
    }
}

/// A release that cannot be rehearsed, and what to write so that it can.
fn without_examples(found: &FlowDetail, number: i32, source: &str) -> Problem {
    let name = &found.flow.name;
    let message = format!("{name} r{number} is not live: it has no examples to rehearse it with");
    let lines = semel_rehearse::first_example(source);
    let hint = format!(
        "add an example to the flow, with an input and what its destinations answer, then push, publish and promote it:\n{lines}"
    );
    Problem::new(Outcome::Conflict, Code::FlowNotRehearsed.as_str(), message)
        .hint(hint)
        .next(format!("semel flow show {name}"))
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
pub(super) fn read_number(text: &str) -> Result<i32, String> {
    text.strip_prefix('r')
        .unwrap_or(text)
        .parse()
        .ok()
        .filter(|number| *number > 0)
        .ok_or_else(|| "expected a release such as r3".to_owned())
}
