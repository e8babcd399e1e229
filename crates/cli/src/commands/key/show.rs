//! `semel key show`.

use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::{ago, printable};

/// Show what was done under a key, its run, and how long it is kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The key.
    #[arg(value_name = "KEY")]
    name: String,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let found = client.get_key(&arguments.flow, &arguments.name).await?;
    let state = found.state.map_or("no longer kept", |state| state.as_str());
    let mut lines = vec![
        ctx.style.bold(&printable(&found.key)),
        format!("  flow         {}", found.flow),
        format!("  run          {} ({state})", found.run),
    ];
    for sentence in &found.verdict {
        lines.push(format!("  done         {}", printable(sentence)));
    }
    lines.extend([
        format!("  claim        {}", found.claim),
        format!(
            "  fingerprint  {}",
            printable(found.fingerprint.as_deref().unwrap_or("-"))
        ),
        format!(
            "  kept until   {} ({})",
            found.expires_at,
            ago(found.expires_at)
        ),
    ]);
    Ok(Answer::done(&found, lines.join("\n")).next(format!("semel run show {}", found.run)))
}
