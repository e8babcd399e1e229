//! `semel flow try`: plays an example of a draft, and prints what happens.

use semel_api::types::AskRehearsal;

use crate::answer::{Answer, Problem};
use crate::commands::{read_file, rehearse};
use crate::context::Context;
use crate::remote;
use crate::text::printable;

/// Play an example of a file on a stage, and print its timeline.
///
/// Destinations and people answer from the example; nothing is sent, and waits take no time.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  semel flow try greet.flow.yaml --example hello")]
pub(crate) struct Arguments {
    /// The file.
    file: String,
    /// The example; all of them by default.
    #[arg(long, value_name = "NAME")]
    example: Option<String>,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let ask = AskRehearsal {
        source: read_file(&arguments.file)?,
        file: arguments.file.clone(),
        example: arguments.example.clone(),
        fault: Some("none".to_owned()),
        seed: 0,
    };
    let client = remote::client(ctx)?;
    let rehearsal = rehearse::rehearse(ctx, &client, &ask).await?;
    let report = rehearse::report_of(&rehearsal)?;
    let mut text = String::new();
    for timeline in &report.timelines {
        text.push_str(&format!("{}\n", printable(&timeline.example)));
        for line in &timeline.lines {
            let at = line.at.strftime("%Y-%m-%d %H:%M:%S");
            text.push_str(&format!("  {at}  {}\n", printable(&line.text)));
        }
    }
    let violated = report.cases.iter().flat_map(|case| &case.violations);
    let answer = Answer::done(&report, text);
    let answer = violated.fold(answer, |answer, violation| {
        answer.note(printable(&format!(
            "{}: {}",
            violation.code, violation.message
        )))
    });
    Ok(answer.next(format!("semel rehearse {}", arguments.file)))
}
