//! `semel schedule fire`.

use jiff::Timestamp;
use semel_api::types::FireSchedule;
use semel_api::{Client, Code};
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::outcome::Outcome;
use crate::remote;

/// Start the run of an instant by hand.
///
/// Safe to repeat: an instant has one run, however it is started, and when its time comes nothing
/// more happens. An instant that was skipped can be fired as well.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel schedule fire nightly --at 2026-11-15T03:00:00Z    one that was missed
  semel schedule fire nightly --next                       tonight's, now
  semel schedule fire nightly --now --key trial-1          beside the schedule")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    #[command(flatten)]
    which: Which,
    /// The key of a run beside the schedule; the same key is the same run.
    #[arg(
        long = "key",
        alias = "idempotency-key",
        value_name = "KEY",
        required_if_eq("now", "true")
    )]
    key: Option<String>,
}

#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// An instant that the schedule names.
    #[arg(long, value_name = "INSTANT")]
    at: Option<Timestamp>,
    /// The next instant whose time has not come.
    #[arg(long)]
    next: bool,
    /// The present, which need not be an instant of the schedule. Needs --key.
    #[arg(long)]
    now: bool,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let flow = &arguments.flow;
    let client = remote::client(ctx)?;
    let at = match arguments.which.next {
        true => Some(next(&client, flow).await?),
        false => arguments.which.at,
    };
    let ask = FireSchedule { at };
    let fired = client
        .fire_schedule(flow, &ask, arguments.key.as_deref())
        .await?
        .body;
    let text = match fired.replayed {
        true => format!("{} has a run already: {}", fired.key, fired.run),
        false => format!("started the run of {}: {}", fired.key, fired.run),
    };
    Ok(Answer::done(&fired, text).next(format!("semel run watch {}", fired.run)))
}

/// The next instant whose time has not come. Named here, so that asking again asks for the same one.
async fn next(client: &Client, flow: &FlowName) -> Result<Timestamp, Problem> {
    let schedule = client.get_schedule(flow).await?;
    schedule.next.ok_or_else(|| {
        let code = Code::InstantNotScheduled.as_str();
        let message = match schedule.paused_at {
            Some(_) => "the schedule is paused; name an instant with --at",
            None => "the schedule has no instants left",
        };
        Problem::new(Outcome::NotFound, code, message)
    })
}
