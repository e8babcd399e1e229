//! Tokens: who may use the namespace; one is made here and shown once, and revoked.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use semel_api::Code;
use semel_api::types::{
    CreateToken, CreatedToken, Page as Found, RevokeToken, RevokedToken, Token,
};
use semel_model::{Label, Networks, Right, Rights, Role, Span};

use super::forms::{self, folded, offer, section};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, keep, next_page, show_as, show_list, status_of};
use super::visit::{Form, Visit};
use super::words;
use crate::answer::Answered;
use crate::error::ApiError;

/// `GET /console/{namespace}/tokens`.
pub(super) async fn page(visit: Visit) -> Answered {
    show_tokens(&visit, (StatusCode::OK, None), None, Markup::default()).await
}

/// `POST /console/{namespace}/tokens`: the page that follows is the only one that shows the token.
pub(super) async fn create(visit: Visit, form: Form) -> Answered {
    let made: Result<CreatedToken, ApiError> = match read(&form) {
        Ok(ask) => visit.post("/v1/tokens", &form, &ask).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(made) => {
            let at = (StatusCode::OK, None);
            show_tokens(&visit, at, None, shown_once(&visit, &made)).await
        }
        Err(error) => {
            let at = (status_of(&error), Some(error.into()));
            show_tokens(&visit, at, Some(&form), Markup::default()).await
        }
    }
}

/// `POST /console/{namespace}/tokens/{token}/revoke`.
pub(super) async fn revoke(visit: Visit, form: Form) -> Answered {
    let address = format!("/v1/tokens/{}/revoke", words::encoded(visit.part("token")));
    let ask = RevokeToken {
        reason: form.given("reason"),
        with_made: false,
    };
    let done: Result<RevokedToken, ApiError> = visit.post(&address, &form, &ask).await;
    match done {
        Ok(revoked) if !revoked.made.is_empty() => {
            let at = (StatusCode::OK, None);
            show_tokens(&visit, at, None, still_working(&revoked)).await
        }
        Ok(_) => Ok(Redirect::to(&visit.page("/tokens")).into_response()),
        Err(error) => {
            let at = (status_of(&error), Some(error.into()));
            show_tokens(&visit, at, None, Markup::default()).await
        }
    }
}

/// What a form asks for.
fn read(form: &Form) -> Result<CreateToken, ApiError> {
    let invalid = |detail: String| ApiError::new(Code::BodyInvalid, detail);
    let words_of = |name: &str| -> Vec<String> {
        let text = form.get(name).replace(',', " ");
        text.split_whitespace().map(str::to_owned).collect()
    };
    let role = match form.given("role") {
        Some(role) => Some(
            role.parse()
                .map_err(|_| invalid("choose a role".to_owned()))?,
        ),
        None => None,
    };
    let rights = read_rights(form)?;
    let networks: Networks = match form.given("networks") {
        None => Networks::default(),
        Some(_) => Networks::of_words(words_of("networks").iter().map(String::as_str))
            .map_err(|_| invalid("a network is such as 10.0.0.0/8".to_owned()))?,
    };
    let queues: Result<Vec<Label>, _> = words_of("queues").iter().map(|it| it.parse()).collect();
    let queues = queues.map_err(|_| invalid("a queue is a name".to_owned()))?;
    let lifetime: Option<Span> = match form.given("lifetime") {
        None => None,
        Some(text) => Some(
            text.parse()
                .map_err(|_| invalid("a lifetime is such as 90d, at most 365d".to_owned()))?,
        ),
    };
    Ok(CreateToken {
        name: form.get("name").to_owned(),
        role,
        rights,
        groups: Vec::new(),
        networks,
        queues,
        lifetime,
    })
}

/// The rights that a form names, with spaces or commas between.
pub(super) fn read_rights(form: &Form) -> Result<Vec<Right>, ApiError> {
    let text = form.get("rights").replace(',', " ");
    let rights: Result<Vec<Right>, _> = text.split_whitespace().map(str::parse).collect();
    rights.map_err(|_| {
        let detail = format!("a right is one of: {}", names(Right::ALL).join(", "));
        ApiError::new(Code::BodyInvalid, detail)
    })
}

fn names(rights: &[Right]) -> Vec<String> {
    rights.iter().map(ToString::to_string).collect()
}

fn shown_once(visit: &Visit, made: &CreatedToken) -> Markup {
    let text = markup::assembled(format!(
        "<code data-copy class=\"secret\">{}</code>",
        markup::escape(&made.token)
    ));
    let facts = markup::facts(vec![
        ("Token", text),
        ("Name", Markup::text(&made.kept.name)),
        ("Expires", visit.time(made.kept.expires_at)),
    ]);
    let said = Markup::text("Copy it now: no page and no command shows it again.");
    let body = Markup::join([said.within("p", "verdict"), facts]);
    section("made", "The new token", &body.within("div", "box"))
}

