//! Settings: where alerts go, who may do what, and which version answers.

use axum::http::StatusCode;
use semel_api::types::{AlertGroup, Alerts, Namespace, Page as Found, TestedAlerts, Whoami};
use semel_model::{Right, Rights};
use serde_json::json;

use super::forms::{folded, offer, section};
use super::markup::{self, Markup};
use super::shell::{Page, Shell, Trouble, show_as, status_of};
use super::visit::{Form, Visit};
use super::words;
use crate::answer::Answered;
use crate::error::ApiError;

/// `GET /console/{namespace}/settings`.
pub(super) async fn page(visit: Visit) -> Answered {
    show_settings(&visit, StatusCode::OK, None, None).await
}

/// `POST /console/{namespace}/settings/test-alerts`.
pub(super) async fn test_alerts(visit: Visit, form: Form) -> Answered {
    let tested: Result<TestedAlerts, ApiError> =
        visit.post("/v1/alerts/test", &form, &json!({})).await;
    match tested {
        Ok(tested) => show_settings(&visit, StatusCode::OK, None, Some(&tested)).await,
        Err(error) => {
            let status = status_of(&error);
            show_settings(&visit, status, Some(error.into()), None).await
        }
    }
}

async fn show_settings(
    visit: &Visit,
    status: StatusCode,
    problem: Option<Trouble>,
    tested: Option<&TestedAlerts>,
) -> Answered {
    let json = "/v1/alerts";
    let alerts: Alerts = visit.get(json).await?;
    let own: Whoami = visit.get("/v1/whoami").await?;
    let mut body = vec![links(visit)];
    body.extend(tested.map(|tested| {
        let (class, said) = match tested.outcome.as_str() {
            "done" => ("verdict", "The test message was delivered.".to_owned()),
            other => (
                "verdict is-bad",
                format!(
                    "The test message is {other}: {}",
                    tested.note.as_deref().unwrap_or("")
                ),
            ),
        };
        Markup::text(&said).within("p", class)
    }));
    body.push(section("alerts", "Alerts", &alerting(visit, &alerts)?));
    body.push(section("own", "What you may do", &token(visit, &own)));
    let of = (visit.page("/sign-out-everywhere"), Right::Read);
    let help =
        "Ends every sign-in of yours, in this browser and in all others, within five seconds.";
    let fields = vec![Markup::text(help).within("p", "help")];
    let label = ("Sign out everywhere", "danger");
    let form = offer(visit, of, fields, label)?;
    body.push(section("sign-ins", "Your sign-ins", &form));
    if visit.caller().may(Right::Instance) {
        let found: Found<Namespace> = visit.get("/v1/namespaces?limit=500").await?;
        body.push(section(
            "namespaces",
            "Namespaces",
            &namespaces(visit, &found),
        ));
    }
    let version = Markup::text(&format!("Semel {}", env!("CARGO_PKG_VERSION")));
    let document = Markup::text("API of this version").link(&visit.page("/json/openapi.json"));
    body.push(section(
        "version",
        "Version",
        &markup::facts(vec![("This server", version), ("Document", document)]),
    ));
    show_as(
        status,
        &Page {
            shell: Shell::new(visit, "/settings", "Settings", json, "semel alert list"),
            heading_markup: Markup::fixed("Settings"),
            lead_markup: Markup::default(),
            problem,
            body_markup: Markup::join(body),
        },
    )
}

fn links(visit: &Visit) -> Markup {
    let pages = [
        ("Tokens", "/tokens"),
        ("People and groups", "/people"),
        ("Secrets", "/secrets"),
        ("Audit record", "/audit"),
    ];
    let links = pages.map(|(name, page)| Markup::text(name).link(&visit.page(page)));
    Markup::join(links).within("p", "presets")
}

fn alerting(visit: &Visit, alerts: &Alerts) -> Result<Markup, ApiError> {
    let mut parts = Vec::new();
    match &alerts.setting {
        Some(setting) => {
            let to = setting.connection.as_deref().unwrap_or("the server's log");
            parts.push(markup::facts(vec![
                ("Go over", Markup::text(to)),
                ("To", Markup::text(&setting.to.join(", "))),
                (
                    "Connection",
                    match setting.connection_exists {
                        true => markup::other_state("good", "●", "there"),
                        false => markup::other_state("bad", "■", "missing"),
                    },
                ),
                ("Set by", Markup::text(&setting.set_by)),
                ("Set", visit.time(setting.set_at)),
            ]));
            let of = (visit.page("/settings/test-alerts"), Right::Connect);
            let help = Markup::text("One message to where alerts go.").within("p", "help");
            let form = offer(visit, of, vec![help], ("Send a test message", ""))?;
            let test = folded("Test", false, &form);
            parts.push(test.within("div", "acts"));
        }
        None => parts.push(
            Markup::text(
                "Nobody is told. `semel alert set CONNECTION --to ADDRESS` says where alerts go.",
            )
            .within("p", "empty"),
        ),
    }
    if !alerts.groups.is_empty() {
        let row = |group: &AlertGroup| {
            let message = group
                .message
                .as_ref()
                .map(|message| Markup::text(&message.state));
            vec![
                Markup::text(group.kind.as_str()),
                Markup::text(&format!("{} {}", group.flow, group.step)),
                Markup::text(&group.total.to_string()),
                Markup::text(&group.waiting.to_string()),
                visit.time(group.last_at),
                message.unwrap_or_default(),
            ]
        };
        let rows: Vec<Vec<Markup>> = alerts.groups.iter().map(row).collect();
        let columns = [
            "What",
            "Where",
            "How often",
            "Not told yet",
            "Last",
            "Message",
        ];
        parts.push(markup::table("What happened", &columns, &rows));
    }
    Ok(Markup::join(parts))
}

fn token(visit: &Visit, own: &Whoami) -> Markup {
    let rights = match own.rights == Rights::ALL {
        true => "all".to_owned(),
        false => own.rights.to_string(),
    };
    markup::facts(vec![
        ("Name", Markup::text(&visit.caller().token)),
        ("Namespace", Markup::text(visit.caller().namespace.as_str())),
        ("Rights", Markup::text(&rights)),
        ("Networks", Markup::text(&words::networks(&own.networks))),
        ("Queues", Markup::text(&words::queues(&own.queues))),
    ])
}

fn namespaces(visit: &Visit, found: &Found<Namespace>) -> Markup {
    let row = |one: &Namespace| {
        let waiting = one
            .backlog_max
            .map_or("any".to_owned(), |most| most.to_string());
        let history = one
            .history
            .map_or("the server's".to_owned(), |span| span.to_string());
        vec![
            markup::code(&one.name),
            Markup::text(&one.weight.to_string()),
            Markup::text(&waiting),
            Markup::text(&history),
            visit.time(one.created_at),
        ]
    };
    let rows: Vec<Vec<Markup>> = found.items.iter().map(row).collect();
    let columns = ["Name", "Weight", "Most that wait", "History", "Made"];
    markup::table("Namespaces, by name", &columns, &rows)
}
