//! `semel doubt settle`: an operator's decision on an effect in doubt, or on all of one step.

mod group;

use semel_api::types::{Effect, JournalEvent, Settle, SettleGroup, Verdict};
use semel_api::{Client, ClientError, Code};
use semel_model::{EffectId, FlowName, HolderId};

use crate::answer::{Answer, Problem};
use crate::commands::{Repeat, read_json};
use crate::context::Context;
use crate::remote;

/// Record what happened to an effect in doubt.
///
/// Check the destination first: `key_sent` is the idempotency key that it was sent. *Did not
/// happen* is accepted only once nothing of the last attempt can still arrive; then Semel performs
/// the effect.
///
/// The key that was sent for a step with a business key names its effect as well, also once the run
/// that sent it has ended: the runs that wait for the key continue.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel doubt settle eff_0123… --happened --result '{\"id\":\"inv_77\"}' --reason 'seen in the books'
  semel doubt settle eff_0123… --did-not-happen --reason 'no such invoice in the books'
  semel doubt settle eff_0123… --undo --reason 'customer left'
  semel doubt settle --flow orders --step charge --did-not-happen --reason 'their outage'
  semel doubt settle --flow orders --step charge --did-not-happen --reason 'their outage' --apply DIGEST")]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
#[command(group = clap::ArgGroup::new("subject").required(true).args(["effect", "flow"]))]
pub(crate) struct Arguments {
    /// The effect, or the key that was sent.
    effect: Option<EffectId>,
    /// All doubts of one step of this flow: lists them, and settles them with --apply.
    #[arg(long, requires = "step")]
    flow: Option<FlowName>,
    /// The step.
    #[arg(long, requires = "flow")]
    step: Option<String>,
    /// Only where the step goes over this connection.
    #[arg(long, requires = "flow")]
    connection: Option<String>,
    /// Only where the last attempt saw exactly this, as `semel doubt list` prints it.
    #[arg(long, requires = "flow", value_name = "TEXT")]
    seen: Option<String>,
    /// The digest that the list was printed with: if the doubts have changed since, nothing is settled.
    #[arg(long, requires = "flow", value_name = "DIGEST")]
    apply: Option<String>,
    /// It happened: the run continues after it.
    #[arg(long, group = "verdict")]
    happened: bool,
    /// It happened and must not stand: the run fails, and undoes what it did, this effect first.
    #[arg(long, group = "verdict")]
    undo: bool,
    /// It did not happen: Semel performs it.
    #[arg(long, group = "verdict")]
    did_not_happen: bool,
    /// The run fails here. Whether the effect happened stays unknown: if you resume the run, the
    /// effect is in doubt again.
    #[arg(long, group = "verdict")]
    fail: bool,
    /// The destination's identifier of what was created.
    #[arg(long, conflicts_with_all = ["did_not_happen", "fail", "flow"], value_name = "ID")]
    external_id: Option<String>,
    /// The step's result for later steps: JSON, @FILE, or - for stdin. Required if a later step
    /// reads it; null means that there is none.
    #[arg(long, conflicts_with_all = ["did_not_happen", "fail", "flow"], value_name = "JSON")]
    result: Option<String>,
    /// The attempt that you checked, as `semel effect show` prints it: if there was another attempt
    /// since, nothing is settled.
    #[arg(long, conflicts_with = "flow", value_name = "N")]
    attempt: Option<i32>,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    match (arguments.effect, &arguments.flow, &arguments.step) {
        (Some(effect), _, _) => settle_one(ctx, arguments, effect).await,
        (None, Some(flow), Some(step)) => {
            let group = SettleGroup {
                flow: flow.clone(),
                step: step.clone(),
                connection: arguments.connection.clone(),
                seen: arguments.seen.clone(),
                verdict: verdict(arguments),
                reason: arguments.reason.clone(),
                digest: arguments.apply.clone(),
            };
            group::run(ctx, group, &arguments.repeat).await
        }
        (None, _, _) => Err(Problem::usage("name an effect, or a flow and a step")),
    }
}

async fn settle_one(
    ctx: &Context,
    arguments: &Arguments,
    effect: EffectId,
) -> Result<Answer, Problem> {
    let settle = Settle {
        verdict: verdict(arguments),
        external_id: arguments.external_id.clone(),
        result: arguments.result.as_deref().map(read_json).transpose()?,
        attempt: arguments.attempt,
        reason: arguments.reason.clone(),
    };
    let client = remote::client(ctx)?;
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
        Verdict::Undo => format!("{effect} happened and is undone; its run fails"),
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
    } else if arguments.undo {
        Verdict::Undo
    } else if arguments.did_not_happen {
        Verdict::DidNotHappen
    } else {
        Verdict::Fail
    }
}