/// The tokens that a revoked one made, which are left to work.
fn still_working(revoked: &RevokedToken) -> Markup {
    let name = &revoked.token.name;
    let count = revoked.made_count;
    let said = format!("{name} is revoked. It made {count} tokens that still work:");
    let made = revoked.made.iter().map(|token| {
        let named = Markup::text(&token.name).within("p", "");
        Markup::join([named, markup::code(&token.id.to_string())])
    });
    let with = "semel token revoke ID --with-made revokes a token together with what it made.";
    let body = [Markup::text(&said).within("p", "verdict")]
        .into_iter()
        .chain(made)
        .chain([Markup::text(with).within("p", "empty")]);
    section(
        "still-working",
        "What it made",
        &Markup::join(body).within("div", "box"),
    )
}

async fn show_tokens(
    visit: &Visit,
    (status, problem): (StatusCode, Option<Trouble>),
    typed: Option<&Form>,
    made: Markup,
) -> Answered {
    // The address of a form is no page of a list.
    let cursor = visit.parameter("cursor");
    let json = words::address("/v1/tokens", &[("cursor", cursor)]);
    let mut command = "semel token list".to_owned();
    if !cursor.is_empty() {
        words::push_option(&mut command, "cursor", cursor);
    }
    let shell = Shell::new(visit, "/settings", "Tokens", &json, &command);
    if let Some(missing) = visit.lacks(Right::Admin) {
        let lead = Markup::fixed("Who may use this namespace is for who manages it.");
        let missing = Markup::text(&missing).within("p", "empty");
        return show_list(shell, lead, vec![missing]);
    }
    let people = Markup::text("People and groups").link(&visit.page("/people"));
    let links = people.within("p", "presets");
    let found: Found<Token> = match visit.get(&json).await {
        Ok(found) => found,
        Err(error) => return keep(shell, error, vec![links]),
    };
    let table = table(visit, &found.items)?;
    let here = visit.page("/tokens");
    let next = next_page("The next page", &here, &[], found.next.as_deref());
    let form = make_form(visit, typed)?;
    let body = [made, links, form, table].into_iter().chain(next);
    show_as(
        status,
        &Page {
            shell,
            heading_markup: Markup::fixed("Tokens"),
            lead_markup: Markup::fixed(
                "Who may use this namespace. A token is shown once, when it is made.",
            ),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

fn table(visit: &Visit, tokens: &[Token]) -> Result<Markup, ApiError> {
    let mut rows = Vec::new();
    for token in tokens {
        let rights = match token.rights == Rights::ALL {
            true => "all".to_owned(),
            false => token.rights.to_string(),
        };
        let id = token.id.to_string();
        let of = (visit.page(&format!("/tokens/{id}/revoke")), Right::Admin);
        let why = forms::line_of(
            (&format!("why-{id}"), "reason"),
            "Reason",
            "",
            "For the audit record.",
        );
        let revoke = offer(visit, of, vec![why], ("Revoke", "danger"))?;
        rows.push(vec![
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
            markup::code(&id),
            folded("Revoke", false, &revoke),
        ]);
    }
    let columns = [
        "Name", "Role", "Rights", "Groups", "Networks", "Queues", "Used", "Expires", "Id", "Act",
    ];
    Ok(markup::table("Tokens that work", &columns, &rows))
}

fn make_form(visit: &Visit, typed: Option<&Form>) -> Result<Markup, ApiError> {
    let was = |name: &str| typed.map_or("", |form| form.get(name));
    let mut roles: Vec<(&str, &str)> = vec![("", "no role: only the rights below")];
    roles.extend(Role::ALL.iter().map(|role| (role.as_str(), role.as_str())));
    let chosen = match typed {
        Some(form) => form.get("role"),
        None => "viewer",
    };
    let fields = vec![
        forms::line("name", "Name", was("name"), "Its holder is known by it."),
        forms::select("role", "Role", chosen, &roles),
        forms::line(
            "rights",
            "Rights besides (optional)",
            was("rights"),
            "Such as settle replay.",
        ),
        forms::line(
            "networks",
            "Only from these networks (optional)",
            was("networks"),
            "Such as 10.0.0.0/8.",
        ),
        forms::line(
            "queues",
            "Only for these queues (optional)",
            was("queues"),
            "With the right work.",
        ),
        forms::line(
            "lifetime",
            "For how long",
            was("lifetime"),
            "Such as 30d; 90 days by default, at most 365.",
        ),
    ];
    let of = (visit.page("/tokens"), Right::Admin);
    let form = offer(visit, of, fields, ("Make a token", ""))?;
    Ok(folded("Make a token", typed.is_some(), &form).within("div", "acts"))
}
