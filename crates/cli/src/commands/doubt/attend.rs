//! `semel doubt assign`, `note` and `snooze`: what is said of a doubt while it is looked into.

use jiff::Timestamp;
use semel_api::types::{AssignDoubt, Attended, AttendedEffect, NoteDoubt, SnoozeDoubt};
use semel_model::{DeliveryId, EffectId, Span};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::printable;

/// Say who looks into a doubt.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel doubt assign eff_0123… ada")]
pub(crate) struct Assign {
    /// The effect.
    effect: EffectId,
    /// Who looks into it.
    #[arg(required_unless_present = "nobody", conflicts_with = "nobody")]
    to: Option<String>,
    /// Nobody looks into it any more.
    #[arg(long)]
    nobody: bool,
}

/// Note what you found about a doubt so far, in place of the note before.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel doubt note eff_0123… 'asked the bank, case 4711'")]
pub(crate) struct Note {
    /// The effect.
    effect: EffectId,
    /// What you found.
    #[arg(required_unless_present = "remove", conflicts_with = "remove")]
    note: Option<String>,
    /// Remove the note.
    #[arg(long)]
    remove: bool,
}

/// Put a doubt off: `semel doubt list` leaves it out until then, and it stays a doubt.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  semel doubt snooze eff_0123… --for 2h")]
pub(crate) struct Snooze {
    /// The effect.
    effect: EffectId,
    /// For how long, up to 30 days, e.g. 2h.
    #[arg(long = "for", value_name = "SPAN", required_unless_present_any = ["until", "end"], conflicts_with_all = ["until", "end"])]
    span: Option<Span>,
    /// Until when.
    #[arg(long, value_name = "TIME", conflicts_with = "end")]
    until: Option<Timestamp>,
    /// List it with the others again.
    #[arg(long)]
    end: bool,
}

pub(crate) async fn assign(ctx: &Context, arguments: &Assign) -> Result<Answer, Problem> {
    let to = arguments.to.clone();
    let (client, assign, key) = (remote::client(ctx)?, AssignDoubt { to }, key());
    let said = client.assign_doubt(arguments.effect, &assign, &key).await?;
    Ok(show(&said.body))
}

pub(crate) async fn note(ctx: &Context, arguments: &Note) -> Result<Answer, Problem> {
    let note = arguments.note.clone();
    let (client, note, key) = (remote::client(ctx)?, NoteDoubt { note }, key());
    let said = client.note_doubt(arguments.effect, &note, &key).await?;
    Ok(show(&said.body))
}

pub(crate) async fn snooze(ctx: &Context, arguments: &Snooze) -> Result<Answer, Problem> {
    let (client, key) = (remote::client(ctx)?, key());
    let snooze = SnoozeDoubt {
        until: arguments.until,
        span: arguments.span,
    };
    let said = client.snooze_doubt(arguments.effect, &snooze, &key).await?;
    Ok(show(&said.body))
}

/// What is said of a doubt replaces what was said before: to say it again is another act.
fn key() -> String {
    DeliveryId::generate().to_string()
}

fn show(said: &AttendedEffect) -> Answer {
    let Attended {
        assignee,
        note,
        snoozed_until,
    } = &said.attended;
    let mut lines = vec![format!("{} stays in doubt", said.effect)];
    lines.push(match assignee {
        Some(name) => printable(&format!("  assigned to    {name}")),
        None => "  assigned to    nobody".to_owned(),
    });
    if let Some(note) = note {
        lines.push(printable(&format!("  note           {note}")));
    }
    if let Some(until) = snoozed_until {
        lines.push(format!("  snoozed until  {until}"));
    }
    Answer::done(said, lines.join("\n")).next(format!("semel effect show {}", said.effect))
}
