//! `semel member`: who may enter through the identity provider.

use semel_api::types::{ChangePerson, GroupRole, MapGroup, PersonFilter, UnmapGroup};
use semel_model::{Right, Role, TokenId};

use super::token;
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};
use crate::text::{ago, printable};

/// Say who may enter through the identity provider, and as what. Needs the right `admin`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  semel member map ops --role operator --right settle
  semel member list
  semel member people
  semel member revoke tok_… --reason 'the account was taken over'")]
pub(crate) enum Command {
    Map(Map),
    Unmap(Unmap),
    List(List),
    People(People),
    Revoke(Change),
    Restore(Restore),
}

/// Give the members of a group a role, in place of an earlier one. They sign in again.
#[derive(Debug, clap::Args)]
pub(crate) struct Map {
    /// The group, letter by letter as the identity provider calls it.
    group: String,
    /// The role: none that has a right that you do not have.
    #[arg(long)]
    role: Role,
    /// A right that they have besides: `settle` or `replay` for an operator; `promote`, `connect` or
    /// `secret` for an editor; `override` or `redo` for an admin.
    #[arg(long = "right", value_name = "RIGHT")]
    rights: Vec<Right>,
}

/// Take the role of a group away. Its members sign in again, as far as their other groups reach.
#[derive(Debug, clap::Args)]
pub(crate) struct Unmap {
    /// The group.
    group: String,
}

/// List the groups that have a role.
#[derive(Debug, clap::Args)]
pub(crate) struct List {}

/// List the people who signed in through the identity provider, the newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct People {
    /// How many to list at most.
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u16,
    /// Where the page before ended.
    #[arg(long)]
    cursor: Option<String>,
}

/// Keep a person out, whatever their groups: their sign-ins and the tokens that they made end within
/// five seconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Change {
    /// The person's id, as `semel member people` shows it.
    id: TokenId,
    /// Why, for the audit record.
    #[arg(long)]
    reason: Option<String>,
}

/// Let a person in again that was revoked, as far as their groups reach.
#[derive(Debug, clap::Args)]
pub(crate) struct Restore {
    #[command(flatten)]
    change: Change,
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Map(map) => run_map(ctx, map).await,
        Command::Unmap(unmap) => run_unmap(ctx, unmap).await,
        Command::List(_) => run_list(ctx).await,
        Command::People(people) => run_people(ctx, people).await,
        Command::Revoke(change) => run_revoke(ctx, change).await,
        Command::Restore(restore) => run_restore(ctx, &restore.change).await,
    }
}

async fn run_map(ctx: &Context, arguments: &Map) -> Result<Answer, Problem> {
    let map = MapGroup {
        group: arguments.group.clone(),
        role: arguments.role,
        rights: arguments.rights.iter().copied().collect(),
    };
    let mapped = remote::client(ctx)?.map_group(&map).await?;
    let text = format!(
        "members of {} are {}",
        printable(&mapped.group),
        in_words(&mapped)
    );
    Ok(Answer::done(&mapped, text).next("semel member list"))
}

fn in_words(mapped: &GroupRole) -> String {
    match mapped.rights.is_empty() {
        true => mapped.role.to_string(),
        false => format!("{} with {}", mapped.role, mapped.rights),
    }
}

async fn run_unmap(ctx: &Context, arguments: &Unmap) -> Result<Answer, Problem> {
    let unmap = UnmapGroup {
        group: arguments.group.clone(),
    };
    let unmapped = remote::client(ctx)?.unmap_group(&unmap).await?;
    let (group, role) = (printable(&unmapped.group), unmapped.role);
    let text = format!("members of {group} are no longer {role}");
    Ok(Answer::done(&unmapped, text).next("semel member list"))
}

async fn run_list(ctx: &Context) -> Result<Answer, Problem> {
    let page = remote::client(ctx)?.list_group_roles().await?;
    let mut table = ctx.style.table(&["GROUP", "ROLE", "CHANGED"]);
    for mapped in &page.items {
        table.add_row([
            cell(&mapped.group),
            cell(in_words(mapped)),
            cell(ago(mapped.changed_at)),
        ]);
    }
    Ok(Answer::done(&page, render(&table)))
}

async fn run_people(ctx: &Context, arguments: &People) -> Result<Answer, Problem> {
    let filter = PersonFilter {
        limit: Some(arguments.limit),
        cursor: arguments.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_people(&filter).await?;
    let header = ["ID", "NAME", "SUBJECT", "ROLE", "GROUPS", "SEEN", "REVOKED"];
    let mut table = ctx.style.table(&header);
    for person in &page.items {
        table.add_row([
            cell(person.id.to_string()),
            cell(&person.name),
            cell(&person.subject),
            cell(person.role.map_or("-", Role::as_str)),
            cell(person.groups.join(", ")),
            cell(person.named_at.map_or_else(|| "never".to_owned(), ago)),
            cell(person.revoked_at.map_or_else(String::new, ago)),
        ]);
    }
    let answer = Answer::done(&page, render(&table));
    Ok(match &page.next {
        Some(next) => answer.next(format!("semel member people --cursor {next}")),
        None => answer,
    })
}

async fn run_revoke(ctx: &Context, arguments: &Change) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let revoked = client
        .revoke_person(arguments.id, &change(arguments))
        .await?;
    let (name, id) = (printable(&revoked.person.name), revoked.person.id);
    let text = format!("revoked {name} ({id})");
    let answer = Answer::done(&revoked, text);
    let answer = token::name_made(answer, &revoked.made, revoked.made_count);
    Ok(answer.next("semel member people"))
}

async fn run_restore(ctx: &Context, arguments: &Change) -> Result<Answer, Problem> {
    let client = remote::client(ctx)?;
    let person = client
        .restore_person(arguments.id, &change(arguments))
        .await?;
    let text = format!("restored {} ({})", printable(&person.name), person.id);
    Ok(Answer::done(&person, text).next("semel member people"))
}

fn change(arguments: &Change) -> ChangePerson {
    ChangePerson {
        reason: arguments.reason.clone(),
    }
}
