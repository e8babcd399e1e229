//! `semel key audit`.

use semel_api::types::KeyAudit;
use semel_model::{FlowName, Span};

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::text::printable;

/// Check a flow's key against its real traffic.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel key audit order-paid --window 3d")]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// How long after the first delivery the source may still redeliver.
    #[arg(long, default_value = "3d")]
    window: Span,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let audit = client.audit_keys(&arguments.flow, arguments.window).await?;
    let mut lines = vec![format!(
        "{}  {} deliveries, {} keys",
        ctx.style.bold(audit.flow.as_str()),
        audit.deliveries,
        audit.keys
    )];
    lines.extend(differing(&audit));
    lines.extend(shared(&audit));
    lines.extend(late(&audit));
    let clean = lines.len() == 1;
    if clean {
        lines.push("  no problem found with the key".to_owned());
    }
    Ok(Answer::done(&audit, lines.join("\n")))
}

fn differing(audit: &KeyAudit) -> Vec<String> {
    let found = &audit.differing;
    if found.payloads == 0 {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        format!(
            "one key, different payloads: {} payloads in {} deliveries",
            found.payloads, found.deliveries
        ),
    ];
    for field in &found.fields {
        lines.push(format!(
            "  {:<32} differs in {} deliveries, e.g. of {}",
            printable(&field.path),
            field.deliveries,
            printable(&field.example)
        ));
    }
    lines.push(
        "  if such a field means different work, add it to the key; if it is only the time of \
         sending, the key is right"
            .to_owned(),
    );
    lines
}

fn shared(audit: &KeyAudit) -> Vec<String> {
    let found = &audit.shared;
    if found.payloads == 0 {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        format!(
            "one payload, different keys: {} payloads made {} runs",
            found.payloads, found.runs
        ),
    ];
    for example in &found.examples {
        let keys: Vec<String> = example.examples.iter().map(|key| printable(key)).collect();
        lines.push(format!("  {} keys: {}, …", example.keys, keys.join(", ")));
    }
    lines.push(
        "  the key changes between deliveries of the same work: build it from what the sender \
         repeats, not from the delivery"
            .to_owned(),
    );
    lines
}

fn late(audit: &KeyAudit) -> Vec<String> {
    let found = &audit.late;
    if found.count == 0 {
        return Vec::new();
    }
    let mut lines = vec![
        String::new(),
        format!("repeats later than {}: {} keys", audit.window, found.count),
    ];
    for example in &found.examples {
        lines.push(format!(
            "  {} was repeated {} times, the last {} after the first",
            printable(&example.key),
            example.count,
            example.after
        ));
    }
    lines.push(
        "  no source redelivers for so long: the key may name something that recurs, such as a \
         customer; add what is specific to the work"
            .to_owned(),
    );
    lines
}
