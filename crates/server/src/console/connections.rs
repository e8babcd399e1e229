//! Connections and secrets: where requests go, and what they need. No page shows a secret.

use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Redirect};
use semel_api::types::{
    AskPause, AskResume, Connection, Page as Found, PauseChange, Secret, Tried,
};
use semel_model::Right;
use semel_model::connection::{ConnectionLimits, Target};
use serde_json::json;

use super::flow::read_rate;
use super::forms::{self, folded, offer, section};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, show_as, show_list, status_of};
use super::visit::{Form, Visit};
use super::{empty, words};
use crate::answer::Answered;
use crate::error::ApiError;

/// `GET /console/{namespace}/connections`.
pub(super) async fn page(visit: Visit) -> Answered {
    let json = "/v1/connections";
    let found: Found<Connection> = visit.get(json).await?;
    let row = |one: &Connection| {
        let page = visit.page(&format!("/connections/{}", words::encoded(&one.name)));
        vec![
            state(one),
            markup::code(&one.name).link(&page),
            Markup::text(&one.kind),
            markup::code(&target(&one.connection.to)),
            Markup::text(&keys(one)),
            visit.time(one.changed_at),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = [
        "State",
        "Name",
        "Kind",
        "Where",
        "Idempotency keys",
        "Changed",
    ];
    let body = match rows.is_empty() {
        true => empty::teach(
            "There is no connection yet. A connection says where requests go and how they prove who sends them.",
            "semel connection presets",
            "docs/connections.md",
        ),
        false => markup::table("Connections", &columns, &rows),
    };
    let secrets = Markup::text("Secrets").link(&visit.page("/secrets"));
    let shell = Shell::new(
        &visit,
        "/connections",
        "Connections",
        json,
        "semel connection list",
    );
    let lead = Markup::fixed("Where the requests of steps go.");
    show_list(shell, lead, vec![secrets.within("p", "presets"), body])
}

fn state(connection: &Connection) -> Markup {
    match (&connection.paused, connection.missing.is_empty()) {
        (Some(_), _) => markup::other_state("rest", "◔", "paused"),
        (None, false) => markup::other_state("doubt", "▲", "secret missing"),
        (None, true) => markup::other_state("good", "●", "ready"),
    }
}

/// Where a connection leads. An address has no secret in it: those have names.
fn target(target: &Target) -> String {
    match target {
        Target::Http(http) => http.base_url.clone(),
        Target::Postgres(postgres) => {
            format!("{}/{}", postgres.host, postgres.database)
        }
        Target::Smtp(smtp) => smtp.host.clone(),
        Target::Ssh(ssh) => ssh.host.clone(),
        Target::Slack(slack) => slack.base_url.clone(),
        Target::Webhook(webhook) => webhook.url.clone(),
        Target::Llm(llm) => llm.base_url.clone(),
    }
}

fn keys(connection: &Connection) -> String {
    match connection.connection.idempotency_keys.window {
        Some(window) => format!("honoured for {window}"),
        None => "not honoured".to_owned(),
    }
}

/// `GET /console/{namespace}/connections/{name}`.
pub(super) async fn show_one(visit: Visit) -> Answered {
    show_connection(&visit, StatusCode::OK, None, Told::default()).await
}

/// What a form came to.
#[derive(Default)]
struct Told {
    reason: String,
    tried: Option<Tried>,
}

/// `POST /console/{namespace}/connections/{name}/pause`.
pub(super) async fn pause(visit: Visit, form: Form) -> Answered {
    let reason = form.get("reason").to_owned();
    let address = format!("{}/pause", route(&visit));
    let ask = AskPause { reason };
    let done: Result<PauseChange, ApiError> = visit.post(&address, &form, &ask).await;
    finish(&visit, done, &form).await
}

/// `POST /console/{namespace}/connections/{name}/resume`.
pub(super) async fn resume(visit: Visit, form: Form) -> Answered {
    let address = format!("{}/resume", route(&visit));
    let done = match read_rate(form.get("per_second")) {
        Ok(per_second) => {
            let reason = form.given("reason");
            let ask = AskResume { reason, per_second };
            visit.post::<PauseChange>(&address, &form, &ask).await
        }
        Err(error) => Err(error),
    };
    finish(&visit, done, &form).await
}

async fn finish(visit: &Visit, done: Result<PauseChange, ApiError>, form: &Form) -> Answered {
    match done {
        Ok(_) => {
            let name = words::encoded(visit.part("name"));
            let page = visit.page(&format!("/connections/{name}"));
            Ok(Redirect::to(&page).into_response())
        }
        Err(error) => {
            let status = status_of(&error);
            let reason = form.get("reason").to_owned();
            let told = Told {
                reason,
                tried: None,
            };
            show_connection(visit, status, Some(error.into()), told).await
        }
    }
}

/// `POST /console/{namespace}/connections/{name}/test`.
pub(super) async fn test(visit: Visit, _: Form) -> Answered {
    let address = format!("{}/test", route(&visit));
    let tried: Result<Tried, ApiError> = visit.ask((Method::POST, &address), &json!({})).await;
    match tried {
        Ok(tried) => {
            let told = Told {
                tried: Some(tried),
                ..Told::default()
            };
            show_connection(&visit, StatusCode::OK, None, told).await
        }
        Err(error) => {
            let status = status_of(&error);
            show_connection(&visit, status, Some(error.into()), Told::default()).await
        }
    }
}

fn route(visit: &Visit) -> String {
    format!("/v1/connections/{}", words::encoded(visit.part("name")))
}

async fn show_connection(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    told: Told,
) -> Answered {
    let json = route(visit);
    let found: Connection = visit.get(&json).await?;
    let mut body = Vec::new();
    body.extend(told.tried.as_ref().map(|tried| {
        let (class, said) = match tried.ok {
            true => ("verdict", "The test went well"),
            false => ("verdict is-bad", "The test failed"),
        };
        Markup::text(&format!("{said}: {}", tried.found)).within("p", class)
    }));
    body.push(facts(visit, &found));
    let setting = serde_json::to_value(&found.connection).unwrap_or_default();
    body.push(section(
        "setting",
        "What its owner says of it",
        &markup::value(&setting, &visit.whole()),
    ));
    body.push(section(
        "acts",
        "Acts",
        &offers(visit, &found, &told.reason)?,
    ));
    let lead = match &found.paused {
        Some(pause) => format!("Paused by {}: {}", pause.by, pause.reason),
        None if found.missing.is_empty() => String::new(),
        None => format!(
            "Nothing is sent until these secrets are set: {}.",
            found.missing.join(", ")
        ),
    };
    let command = format!("semel connection show {}", words::shell_word(&found.name));
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/connections", &found.name, &json, &command),
            heading_markup: markup::code(&found.name),
            lead_markup: Markup::text(&lead),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

fn facts(visit: &Visit, found: &Connection) -> Markup {
    let setting = &found.connection;
    let secrets = setting.secrets().join(", ");
    markup::facts(vec![
        ("State", state(found)),
        ("Kind", Markup::text(&found.kind)),
        ("Idempotency keys", Markup::text(&keys(found))),
        ("Limits", Markup::text(&limits(&setting.limits))),
        ("Secrets, by name", Markup::text(&secrets)),
        ("Version", Markup::text(&found.version.to_string())),
        ("Made", visit.time(found.created_at)),
        ("Changed", visit.time(found.changed_at)),
        (
            "Runs held up",
            match found.paused.as_ref().and_then(|pause| pause.held_runs) {
                Some(held) => Markup::text(&held.to_string()),
                None => Markup::default(),
            },
        ),
        ("Where", markup::code(&target(&setting.to))),
    ])
}

fn limits(limits: &ConnectionLimits) -> String {
    let rate = match limits.per_second {
        Some(rate) => format!(", {rate} a second"),
        None => String::new(),
    };
    format!(
        "{} at once{rate}; the breaker opens after {} failures for {}",
        limits.concurrency, limits.open_after, limits.open_for
    )
}

fn offers(visit: &Visit, found: &Connection, reason: &str) -> Result<Markup, ApiError> {
    let act = |verb: &str| {
        visit.page(&format!(
            "/connections/{}/{verb}",
            words::encoded(&found.name)
        ))
    };
    let help = Markup::text("Reaches the destination and authenticates, without an effect there.");
    let test = offer(
        visit,
        (act("test"), Right::Connect),
        vec![help.within("p", "help")],
        ("Test this connection", ""),
    )?;
    let mut offers = vec![folded("Test", false, &test)];
    let change = match &found.paused {
        None => {
            let fields = vec![forms::reason("pause", reason)];
            let label = ("Pause this connection", "danger");
            let form = offer(visit, (act("pause"), Right::Operate), fields, label)?;
            folded("Pause", !reason.is_empty(), &form)
        }
        Some(_) => {
            let label = "How many runs continue in a second (optional)";
            let rate = forms::line(
                "per_second",
                label,
                "",
                "All at once, where nothing is said.",
            );
            let fields = vec![rate, forms::reason("resume", reason)];
            let label = ("Resume this connection", "");
            let form = offer(visit, (act("resume"), Right::Operate), fields, label)?;
            folded("Resume", !reason.is_empty(), &form)
        }
    };
    offers.push(change);
    Ok(Markup::join(offers).within("div", "acts"))
}

/// `GET /console/{namespace}/secrets`.
pub(super) async fn secrets(visit: Visit) -> Answered {
    let json = "/v1/secrets";
    let found: Found<Secret> = visit.get(json).await?;
    let row = |secret: &Secret| {
        let used = secret.connections.iter().map(|name| {
            let page = visit.page(&format!("/connections/{}", words::encoded(name)));
            Markup::text(name).link(&page)
        });
        vec![
            markup::code(&secret.name),
            Markup::text(&secret.version.to_string()),
            visit.time(secret.set_at),
            secret
                .former_until
                .map(|at| visit.time(at))
                .unwrap_or_default(),
            Markup::text(&match secret.hosts.is_empty() {
                true => "any host".to_owned(),
                false => secret.hosts.join(", "),
            }),
            Markup::join(used),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = [
        "Name",
        "Version",
        "Set",
        "The previous one works until",
        "Hosts",
        "Used by",
    ];
    let body = match rows.is_empty() {
        true => empty::teach(
            "No secret is set. Connections and signed hooks read secrets by name; no page shows a value.",
            "semel secret set NAME",
            "docs/connections.md",
        ),
        false => markup::table("Secrets", &columns, &rows),
    };
    let shell = Shell::new(&visit, "/connections", "Secrets", json, "semel secret list");
    let lead =
        Markup::fixed("Names only: a secret can be set, and no page and no command reads one.");
    show_list(shell, lead, vec![body])
}
