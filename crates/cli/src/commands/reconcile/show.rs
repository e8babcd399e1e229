//! `semel reconcile show`.

use jiff::Timestamp;
use semel_api::types::PassFilter;
use semel_model::FlowName;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::views::reconcile;

/// Show a pass: what it found, and which items it started or could not read.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The flow.
    flow: FlowName,
    /// The pass, by its instant.
    nominal: Timestamp,
    /// The most items to list.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=500))]
    limit: u16,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let filter = PassFilter {
        limit: Some(arguments.limit),
    };
    let (flow, nominal) = (&arguments.flow, arguments.nominal);
    let found = remote::client(ctx)?
        .get_pass(flow, nominal, &filter)
        .await?;
    let text = reconcile::tell(&found, ctx.style);
    Ok(Answer::done(&found, text).next(format!("semel reconcile list {flow}")))
}
