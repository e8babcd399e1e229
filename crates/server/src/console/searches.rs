//! Saved searches: one's own, and those that everybody in the namespace has.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use semel_api::types::{ForgottenSearch, KeptSearch, Page as Found, SaveSearch, SavedSearch};
use semel_model::Right;
use serde_json::json;

use super::forms::{self, folded, offer, section};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, show_as, status_of};
use super::visit::{Form, Visit};
use super::{empty, words};
use crate::answer::Answered;
use crate::error::ApiError;

/// The route of the API.
const ROUTE: &str = "/v1/searches";

/// Who a search is for.
const FOR: &[(&str, &str)] = &[
    ("me", "for me alone"),
    ("all", "for everybody in the namespace"),
];

/// `GET /console/{namespace}/searches`.
pub(super) async fn page(visit: Visit) -> Answered {
    show_searches(&visit, (StatusCode::OK, None), None).await
}

/// `POST /console/{namespace}/searches`.
pub(super) async fn save(visit: Visit, form: Form) -> Answered {
    let (name, query) = (form.get("name"), form.get("query").to_owned());
    let shared = form.get("for") == "all";
    let address = format!("{ROUTE}/{}", words::encoded(name));
    let ask = (Method::PUT, address.as_str());
    let saved: Result<KeptSearch, ApiError> = match name.is_empty() {
        true => Err(ApiError::new(
            semel_api::Code::BodyInvalid,
            "give the search a name",
        )),
        false => visit.ask(ask, &SaveSearch { query, shared }).await,
    };
    match saved {
        Ok(saved) => Ok(Redirect::to(&found_by(&visit, &saved.query)).into_response()),
        Err(error) => {
            let at = (status_of(&error), Some(error.into()));
            show_searches(&visit, at, Some(&form)).await
        }
    }
}

/// `POST /console/{namespace}/searches/forget`.
pub(super) async fn forget(visit: Visit, form: Form) -> Answered {
    let address = format!("{ROUTE}/{}", words::encoded(form.get("name")));
    let address = match form.get("for") == "all" {
        true => format!("{address}?shared=true"),
        false => address,
    };
    let ask = (Method::DELETE, address.as_str());
    let done: Result<ForgottenSearch, ApiError> = visit.ask(ask, &json!({})).await;
    match done {
        Ok(_) => Ok(Redirect::to(&visit.page("/searches")).into_response()),
        Err(error) => {
            let at = (status_of(&error), Some(error.into()));
            show_searches(&visit, at, None).await
        }
    }
}

/// The page of runs that a search leads to.
fn found_by(visit: &Visit, query: &str) -> String {
    words::address(&visit.page("/runs"), &[("q", query)])
}

/// The saved searches as links, and a form that saves what is searched for now.
pub(super) async fn beside(visit: &Visit, typed: &str) -> Result<Markup, ApiError> {
    let found: Found<SavedSearch> = visit.get(ROUTE).await?;
    let links = found.items.iter().map(|search| {
        let name = Markup::text(&search.name);
        match search.query == typed {
            true => name.within("strong", "preset"),
            false => name.link(&found_by(visit, &search.query)),
        }
    });
    let mut parts = Vec::new();
    if !found.items.is_empty() {
        let all = Markup::text("Saved searches").link(&visit.page("/searches"));
        parts.push(Markup::join([all].into_iter().chain(links)).within("p", "presets"));
    }
    // What a person could not see is not offered to be saved.
    if !typed.is_empty() && markup::visible(typed, false) == typed {
        let form = save_form(visit, typed, "", "me")?;
        let form = folded("Save this search", false, &form);
        parts.push(form.within("div", "acts saving"));
    }
    Ok(Markup::join(parts))
}

fn save_form(visit: &Visit, query: &str, name: &str, whose: &str) -> Result<Markup, ApiError> {
    // What everybody gets is chosen by who operates; others save for themselves.
    let choices = match visit.lacks(Right::Operate) {
        None => FOR,
        Some(_) => &FOR[..1],
    };
    let fields = vec![
        forms::line("name", "Name", name, ""),
        forms::line(
            "query",
            "Search",
            query,
            "As in the search box, such as flow:orders state:failed.",
        ),
        forms::select("for", "It is", whose, choices),
    ];
    let of = (visit.page("/searches"), Right::Read);
    offer(visit, of, fields, ("Save", ""))
}

async fn show_searches(
    visit: &Visit,
    (status, problem): (StatusCode, Option<Trouble>),
    typed: Option<&Form>,
) -> Answered {
    let found: Found<SavedSearch> = visit.get(ROUTE).await?;
    let mut rows = Vec::with_capacity(found.items.len());
    for search in &found.items {
        rows.push(row(visit, search)?);
    }
    let columns = ["Name", "Search", "For", "By", "Saved", "Remove"];
    let list = match rows.is_empty() {
        true => empty::teach(
            "No search is saved. Search for runs, and choose Save this search.",
            "semel run list --state failed",
            "docs/console.md",
        ),
        false => markup::table("Saved searches", &columns, &rows),
    };
    let said = |name: &str| typed.map_or("", |form| form.get(name));
    let form = save_form(visit, said("query"), said("name"), said("for"))?;
    let body = [
        section("searches", "Saved searches", &list),
        section("new", "Save a search", &form.within("div", "box")),
    ];
    show_as(
        status,
        &Page {
            shell: Shell::new(
                visit,
                "/runs",
                "Saved searches",
                ROUTE,
                "semel api GET /v1/searches",
            ),
            heading_markup: Markup::fixed("Saved searches"),
            lead_markup: Markup::fixed(
                "Each is a link: share its address, or save it for everybody.",
            ),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

fn row(visit: &Visit, search: &SavedSearch) -> Result<Vec<Markup>, ApiError> {
    let (whose, right, word) = match search.shared {
        true => ("all", Right::Operate, "everybody"),
        false => ("me", Right::Read, "you"),
    };
    let fields = vec![
        forms::carried("name", &search.name),
        forms::carried("for", whose),
    ];
    let of = (visit.page("/searches/forget"), right);
    Ok(vec![
        Markup::text(&search.name).link(&found_by(visit, &search.query)),
        markup::code(&search.query),
        Markup::text(word),
        Markup::text(&search.by),
        visit.time(search.saved_at),
        offer(visit, of, fields, ("Remove", "plain"))?,
    ])
}
