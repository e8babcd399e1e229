//! The server and the token.

use semel_api::ClientError;
use semel_model::Rights;

use super::Line;
use crate::answer::chain;
use crate::context::Context;
use crate::remote;
use crate::text::ago;

pub(super) async fn look(ctx: &Context) -> Vec<Line> {
    let client = match remote::client(ctx) {
        Ok(client) => client,
        Err(problem) => {
            let mend = "set SEMEL_URL and SEMEL_TOKEN, or run `semel dev` here";
            return vec![Line::warn("server", problem.message(), mend)];
        }
    };
    let server = match client.is_ready().await {
        Ok(true) => Line::ok("server", format!("{} is ready", client.base())),
        Ok(false) => Line::fail(
            "server",
            format!("{} is up, but not ready", client.base()),
            "look at its log: its database or its session is missing",
        ),
        Err(error) => {
            let mend = "start it with `semel serve` or `semel dev`, or correct SEMEL_URL";
            return vec![Line::fail("server", chain(&error), mend)];
        }
    };
    vec![server, token(client.whoami().await)]
}

fn token(whoami: Result<semel_api::types::Whoami, ClientError>) -> Line {
    match whoami {
        Ok(who) => Line::ok(
            "token",
            format!(
                "valid for {}, expires {}, may {}",
                who.namespace,
                ago(who.expires_at),
                spelled(who.rights)
            ),
        ),
        Err(error) if error.status() == Some(401) => Line::fail(
            "token",
            "the server refuses it",
            "create one with `semel migrate --new-token`, and set SEMEL_TOKEN",
        ),
        Err(error) => Line::fail("token", chain(&error), error.hint()),
    }
}

fn spelled(rights: Rights) -> String {
    match rights == Rights::ALL {
        true => "do everything".to_owned(),
        false => rights.to_string(),
    }
}
