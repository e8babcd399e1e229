//! `semel connection prepare`.

use semel_model::Label;

use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::output::Progress;
use crate::remote;

/// Create what effects need at a destination: the table of markers in a PostgreSQL database.
///
/// Safe to repeat: an existing table stays as it is.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The connection.
    name: Label,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let progress = Progress::begin(ctx.reader, "preparing …");
    let tried = client.prepare_connection(&arguments.name).await?;
    drop(progress);
    Ok(super::tell(&tried).next(format!("semel connection test {}", arguments.name)))
}
