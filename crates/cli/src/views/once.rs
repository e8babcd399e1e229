//! Keys of commands and steps that run once.

use semel_api::types::OnceEffect;
use semel_model::NamedEffectState;

use super::{maybe_ago, value};
use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::{ago, printable};

const fn tone(state: NamedEffectState) -> Tone {
    match state {
        NamedEffectState::Done => Tone::Good,
        NamedEffectState::Failed => Tone::Bad,
        NamedEffectState::InDoubt => Tone::Odd,
        NamedEffectState::Pending | NamedEffectState::Undoing => Tone::Plain,
    }
}

/// Keys of any scope.
pub(crate) fn table(effects: &[OnceEffect], style: Style) -> String {
    let mut table = style.table(&["KEY", "SCOPE", "STATE", "BEGUN", "HEARTBEAT", "HOLDER"]);
    for effect in effects {
        table.add_row([
            cell(printable(&effect.key)),
            cell(&effect.scope),
            toned_cell(tone(effect.state), effect.state.as_str()),
            cell(ago(effect.begun_at)),
            cell(ago(effect.heartbeat_at)),
            cell(holder(effect)),
        ]);
    }
    render(&table)
}

/// Everything about a key.
pub(crate) fn detail(effect: &OnceEffect, style: Style) -> String {
    let state = style.toned(tone(effect.state), effect.state.as_str());
    let mut lines = vec![
        format!("{}  {state}", style.bold(&printable(&effect.key))),
        format!("  scope      {}", effect.scope),
        format!("  key sent   {}", effect.effect_key),
        format!("  holder     {}", holder(effect)),
        format!(
            "  begun      {} ({})",
            effect.begun_at,
            ago(effect.begun_at)
        ),
        format!(
            "  heartbeat  {} ({})",
            effect.heartbeat_at,
            ago(effect.heartbeat_at)
        ),
    ];
    let mut add = |name: &str, text: String| lines.push(format!("  {name:<9}  {text}"));
    if effect.lease_until.is_some() {
        add("lease", format!("over {}", maybe_ago(effect.lease_until)));
    }
    if let Some(at) = effect.retry_at {
        add("retry", format!("a repeat may run again at {at}"));
    }
    if effect.settled_at.is_some() {
        let by = effect.settled_by.as_deref().map(printable);
        let by = by.map_or(String::new(), |by| format!(", by {by}"));
        add("settled", format!("{}{by}", maybe_ago(effect.settled_at)));
    }
    if let Some(at) = effect.expires_at {
        add("expires", at.to_string());
    }
    if let Some(id) = &effect.external_id {
        add("external", printable(id));
    }
    if let Some(result) = &effect.result {
        add("result", value(result));
    }
    if let Some(fault) = &effect.fault {
        add("fault", value(fault));
    }
    if let Some(note) = &effect.note {
        add("note", printable(note));
    }
    lines.join("\n")
}

fn holder(effect: &OnceEffect) -> String {
    match (&effect.holder_name, effect.run, &effect.step) {
        (Some(name), _, _) => printable(name),
        (None, Some(run), Some(step)) => format!("{run}, step {}", printable(step)),
        (None, Some(run), None) => run.to_string(),
        (None, None, _) => "-".to_owned(),
    }
}
