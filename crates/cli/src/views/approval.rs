//! Approvals.

use semel_api::types::Approval;
use semel_model::approval::{ApprovalDecision, ApprovalState};

use super::maybe_ago;
use crate::style::{Style, Tone, cell, render, toned_cell};
use crate::text::{ago, printable, printable_lines};

fn tone(approval: &Approval) -> Tone {
    match (approval.state, &approval.decision) {
        (ApprovalState::Decided, Some(decision)) if decision.approved => Tone::Good,
        (ApprovalState::Decided, _) => Tone::Bad,
        (ApprovalState::Elapsed, _) => Tone::Odd,
        (ApprovalState::Open | ApprovalState::Withdrawn, _) => Tone::Plain,
    }
}

fn word(approval: &Approval) -> &'static str {
    match &approval.decision {
        Some(decision) if decision.approved => "approved",
        Some(_) => "rejected",
        None => approval.state.as_str(),
    }
}

/// Approvals of any runs.
pub(crate) fn table(approvals: &[Approval], style: Style) -> String {
    let header = [
        "APPROVAL", "ASKED", "FLOW", "STEP", "FROM", "STATE", "UNTIL", "RUN",
    ];
    let mut table = style.table(&header);
    for one in approvals {
        table.add_row([
            cell(one.approval.to_string()),
            cell(ago(one.opened_at)),
            cell(&one.flow),
            cell(&one.step),
            cell(one.from.join(", ")),
            toned_cell(tone(one), word(one)),
            cell(maybe_ago(one.until)),
            cell(one.run.to_string()),
        ]);
    }
    render(&table)
}

/// Everything about an approval: above all what is decided about.
pub(crate) fn detail(approval: &Approval, style: Style) -> String {
    let state = style.toned(tone(approval), word(approval));
    let mut lines = vec![
        format!("{}  {state}", style.bold(&approval.approval.to_string())),
        format!("  run       {}", approval.run),
        format!(
            "  step      {} of {}",
            printable(&approval.step),
            printable(&approval.flow)
        ),
        format!("  from      {}", printable(&approval.from.join(", "))),
    ];
    if !approval.escalate.is_empty() {
        let when = maybe_ago(approval.escalate_at);
        let people = printable(&approval.escalate.join(", "));
        lines.push(format!("  escalate  {people} ({when})"));
    }
    if let Some(not_by) = &approval.not_by {
        let starter = printable(not_by);
        lines.push(format!("  not by    {starter}, who started the run"));
    }
    let opened = approval.opened_at;
    lines.push(format!("  asked     {opened} ({})", ago(opened)));
    if approval.until.is_some() {
        lines.push(format!("  until     {}", maybe_ago(approval.until)));
    }
    if let Some(digest) = &approval.digest {
        lines.push(format!("  digest    {}", printable(digest.as_str())));
    }
    if let Some(made) = &approval.decision {
        lines.push(format!("  decision  {}", decision(made, style)));
    }
    lines.push(String::new());
    let shown = serde_json::to_string_pretty(&approval.shown).unwrap_or_default();
    lines.push(printable_lines(&shown));
    lines.join("\n")
}

/// A decision in one line.
pub(crate) fn decision(decision: &ApprovalDecision, style: Style) -> String {
    let (tone, verb) = match decision.approved {
        true => (Tone::Good, "approved"),
        false => (Tone::Bad, "rejected"),
    };
    let comment = decision.comment.as_deref();
    let comment = comment.map_or_else(String::new, |it| format!(": {}", printable(it)));
    format!(
        "{} by {} at {}{comment}",
        style.toned(tone, verb),
        printable(&decision.by),
        decision.at
    )
}
