//! `semel connection create`.

use semel_api::types::{Change, PutConnection};
use semel_model::Label;

use super::describe::Description;
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// Keep a connection, from a preset, a file, or a kind and its fields.
///
/// Safe to repeat: the same again is no change. Where another connection has the name, --replace
/// says that it gives way.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel connection create stripe --preset stripe --secret stripe_key
  semel connection create books --kind http --base-url https://books.example/api --secret books_token
  semel connection create mail --preset smtp --host smtp.example --from shop@example.com \\
      --user shop --secret mail_password
  semel connection create crm --file crm.yaml --set limits.per_second=5")]
pub(crate) struct Arguments {
    /// What flows call it.
    name: Label,
    #[command(flatten)]
    description: Description,
    /// Let another connection of that name give way.
    #[arg(long)]
    replace: bool,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let name = &arguments.name;
    let put = PutConnection {
        connection: arguments.description.read()?,
        replace: arguments.replace,
    };
    let client = remote::client(ctx)?;
    let kept = match client.put_connection(name, &put, None).await {
        Ok(kept) => kept.body,
        Err(error) if error.code() == semel_api::Code::ConnectionDiffers.as_str() => {
            return Err(Problem::from(error)
                .hint("look at it, and pass --replace if this one is to take its place")
                .next(format!("semel connection show {name}")));
        }
        Err(error) => return Err(error.into()),
    };
    let text = match kept.change {
        Change::Created => format!("{name} is kept"),
        Change::Replaced => format!("{name} has taken the place of the one before"),
        Change::Unchanged => format!("{name} was kept before, the same"),
    };
    let mut answer = Answer::done(&kept, text);
    for secret in &kept.missing {
        answer = answer.next(format!("semel secret set {secret}"));
    }
    Ok(answer.next(format!("semel connection test {name}")))
}
