//! `semel run replay`: shows what a replay would do, and carries it out.

use semel_api::types::{PreviewReplay, Replay};
use semel_model::RunId;

use crate::answer::{Answer, Problem};
use crate::commands::{Repeat, read_json};
use crate::context::Context;
use crate::remote;
use crate::text::option;
use crate::views::replay::text;

/// Show what a replay of a run would do, and carry it out with --apply.
///
/// A replay is the next run of the same key, by default on the live release. What earlier runs of
/// the key did is not done again. Without --apply nothing is changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel run replay run_0123…
  semel run replay run_0123… --release r4 --from ship
  semel run replay run_0123… --accept-changed charge --apply 5e0c… --reason 'fixed in r4'")]
pub(crate) struct Arguments {
    /// The run: the last one of its key.
    run: RunId,
    /// The release of the next run: `live`, or a number such as r4.
    #[arg(long, value_name = "RELEASE", default_value = "live", value_parser = release)]
    release: ReleaseChoice,
    /// Make reads and functions again from this step on; by default from the first that is not done.
    #[arg(long, value_name = "STEP")]
    from: Option<String>,
    /// Another input with the same key: JSON, @FILE, or - for stdin. Needs --reason.
    #[arg(long, value_name = "JSON", requires = "reason")]
    input: Option<String>,
    /// Skip this step although it is done with another request. May be repeated.
    #[arg(long, value_name = "STEP")]
    accept_changed: Vec<String>,
    /// Carry out what the preview with this digest showed.
    #[arg(long, value_name = "DIGEST")]
    apply: Option<String>,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    repeat: Repeat,
}

/// A release, as the command line names it.
#[derive(Clone, Copy, Debug)]
struct ReleaseChoice(Option<i32>);

fn release(text: &str) -> Result<ReleaseChoice, String> {
    if text == "live" {
        return Ok(ReleaseChoice(None));
    }
    let number = text.strip_prefix('r').unwrap_or(text).parse();
    match number {
        Ok(number) if number > 0 => Ok(ReleaseChoice(Some(number))),
        Ok(_) | Err(_) => Err("expected live, or a release's number such as r4".to_owned()),
    }
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let input = arguments.input.as_deref().map(read_json).transpose()?;
    let client = remote::client(ctx)?;
    let run = arguments.run;
    let asked = PreviewReplay {
        release: arguments.release.0,
        from: arguments.from.clone(),
        input,
        accept_changed: arguments.accept_changed.clone(),
    };
    let Some(digest) = &arguments.apply else {
        let preview = client.preview_replay(run, &asked).await?;
        let answer = Answer::done(&preview, text(&preview, ctx.style));
        return Ok(match preview.obstacles.is_empty() {
            true => answer.decision("to carry it out", again(arguments, &preview.digest)),
            false => answer,
        });
    };
    let replay = Replay {
        digest: digest.clone(),
        release: asked.release,
        from: asked.from,
        input: asked.input,
        accept_changed: asked.accept_changed,
        reason: arguments.reason.clone(),
    };
    let words = ["run replay", &run.to_string(), digest];
    let key = arguments.repeat.key_or(&words);
    let replayed = client.replay_run(run, &replay, &key).await?.body;
    let next = replayed.run;
    let text = format!("{run} is replayed by {next}: what is done is not done again");
    Ok(Answer::done(&replayed, text).next(format!("semel run watch {next}")))
}

/// The command that carries the preview out.
fn again(arguments: &Arguments, digest: &str) -> String {
    let mut line = format!("semel run replay {}", arguments.run);
    let mut add = |name: &str, value: &str| {
        line.push(' ');
        line.push_str(&option(name, value));
    };
    if let Some(number) = arguments.release.0 {
        add("release", &format!("r{number}"));
    }
    if let Some(from) = &arguments.from {
        add("from", from);
    }
    if let Some(input) = &arguments.input {
        add("input", input);
    }
    for step in &arguments.accept_changed {
        add("accept-changed", step);
    }
    add("apply", digest);
    add("reason", arguments.reason.as_deref().unwrap_or("…"));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_live_or_a_number() {
        assert!(matches!(release("live"), Ok(ReleaseChoice(None))));
        assert!(matches!(release("r4"), Ok(ReleaseChoice(Some(4)))));
        for wrong in ["", "r0", "r-1", "four"] {
            assert!(release(wrong).is_err(), "{wrong}");
        }
    }
}
