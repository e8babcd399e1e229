//! Tokens, and any answer of the API as it is.

use axum::http::HeaderValue;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use semel_api::types::{Page as Found, Token};
use semel_model::{Right, Rights, Role};

use super::markup::{self, Markup};
use super::shell::{Page, Shell, keep, next_page, show, show_list};
use super::visit::Visit;
use super::words;
use crate::answer::Answered;
use crate::error::PROBLEM_JSON;

/// `GET /console/{namespace}/tokens`.
pub(super) async fn tokens(visit: Visit) -> Answered {
    let cursor = visit.parameter("cursor");
    let json = &words::address("/v1/tokens", &[("cursor", cursor)]);
    if let Some(missing) = visit.lacks(Right::Admin) {
        let shell = Shell::new(&visit, "/settings", "Tokens", json, "semel token list");
        let lead = Markup::fixed("Who may use this namespace is for who manages it.");
        return show_list(
            shell,
            lead,
            vec![Markup::text(&missing).within("p", "empty")],
        );
    }
    let mut command = "semel token list".to_owned();
    if !cursor.is_empty() {
        command.push_str(&format!(" --cursor {}", words::shell_word(cursor)));
    }
    let shell = Shell::new(&visit, "/settings", "Tokens", json, &command);
    let found: Found<Token> = match visit.get(json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, Vec::new()),
    };
    let row = |token: &Token| {
        let rights = match token.rights == Rights::ALL {
            true => "all".to_owned(),
            false => token.rights.to_string(),
        };
        vec![
            Markup::text(&token.name),
            Markup::text(token.role.map_or("-", Role::as_str)),
            Markup::text(&rights),
            Markup::text(&token.groups.join(", ")),
            Markup::text(&words::networks(&token.networks)),
            Markup::text(&words::queues(&token.queues)),
            match token.last_used_at {
                Some(at) => visit.time(at),
                None => Markup::fixed("never"),
            },
            visit.time(token.expires_at),
            markup::code(&token.id.to_string()),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = [
        "Name", "Role", "Rights", "Groups", "Networks", "Queues", "Used", "Expires", "Id",
    ];
    show(&Page {
        shell,
        heading_markup: Markup::fixed("Tokens"),
        lead_markup: Markup::fixed(
            "Who may use this namespace. No page and no command shows a token again.",
        ),
        problem: None,
        body_markup: Markup::join(
            [markup::table("Tokens that work", &columns, &rows)]
                .into_iter()
                .chain(next_page(
                    "The next page",
                    &visit.page("/tokens"),
                    &[],
                    found.next.as_deref(),
                )),
        ),
    })
}

/// `GET /console/{namespace}/json/…`: what the API answers, for a browser that has no token to send.
pub(super) async fn json(visit: Visit) -> Answered {
    let parts: Vec<String> = visit.part("rest").split('/').map(words::encoded).collect();
    let address = format!("/v1/{}?{}", parts.join("/"), visit.query_text());
    let mut response = visit.fetch(&address).await?;
    let headers = response.headers_mut();
    let attached = headers.contains_key(CONTENT_DISPOSITION);
    let kind = headers.get(CONTENT_TYPE);
    let is_json = kind.is_some_and(|kind| kind == "application/json" || kind == PROBLEM_JSON);
    // Anything else may be what a sender sent: it is neither a page nor a script of this console.
    if attached || !is_json {
        let attachment = HeaderValue::from_static("attachment");
        headers.insert(CONTENT_DISPOSITION, attachment);
        let bytes = HeaderValue::from_static("application/octet-stream");
        headers.insert(CONTENT_TYPE, bytes);
    }
    Ok(response)
}
