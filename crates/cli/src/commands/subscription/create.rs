//! `semel subscription create`.

use semel_api::types::{Change, PutSubscription};
use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// Have a webhook told of an event, or of all events that begin alike.
///
/// Safe to repeat: the same again is no change. Where another subscription has the name, --replace
/// says that it gives way. Events that were emitted before are not delivered.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel subscription create erp --event 'order.*' --connection erp-hook")]
pub(crate) struct Arguments {
    /// What to call it.
    name: Label,
    /// The event; a trailing `.*` takes all that begin so.
    #[arg(long)]
    event: String,
    /// The webhook connection that deliveries go to.
    #[arg(long)]
    connection: Label,
    /// Let another subscription of that name give way.
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
                .hint("look at it, and pass --replace if this one is to take its place")
                .next(format!("semel subscription show {name}")));
        }
        Err(error) => return Err(error.into()),
    };
    let text = match kept.change {
        Change::Created => format!("{name} is told of {} from now on", put.event),
        Change::Replaced => format!("{name} has taken the place of the one before"),
        Change::Unchanged => format!("{name} was kept before, the same"),
    };
    Ok(Answer::done(&kept, text).next(format!("semel subscription show {name}")))
}
