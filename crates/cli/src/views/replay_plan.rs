//! Replay plans and their runs.

use semel_api::types::{PlannedRun, ReplayPlan};

use crate::style::{Style, cell, render};
use crate::text::{ago, printable};

/// Plans as a table.
pub(crate) fn table(plans: &[ReplayPlan], style: Style) -> String {
    let mut table = style.table(&[
        "PLAN", "MADE", "FLOW", "STATE", "RUNS", "REPLAYED", "REFUSED",
    ]);
    for plan in plans {
        table.add_row([
            cell(plan.plan.to_string()),
            cell(ago(plan.created_at)),
            cell(format!("{} r{}", plan.flow, plan.release)),
            cell(&plan.state),
            cell(plan.runs.to_string()),
            cell(plan.replayed.to_string()),
            cell(plan.refused.to_string()),
        ]);
    }
    render(&table)
}

/// A plan with its previews in short.
pub(crate) fn detail(plan: &ReplayPlan, style: Style) -> String {
    let mut lines = vec![
        format!("{}  {}", style.bold(&plan.plan.to_string()), plan.state),
        format!("  flow      {} on r{}", printable(&plan.flow), plan.release),
        format!("  rate      {} in a second", plan.per_second),
        format!(
            "  runs      {}: {} replayed, {} refused, {} to replay",
            plan.runs, plan.replayed, plan.refused, plan.previewed
        ),
    ];
    if let Some(why) = &plan.stopped_because {
        lines.push(format!("  stopped   by Semel: {}", printable(why)));
    }
    for it in &plan.summaries {
        let what = it.summary.as_deref().unwrap_or("not previewed");
        let refused = match &it.code {
            Some(code) => format!(" (refused: {})", printable(code)),
            None => String::new(),
        };
        lines.push(format!("  {} × {}{refused}", it.runs, printable(what)));
    }
    lines.join("\n")
}

/// Runs of a plan as a table.
pub(crate) fn runs(runs: &[PlannedRun], style: Style) -> String {
    let mut table = style.table(&["RUN", "STATE", "NEXT RUN", "PREVIEW OR REASON"]);
    for run in runs {
        let note = run.note.as_deref().or(run.summary.as_deref());
        table.add_row([
            cell(run.run.to_string()),
            cell(&run.state),
            cell(run.next.map(|next| next.to_string()).unwrap_or_default()),
            cell(printable(note.unwrap_or_default())),
        ]);
    }
    render(&table)
}
