//! Effects and waits.

use semel_api::types::{Act, Attended, Deniable, Effect, Sent, Wait};
use semel_model::EffectId;
use semel_model::effect::EffectState;

use super::maybe_ago;
use crate::answer::Answer;
use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::{ago, printable};

const fn tone(state: EffectState) -> Tone {
    match state {
        EffectState::Done => Tone::Good,
        EffectState::InDoubt => Tone::Odd,
        EffectState::Failed => Tone::Bad,
        EffectState::Pending | EffectState::Retrying => Tone::Plain,
    }
}

/// Effects of any runs.
pub(crate) fn table(effects: &[Effect], style: Style) -> String {
    let header = [
        "EFFECT", "INTENDED", "STEP", "KIND", "GUARD", "STATE", "ATTEMPTS", "RUN",
    ];
    let mut table = style.table(&header);
    for effect in effects {
        table.add_row([
            cell(effect.id.to_string()),
            cell(ago(effect.intended_at)),
            cell(&effect.step),
            cell(&effect.kind),
            cell(&effect.guard),
            toned_cell(tone(effect.state), effect.state.as_str()),
            cell(attempts(effect)),
            cell(effect.run.to_string()),
        ]);
    }
    render(&table)
}

/// From a source's keys to a destination's identities, or the other way.
pub(crate) fn map(effects: &[Effect], style: Style) -> String {
    let mut table = style.table(&["FLOW", "KEY", "STEP", "EXTERNAL ID", "STATE", "EFFECT"]);
    for effect in effects {
        let (flow, key) = match &effect.source {
            Some(source) => (source.flow.as_str(), source.key.as_str()),
            None => ("-", "-"),
        };
        table.add_row([
            cell(flow),
            cell(key),
            cell(&effect.step),
            cell(effect.external_id.as_deref().unwrap_or("-")),
            toned_cell(tone(effect.state), effect.state.as_str()),
            cell(effect.id.to_string()),
        ]);
    }
    render(&table)
}

/// The effects of one run, with the keys that the destinations are sent.
pub(crate) fn table_of_run(effects: &[Effect], style: Style) -> String {
    let header = [
        "STEP",
        "KEY",
        "GUARD",
        "STATE",
        "ATTEMPTS",
        "EXTERNAL ID",
        "NOTE",
    ];
    let mut table = style.table(&header);
    for effect in effects {
        table.add_row([
            cell(&effect.step),
            cell(effect.key_sent.unwrap_or(effect.id).to_string()),
            cell(&effect.guard),
            toned_cell(tone(effect.state), effect.state.as_str()),
            cell(attempts(effect)),
            cell(effect.external_id.as_deref().unwrap_or("-")),
            cell(effect.note.as_deref().unwrap_or("-")),
        ]);
    }
    render(&table)
}

/// How many attempts there were. Without one, others had made the effect.
fn attempts(effect: &Effect) -> String {
    match effect.attempt {
        0 => "0, sent nothing".to_owned(),
        number => number.to_string(),
    }
}

/// Shows people how to record what they found out about a doubt.
pub(crate) fn how_to_settle(answer: Answer, effect: EffectId) -> Answer {
    answer
        .decision(
            "if it happened",
            format!("semel doubt settle {effect} --happened --result '{{…}}' --reason '…'"),
        )
        .decision(
            "if it did not",
            format!("semel doubt settle {effect} --did-not-happen --reason '…'"),
        )
}

/// What people did, one line each.
pub(crate) fn acts(acts: &[Act]) -> Vec<String> {
    let line = |act: &Act| {
        let Act {
            at,
            actor,
            action,
            subject,
            reason,
        } = act;
        let reason = reason
            .as_deref()
            .map_or(String::new(), |why| format!(": {why}"));
        printable(&format!("  {at}  {actor}  {action} {subject}{reason}"))
    };
    acts.iter().map(line).collect()
}

fn sent_lines(sent: &Sent) -> Vec<String> {
    let over = sent.connection.as_deref();
    let over = over.map_or(String::new(), |name| format!(" (over {name})"));
    let mut lines = vec![printable(&format!("  sent      {}{over}", sent.what))];
    if let Some(body) = &sent.body {
        let more = if sent.cut { " …" } else { "" };
        lines.push(printable(&format!("  body      {body}{more}")));
    }
    lines
}

