//! `semel namespace`: who owns flows, runs and tokens on this installation.

use semel_api::types::{CreateNamespace, NamespaceFilter, SetNamespace};
use semel_model::{NamespaceName, Span};

use super::Repeat;
use crate::answer::{Answer, Problem};
use crate::context::Context;
use crate::remote;
use crate::style::{cell, render};
use crate::text::ago;

/// Create, change and list namespaces. Needs the right `instance`.
#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Examples:
  semel namespace create shop --admin ada
  semel namespace list
  semel namespace set shop --weight 3")]
pub(crate) enum Command {
    Create(Create),
    List(List),
    Set(Set),
}

/// Create a namespace and its first token, which may do everything there; it is shown now, and again for 10 minutes to the same command.
///
/// Safe to repeat: within 10 minutes the same command shows the same token again, and later it is refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Create {
    /// Its name. It enters into the identity of every run, and never changes.
    name: NamespaceName,
    /// What the holder of its first token is called.
    #[arg(long, value_name = "NAME")]
    admin: String,
    /// How long that token works, at most 365d.
    #[arg(long, value_name = "SPAN", default_value = "90d")]
    expires_in: Span,
    #[command(flatten)]
    repeat: Repeat,
}

/// List the namespaces of the installation, by name.
#[derive(Debug, clap::Args)]
pub(crate) struct List {
    /// How many to list at most.
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u16,
    /// Where the page before ended.
    #[arg(long)]
    cursor: Option<String>,
}

/// Change how a namespace is served beside others, and how long its runs are kept.
#[derive(Debug, clap::Args)]
pub(crate) struct Set {
    /// The namespace.
    name: NamespaceName,
    /// Its share where servers are short of room, from 1 to 1000: of two namespaces with due runs, one
    /// of weight 2 has twice as many started as one of weight 1.
    #[arg(long, value_name = "COUNT")]
    weight: Option<i32>,
    /// How many of its runs may be due and wait for a server before new deliveries are refused with 429.
    /// 0 removes the limit.
    #[arg(long, value_name = "COUNT")]
    backlog_max: Option<i32>,
    /// How long its ended runs are kept whose flow does not say, e.g. 30d. 0s leaves that to the server.
    #[arg(long, value_name = "SPAN")]
    history: Option<Span>,
}

pub(crate) async fn run(ctx: &Context, command: &Command) -> Result<Answer, Problem> {
    match command {
        Command::Create(create) => run_create(ctx, create).await,
        Command::List(list) => run_list(ctx, list).await,
        Command::Set(set) => run_set(ctx, set).await,
    }
}

async fn run_create(ctx: &Context, arguments: &Create) -> Result<Answer, Problem> {
    let create = CreateNamespace {
        name: arguments.name.clone(),
        admin: arguments.admin.clone(),
        lifetime: Some(arguments.expires_in),
    };
    let spelled = serde_json::to_string(&create).unwrap_or_default();
    let key = arguments.repeat.key_or(&["namespace create", &spelled]);
    let created = remote::client(ctx)?.create_namespace(&create, &key).await?;
    let (namespace, admin) = (&created.body.namespace, &created.body.admin);
    let text = format!(
        "namespace {} created; the token of `{}` for it, shown now, and again for 10 minutes to the same command:\n\n  {}\n",
        namespace.name, admin.kept.name, admin.token
    );
    let answer = Answer::done(&created.body, text).next("SEMEL_TOKEN=… semel doctor".to_owned());
    Ok(match created.replayed {
        true => answer.note("the same command made this namespace before"),
        false => answer,
    })
}

async fn run_set(ctx: &Context, arguments: &Set) -> Result<Answer, Problem> {
    let set = SetNamespace {
        weight: arguments.weight,
        backlog_max: arguments.backlog_max,
        history: arguments.history,
    };
    let client = remote::client(ctx)?;
    let namespace = client.set_namespace(&arguments.name, &set).await?;
    let waiting = match namespace.backlog_max {
        Some(most) => format!("at most {most} of its runs wait"),
        None => "any number of its runs may wait".to_owned(),
    };
    let history = match namespace.history {
        Some(span) => format!("ended runs are kept for {span} unless their flow says otherwise"),
        None => "ended runs are kept for as long as the server says".to_owned(),
    };
    let text = format!(
        "namespace {} has weight {}; {waiting}; {history}",
        namespace.name, namespace.weight
    );
    Ok(Answer::done(&namespace, text).next("semel namespace list"))
}

async fn run_list(ctx: &Context, arguments: &List) -> Result<Answer, Problem> {
    let filter = NamespaceFilter {
        limit: Some(arguments.limit),
        cursor: arguments.cursor.clone(),
    };
    let page = remote::client(ctx)?.list_namespaces(&filter).await?;
    let mut table = ctx
        .style
        .table(&["NAME", "WEIGHT", "BACKLOG MAX", "HISTORY", "CREATED"]);
    for namespace in &page.items {
        let most = namespace.backlog_max.map(|most| most.to_string());
        table.add_row([
            cell(&namespace.name),
            cell(namespace.weight.to_string()),
            cell(most.unwrap_or_default()),
            cell(
                namespace
                    .history
                    .map(|span| span.to_string())
                    .unwrap_or_default(),
            ),
            cell(ago(namespace.created_at)),
        ]);
    }
    let answer = Answer::done(&page, render(&table));
    Ok(match &page.next {
        Some(next) => answer.next(format!("semel namespace list --cursor {next}")),
        None => answer,
    })
}
