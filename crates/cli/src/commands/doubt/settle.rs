//! `semel doubt settle`: a person's word on an effect in doubt.

use semel_api::types::{JournalEvent, Settle, Verdict};
use semel_model::EffectId;

use crate::answer::{Answer, Problem};
use crate::commands::{Repeat, read_json};
use crate::context::Context;
use crate::remote;

/// Say what you know of an effect in doubt.
///
/// Look at the destination first: the effect's own name is the key that it was sent. *Did not
/// happen* is accepted only once nothing of the last attempt can still arrive; then it is
/// performed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel doubt settle eff_0123… --happened --result '{\"id\":\"inv_77\"}' --reason 'seen in the books'
  semel doubt settle eff_0123… --did-not-happen --reason 'no such invoice in the books'
  semel doubt settle eff_0123… --fail --reason 'customer left'")]
#[command(group = clap::ArgGroup::new("verdict").required(true))]
pub(crate) struct Arguments {
    /// The effect.
    effect: EffectId,
    /// It happened: the run goes on behind it.
    #[arg(long, group = "verdict")]
    happened: bool,
    /// It did not happen: it is performed.
    #[arg(long, group = "verdict")]
    did_not_happen: bool,
    /// The run fails here. Whether the effect happened stays unknown: resuming the run brings the
    /// doubt back.
    #[arg(long, group = "verdict")]
    fail: bool,
    /// The destination's name for what was made.
    #[arg(long, requires = "happened", value_name = "ID")]
    external_id: Option<String>,
    /// What later steps read as the step's result: JSON, @FILE, or - for stdin. Needed where one
    /// does; null says that it gave nothing.
    #[arg(long, requires = "happened", value_name = "JSON")]
    result: Option<String>,
    /// The attempt that you looked at, as `semel effect show` says: where another was made since,
    /// nothing is settled.
    #[arg(long, value_name = "N")]
    attempt: Option<i32>,
    /// Why, as it stands on the record.
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
    let found = client.get_effect(effect).await?;
    // Each doubt is another question: a later attempt's, or one that came back with a resumed run.
    let journal = client.get_run(found.run).await?.journal;
    let events = journal.iter().flat_map(|line| &line.events);
    let of_it = |event: &&JournalEvent| {
        event.event["event"] == "doubted" && event.event["step"] == *found.step
    };
    let doubts = events.filter(of_it).count().to_string();
    let asked = serde_json::to_string(&settle).unwrap_or_default();
    let words = ["doubt settle", &effect.to_string(), &doubts, &asked];
    let key = arguments.repeat.key_or(&words);
    let settled = client.settle_effect(effect, &settle, &key).await?.body;
    let text = match settled.verdict {
        Verdict::Happened => format!("{effect} happened; its run goes on"),
        Verdict::DidNotHappen => format!("{effect} did not happen; it is performed now"),
        Verdict::Fail => format!("{effect} is given up; its run fails"),
    };
    Ok(Answer::done(&settled, text).next(format!("semel run watch {}", found.run)))
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