/// Everything about an effect.
pub(crate) fn detail(effect: &Effect, style: Style) -> String {
    let state = style.toned(tone(effect.state), effect.state.as_str());
    let mut lines = vec![
        format!("{}  {state}", style.bold(&effect.id.to_string())),
        format!("  run       {}", effect.run),
    ];
    if let Some(source) = &effect.source {
        lines.push(format!("  flow      {}", printable(&source.flow)));
        lines.push(format!("  key       {}", printable(&source.key)));
    }
    lines.extend([
        format!(
            "  step      {} ({})",
            printable(&effect.step),
            printable(&effect.kind)
        ),
        format!("  guard     {}", printable(&effect.guard)),
        format!("  attempts  {}", attempts(effect)),
    ]);
    let tried = |label: &str, at| format!("  {label:<9} {at} ({})", ago(at));
    lines.extend(effect.first_intended_at.map(|at| tried("first try", at)));
    let label = match effect.attempt {
        ..=1 => "intended",
        2.. => "last try",
    };
    lines.push(tried(label, effect.intended_at));
    lines.extend(effect.key_sent.map(|key| format!("  key sent  {key}")));
    lines.extend(effect.sent.iter().flat_map(sent_lines));
    if let Some(settled_at) = effect.settled_at {
        lines.push(format!("  settled   {settled_at} ({})", ago(settled_at)));
    }
    if let Some(external_id) = &effect.external_id {
        lines.push(format!("  external  {}", printable(external_id)));
    }
    if let Some(note) = &effect.note {
        lines.push(format!("  note      {}", printable(note)));
    }
    if let Some(url) = &effect.find_url {
        lines.push(format!("  look at   {}", printable(url)));
    }
    lines.extend(effect.deniable.iter().map(deniable_line));
    lines.extend(effect.attended.iter().flat_map(attended_lines));
    if !effect.acts.is_empty() {
        lines.push(style.bold("audit"));
        lines.extend(acts(&effect.acts));
    }
    lines.join("\n")
}

fn deniable_line(deniable: &Deniable) -> String {
    let Deniable {
        from,
        lease,
        timeout,
        acts_within,
    } = deniable;
    format!(
        "  deniable  from {from} ({}): a server may begin to send for {lease}, the exchange takes up to {timeout}, the destination may act for {acts_within} after it",
        ago(*from)
    )
}

fn attended_lines(attended: &Attended) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(name) = &attended.assignee {
        lines.push(printable(&format!("  assignee  {name}")));
    }
    if let Some(note) = &attended.note {
        lines.push(printable(&format!("  noted     {note}")));
    }
    if let Some(until) = attended.snoozed_until {
        lines.push(format!("  snoozed   until {until}"));
    }
    lines
}

/// Effects in doubt, with what was seen.
pub(crate) fn doubts(effects: &[Effect], style: Style) -> String {
    let header = [
        "EFFECT", "SENT AT", "FLOW", "KEY", "STEP", "SENT", "SEEN", "ASSIGNEE",
    ];
    let mut table = style.table(&header);
    for effect in effects {
        let (flow, key) = match &effect.source {
            Some(source) => (source.flow.as_str(), source.key.as_str()),
            None => ("-", "-"),
        };
        table.add_row([
            cell(effect.id.to_string()),
            cell(ago(effect.intended_at)),
            cell(flow),
            cell(key),
            cell(&effect.step),
            cell(effect.sent.as_ref().map_or("-", |sent| sent.what.as_str())),
            cell(effect.note.as_deref().unwrap_or("-")),
            cell(assignee(effect)),
        ]);
    }
    render(&table)
}

fn assignee(effect: &Effect) -> &str {
    let attended = effect.attended.as_ref();
    let name = attended.and_then(|attended| attended.assignee.as_deref());
    name.unwrap_or("-")
}

/// Waits of any runs.
pub(crate) fn waits(waits: &[Wait], style: Style) -> String {
    let mut table = style.table(&["WAIT", "OPENED", "STEP", "STATE", "UNTIL", "RUN"]);
    for wait in waits {
        table.add_row([
            cell(wait.id.to_string()),
            cell(maybe_ago(wait.opened_at)),
            cell(wait.step.as_deref().unwrap_or("-")),
            cell(&wait.state),
            cell(maybe_ago(wait.until)),
            cell(wait.run.to_string()),
        ]);
    }
    render(&table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_effect_shows_the_key_that_its_destination_was_sent() {
        let effect: Effect = serde_json::from_value(json!({
            "effect": "eff_00000000000000000000000000000001",
            "run": "run_00000000000000000000000000000001",
            "step": "charge", "kind": "http", "guard": "key", "state": "in_doubt", "attempt": 1,
            "intended_at": "2026-01-01T00:00:00Z",
            "key_sent": "eff_00000000000000000000000000000002",
        }))
        .unwrap();

        let shown = detail(&effect, Style::PLAIN);

        let line = "  key sent  eff_00000000000000000000000000000002";
        assert!(shown.lines().any(|it| it == line), "{shown}");
        assert!(shown.contains("\n  intended  2026-01-01"), "{shown}");
    }

    #[test]
    fn an_effect_that_was_tried_again_shows_its_first_and_its_last_try() {
        let effect: Effect = serde_json::from_value(json!({
            "effect": "eff_00000000000000000000000000000001",
            "run": "run_00000000000000000000000000000001",
            "step": "charge", "kind": "http", "guard": "key", "state": "done", "attempt": 2,
            "first_intended_at": "2026-01-01T04:34:52Z",
            "intended_at": "2026-01-01T04:35:20Z",
        }))
        .unwrap();

        let shown = detail(&effect, Style::PLAIN);

        let first = shown.find("  first try 2026-01-01T04:34:52Z");
        let last = shown.find("  last try  2026-01-01T04:35:20Z");
        assert!(first.is_some() && first < last, "{shown}");
    }
}
