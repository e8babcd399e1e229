//! `semel once free`: takes a key from a run that nothing moves any more.

use semel_api::types::FreeOnce;
use semel_model::EffectId;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// Take a key from a quarantined run that holds it.
///
/// A run that made no progress, or that cannot be read, keeps its key: whoever asks for the key waits.
/// Cancel or resume such a run if you can. If you cannot, this puts the key in doubt: look at the
/// destination, and settle it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel once free eff_… --reason 'its journal is damaged'")]
pub(crate) struct Arguments {
    /// The key that the destination was sent, `eff_…`.
    #[arg(value_name = "EFFECT_KEY")]
    effect_key: EffectId,
    /// The reason, for the audit log.
    #[arg(long)]
    reason: String,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let key = arguments.effect_key;
    let free = FreeOnce {
        effect_key: key,
        reason: arguments.reason.clone(),
    };
    let freed = remote::client(ctx)?.free_once(&free).await?.body;
    Ok(
        Answer::done(&freed, format!("{key} is in doubt, and no run's any more")).next(format!(
            "semel doubt settle {key} --happened (or --did-not-happen) --reason …"
        )),
    )
}
