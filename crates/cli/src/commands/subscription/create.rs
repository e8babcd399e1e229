//! `semel subscription create`.

use semel_api::types::{Change, PutSubscription};
use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// Deliver an event to a webhook, or all events with a common prefix.
///
/// Safe to repeat: an identical subscription stays as it is. To replace another subscription of the
/// same name, pass --replace. Earlier events are not delivered.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel subscription create erp --event 'order.*' --connection erp-hook")]
pub(crate) struct Arguments {
    /// The name of the subscription.
    name: Label,
    /// The event; a trailing `.*` matches all events with that prefix.
    #[arg(long)]
    event: String,
    /// The webhook connection that deliveries go to.
    #[arg(long)]
    connection: Label,
    /// Replace another subscription of that name.
    #[arg(long)]
    replace: bool,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let name = &arguments.name;
    let put = PutSubscription {
        event: arguments.event.clone(),
        connection: arguments.connection.to_string(),
        replace: arguments.replace,
    };
    let client = remote::client(ctx)?;
    let kept = match client.put_subscription(name, &put, None).await {
        Ok(kept) => kept.body,
        Err(error) if error.code() == semel_api::Code::SubscriptionDiffers.as_str() => {
            return Err(Problem::from(error)
                .hint("compare them, and pass --replace to replace it")
                .next(format!("semel subscription show {name}")));
        }
        Err(error) => return Err(error.into()),
    };
    let text = match kept.change {
        Change::Created => format!("{name} receives {} from now on", put.event),
        Change::Replaced => format!("replaced {name}"),
        Change::Unchanged => format!("{name} is unchanged"),
    };
    Ok(Answer::done(&kept, text).next(format!("semel subscription show {name}")))
}
