//! What commands know about connections when they list effects: a guard may depend on them.

use std::time::Duration;

use semel_api::Client;
use semel_flow::{CheckContext, KnownConnection};
use tokio::time::timeout;

use crate::config::Source;
use crate::context::Context;
use crate::remote;

/// How long a check waits for a server: it can do without.
const PATIENCE: Duration = Duration::from_secs(2);

/// The connections that are known, and why they are not where they should be.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) facts: CheckContext,
    pub(crate) note: Option<String>,
}

/// The connections of the configured server; none where no server was configured.
pub(crate) async fn of_configured(ctx: &Context) -> Known {
    let named = ctx.url().is_some_and(|url| url.source != Source::Default);
    if !named || ctx.token().is_none() {
        return Known::default();
    }
    match remote::client(ctx) {
        Ok(client) => of_server(&client).await,
        Err(problem) => Known {
            note: Some(unknown(problem.message())),
            ..Known::default()
        },
    }
}

/// The connections of a server, as far as its answer can be had.
pub(crate) async fn of_server(client: &Client) -> Known {
    let why = match timeout(PATIENCE, client.list_connections()).await {
        Ok(Ok(page)) => {
            let known = page.items.into_iter().map(|listed| {
                let fact = KnownConnection {
                    key_window: listed.connection.idempotency_keys.window,
                    kind: Some(listed.connection.kind()),
                };
                (listed.name, fact)
            });
            let facts = CheckContext {
                connections: known.collect(),
                unknown: None,
            };
            return Known { facts, note: None };
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("{} does not answer", client.base()),
    };
    Known {
        note: Some(unknown(&why)),
        ..Known::default()
    }
}

fn unknown(why: &str) -> String {
    format!(
        "note: connections are not known, so an effect may have a better guard than the one listed: \
         {why}\n"
    )
}
