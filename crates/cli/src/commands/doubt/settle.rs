//! `semel doubt settle`: an operator's decision on an effect in doubt.

use semel_api::types::{Effect, JournalEvent, Settle, Verdict};
use semel_api::{Client, ClientError, Code};
use semel_model::{EffectId, HolderId};

use crate::answer::{Answer, Problem};
use crate::commands::{Repeat, read_json};
use crate::context::Context;
use crate::remote;

/// Record what happened to an effect in doubt.
///
/// Check the destination first: the effect's id is the idempotency key that it was sent. *Did not
/// happen* is accepted only once nothing of the last attempt can still arrive; then Semel performs
/// the effect.
///
/// The key that was sent for a step with a business key names its effect as well, also once the run
/// that sent it has ended: the runs that wait for the key continue.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel doubt settle eff_0123… --happened --result '{\"id\":\"inv_77\"}' --reason 'seen in the books'
  semel doubt settle eff_0123… --did-not-happen --reason 'no such invoice in the books'
  semel doubt settle eff_0123… --fail --reason 'customer left'")]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
pub(crate) struct Arguments {
    /// The effect, or the key that was sent.
    effect: EffectId,
    /// It happened: the run continues after it.
    #[arg(long, group = "verdict")]
    happened: bool,
    /// It did not happen: Semel performs it.
    #[arg(long, group = "verdict")]
    did_not_happen: bool,
    /// The run fails here. Whether the effect happened stays unknown: if you resume the run, the
    /// effect is in doubt again.
    #[arg(long, group = "verdict")]
    fail: bool,
    /// The destination's identifier of what was created.
    #[arg(long, requires = "happened", value_name = "ID")]
    external_id: Option<String>,
    /// The step's result for later steps: JSON, @FILE, or - for stdin. Required if a later step
    /// reads it; null means that there is none.
    #[arg(long, requires = "happened", value_name = "JSON")]
    result: Option<String>,
    /// The attempt that you checked, as `semel effect show` prints it: if there was another attempt
    /// since, nothing is settled.
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let settle = Settle {
        verdict: verdict(arguments),
        external_id: arguments.external_id.clone(),
        result: arguments.result.as_deref().map(read_json).transpose()?,
        attempt: arguments.attempt,
        reason: arguments.reason.clone(),
    };
    let client = remote::client(ctx)?;
    let effect = arguments.effect;
    let found = find(&client, effect).await?;
    // Each doubt is another question: a later attempt's, or one that came back with a resumed run. A
    // named effect recognises a repeat by itself.
    let doubts = match &found {
        Some(found) => count_doubts(&client, found).await?.to_string(),
        None => HolderId::generate().to_string(),
    };
    let asked = serde_json::to_string(&settle).unwrap_or_default();
    let words = ["doubt settle", &effect.to_string(), &doubts, &asked];
    let key = arguments.repeat.key_or(&words);
    let settled = client.settle_effect(effect, &settle, &key).await?.body;
    let Some(found) = found else {
        let text = format!("{effect} is settled; runs that wait for its key continue");
        return Ok(Answer::done(&settled, text).next(format!("semel once show {effect}")));
    };
    let text = match settled.verdict {
        Verdict::Happened => format!("{effect} happened; its run continues"),
        Verdict::DidNotHappen => format!("{effect} did not happen; Semel performs it now"),
        Verdict::Fail => format!("{effect} stays unknown; its run fails"),
    };
    Ok(Answer::done(&settled, text).next(format!("semel run watch {}", found.run)))
}

/// Nothing where this is not the effect of one run, but perhaps the key of a named one.
async fn find(client: &Client, effect: EffectId) -> Result<Option<Effect>, ClientError> {
    match client.get_effect(effect).await {
        Ok(found) => Ok(Some(found)),
        Err(ClientError::Problem(problem)) if problem.code() == Some(Code::EffectNotFound) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// How often the effect was in doubt.
async fn count_doubts(client: &Client, found: &Effect) -> Result<usize, ClientError> {
    let journal = client.get_run(found.run).await?.journal;
    let events = journal.iter().flat_map(|line| &line.events);
    let of_it = |event: &&JournalEvent| {
        event.event["event"] == "doubted" && event.event["step"] == *found.step
    };
    Ok(events.filter(of_it).count())
}

const fn verdict(arguments: &Arguments) -> Verdict {
    if arguments.happened {
        Verdict::Happened
    } else if arguments.did_not_happen {
        Verdict::DidNotHappen
    } else {
        Verdict::Fail
    }
}
