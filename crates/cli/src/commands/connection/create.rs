//! `semel connection create`.

use semel_api::types::{Change, PutConnection};
use semel_model::Label;

use super::describe::Description;
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;

/// Create a connection from a preset, a file, or a kind and its fields.
///
/// Safe to repeat: an identical connection stays as it is. To replace another connection of the
/// same name, pass --replace.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel connection create stripe --preset stripe --secret stripe_key
  semel connection create books --kind http --base-url https://books.example/api --secret books_token
  semel connection create mail --preset smtp --host smtp.example --from shop@example.com \\
      --user shop --secret mail_password
  semel connection create crm --file crm.yaml --set limits.per_second=5")]
pub(crate) struct Arguments {
    /// The name that flows use.
    name: Label,
    #[command(flatten)]
    description: Description,
    /// Replace another connection of that name.
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
                .hint("compare them, and pass --replace to replace it")
                .next(format!("semel connection show {name}")));
        }
        Err(error) => return Err(error.into()),
    };
    let text = match kept.change {
        Change::Created => format!("created {name}"),
        Change::Replaced => format!("replaced {name}"),
        Change::Unchanged => format!("{name} is unchanged"),
    };
    let mut answer = Answer::done(&kept, text);
    for one in &kept.unproven {
        let (flow, release) = (&one.flow, one.release);
        answer = answer.note(format!(
            "{flow} r{release} is live and not proven any more: connection changed; it is rehearsed in the background"
        ));
        answer = answer.next(format!("semel flow show {flow}"));
    }
    for secret in &kept.missing {
        answer = answer.next(format!("semel secret set {secret}"));
    }
    Ok(answer.next(format!("semel connection test {name}")))
}
