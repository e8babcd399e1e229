//! `semel token create`.

use semel_api::types::{CreateToken, CreatedToken};
use semel_api::{ClientError, Code};
use semel_model::{Label, Network, Networks, Right, Rights, Role, Span};
use semel_store::Cell;

use crate::access;
use crate::answer::{Answer, Problem};
use crate::commands::Repeat;
use crate::commands::serve::Database;
use crate::context::Context;
use crate::remote;

/// Create a token. It is shown now, and again for 10 minutes to the same command.
///
/// Only a digest of the secret is kept; for 10 minutes after a keyed request the token is also kept, encrypted
/// with the master key. With `--database` no repeat shows it again.
///
/// It may do what its rights say and nothing else. Your own token must have the right `admin` and
/// every right that it gives; if it has networks or queues, name some of these. Safe to repeat: within 10 minutes
/// the same command shows the same token again, and later it is refused and makes no second one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  semel token create ci --role editor --right promote
  semel token create pager --role observer --expires-in 365d
  semel token create robot --right read,write,promote
  semel token create resizer --role worker --queue images --network 10.0.0.0/8
  semel token create admin --all-rights --database postgresql://…   where no token works any more")]
pub(crate) struct Arguments {
    /// What you call it: its holder is known by this name, to approvals too.
    name: String,
    /// What its holder is: observer, viewer, operator, approver, editor, admin or worker.
    #[arg(long, value_name = "ROLE", conflicts_with = "all_rights")]
    role: Option<Role>,
    /// What it may do besides; may be given more than once, or as a list with commas.
    #[arg(long = "right", value_name = "RIGHT", value_delimiter = ',')]
    rights: Vec<Right>,
    /// Let it do everything.
    #[arg(long, conflicts_with = "rights")]
    all_rights: bool,
    /// A group that its owner belongs to; may be given more than once.
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// A network that it is accepted from, as 10.0.0.0/8, or one address; may be given more than once.
    /// Without one it works from anywhere. The address that counts is the one that connects to the
    /// server: behind a proxy, the proxy's.
    #[arg(long = "network", value_name = "CIDR", value_delimiter = ',')]
    networks: Vec<Network>,
    /// A queue whose tasks it may work on; may be given more than once. Without one it is for every
    /// queue.
    #[arg(long = "queue", value_name = "QUEUE", value_delimiter = ',')]
    queues: Vec<Label>,
    /// How long it works, at most 365d.
    #[arg(long, value_name = "SPAN", default_value = "90d")]
    expires_in: Span,
    #[command(flatten)]
    repeat: Repeat,
    #[command(flatten)]
    database: Database,
}

pub(crate) async fn run(ctx: &Context, arguments: &Arguments) -> Result<Answer, Problem> {
    let rights = match arguments.all_rights {
        true => Rights::ALL,
        false => {
            let of_role = arguments.role.map(Role::rights).unwrap_or_default();
            let named = arguments.rights.iter().copied();
            of_role.iter().chain(named).collect()
        }
    };
    if rights.is_empty() {
        return Err(no_right());
    }
    match super::database(ctx, &arguments.database).await? {
        Some(cell) => create_in(&cell, arguments, rights).await,
        None => create_over(ctx, arguments, rights).await,
    }
}

/// Says what rights there are.
fn no_right() -> Problem {
    let list = Right::ALL
        .iter()
        .map(|right| format!("\n  {:<9} {}", right.as_str(), right.meaning()));
    let list: String = list.collect();
    let roles = Role::ALL.iter().map(|role| {
        format!(
            "\n  {:<9} {}: {}",
            role.as_str(),
            role.meaning(),
            role.rights()
        )
    });
    let roles: String = roles.collect();
    Problem::usage(format!(
        "a token needs a role or at least one right.\nroles:{roles}\nrights:{list}"
    ))
    .hint("name a role with --role or each right with --right, or pass --all-rights")
}

async fn create_over(
    ctx: &Context,
    arguments: &Arguments,
    rights: Rights,
) -> Result<Answer, Problem> {
    let create = CreateToken {
        name: arguments.name.clone(),
        role: arguments.role,
        rights: rights.iter().collect(),
        groups: arguments.groups.clone(),
        networks: networks(arguments),
        queues: arguments.queues.clone(),
        lifetime: Some(arguments.expires_in),
    };
    let spelled = serde_json::to_string(&create).unwrap_or_default();
    let key = arguments.repeat.key_or(&["token create", &spelled]);
    let created = remote::client(ctx)?.create_token(&create, &key).await;
    let created = created.map_err(refused)?;
    let answer = shown(
        &created.body,
        "shown now, and again for 10 minutes to the same command",
    );
    Ok(match created.replayed {
        true => answer.note(
            "the same command made this token before; pass --idempotency-key for another one",
        ),
        false => answer,
    })
}

fn networks(arguments: &Arguments) -> Networks {
    arguments.networks.iter().copied().collect()
}

/// Another token under the same words is another command.
fn refused(error: ClientError) -> Problem {
    let code = error.code().to_owned();
    let problem = Problem::from(error);
    if code == Code::CommandMismatch.as_str() {
        problem.hint("pass --idempotency-key with a key of your own for another token")
    } else if code == Code::TokenShown.as_str() {
        problem.hint(
            "if nobody kept it, revoke it with `semel token revoke`, and pass --idempotency-key \
             with a key of your own for another token",
        )
    } else {
        problem
    }
}

async fn create_in(cell: &Cell, arguments: &Arguments, rights: Rights) -> Result<Answer, Problem> {
    let wanted = access::Wanted {
        name: &arguments.name,
        groups: &arguments.groups,
        role: arguments.role,
        rights,
        networks: networks(arguments),
        queues: &arguments.queues,
        lifetime: arguments.expires_in,
    };
    let (token, id) = access::make_token(cell, &wanted).await?;
    let kept = access::find_token(cell, id).await?;
    let kept = kept.ok_or_else(|| Problem::local("the token was removed meanwhile"))?;
    let kept = super::view(kept);
    let answer = shown(&CreatedToken { token, kept }, "shown only now");
    Ok(answer.note("it was created in the database, without a server"))
}

/// `when` is for how long the token is shown.
fn shown(created: &CreatedToken, when: &str) -> Answer {
    let kept = &created.kept;
    let mut answer = Answer::done(created, created.token.clone())
        .note(format!("{} may {}", kept.name, kept.rights));
    if !kept.networks.is_empty() {
        answer = answer.note(format!("it is accepted only from {}", kept.networks));
    }
    if !kept.queues.is_empty() {
        let queues = super::spell_queues(&kept.queues);
        answer = answer.note(format!("it works only on tasks of these queues: {queues}"));
    }
    answer
        .note(format!(
            "this token is {when}: store it, and set it as SEMEL_TOKEN"
        ))
        .next("semel token list")
}
