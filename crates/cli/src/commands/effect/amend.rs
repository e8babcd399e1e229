//! `semel effect amend`: an operator corrects the result that an operator gave for an effect.

use semel_api::types::Amend;
use semel_model::EffectId;

use crate::answer::{Answer, Problem};
use crate::commands::{Repeat, read_json};
use crate::context::Context;
use crate::remote;

/// Correct the result that an operator gave for an effect, and resume its run.
///
/// Only while the run is stopped and no later step has used the result. A destination's own
/// response is never changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel effect amend eff_0123… --result '{\"id\":\"inv_77\"}' --reason 'the id was missing'")]
pub(crate) struct Arguments {
    /// The effect.
    effect: EffectId,
    /// The step's result for later steps: JSON, @FILE, or - for stdin.
    #[arg(long, value_name = "JSON")]
    result: String,
    /// The destination's identifier of what was created; by default it stays, or comes from the
    /// result.
    #[arg(long, value_name = "ID")]
    external_id: Option<String>,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
    #[command(flatten)]
    repeat: Repeat,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let amend = Amend {
        result: read_json(&arguments.result)?,
        external_id: arguments.external_id.clone(),
        reason: arguments.reason.clone(),
    };
    let client = remote::client(ctx)?;
    let effect = arguments.effect;
    let found = client.get_effect(effect).await?;
    // Said again of the same status it is the same command; said after another stop, another.
    let reached = client.get_run(found.run).await?.journal.len().to_string();
    let asked = serde_json::to_string(&amend).unwrap_or_default();
    let words = ["effect amend", &effect.to_string(), &reached, &asked];
    let key = arguments.repeat.key_or(&words);
    let amended = client.amend_effect(effect, &amend, &key).await?.body;
    let text = format!("{effect} is corrected; its run continues");
    Ok(Answer::done(&amended, text).next(format!("semel run watch {}", amended.run)))
}
