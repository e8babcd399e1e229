//! Servers: which are alive, what they hold, and how much there is to do in the installation.

use semel_api::types::{Server, ServerState, Servers};
use semel_model::Right;

use super::forms::section;
use super::markup::{self, Markup};
use super::shell::{Shell, show_list};
use super::visit::Visit;
use super::words;
use crate::answer::Answered;

/// `GET /console/{namespace}/servers`.
pub(super) async fn page(visit: Visit) -> Answered {
    let json = "/v1/servers";
    let shell = Shell::new(
        &visit,
        "/servers",
        "Servers",
        json,
        "semel api GET /v1/servers",
    );
    if let Some(missing) = visit.lacks(Right::Instance) {
        // A page for who manages the installation; others learn what they would need.
        let lead = Markup::fixed("The servers of the whole installation are for who manages it.");
        let why = Markup::text(&missing).within("p", "empty");
        return show_list(shell, lead, vec![why]);
    }
    let found: Servers = visit.get(json).await?;
    let live = found
        .servers
        .iter()
        .filter(|it| it.state == ServerState::Live);
    let lead = format!(
        "{} a lease that holds.",
        words::count(live.count(), "server has", "servers have")
    );
    let columns = [
        "State",
        "Process",
        "Version",
        "Runs held",
        "Started",
        "Lease ends",
        "Session",
    ];
    let rows: Vec<Vec<Markup>> = found.servers.iter().map(|it| row(&visit, it)).collect();
    let servers = match rows.is_empty() {
        true => Markup::text("No server has a session.").within("p", "empty"),
        false => markup::table("Servers, the newest first", &columns, &rows),
    };
    let body = vec![
        section("sessions", "Servers", &servers),
        section("queue", "To do, in all namespaces", &queue(&found)),
        section("services", "Background services", &services(&found)),
    ];
    show_list(shell, Markup::text(&lead), body)
}

fn row(visit: &Visit, server: &Server) -> Vec<Markup> {
    let state = match server.state {
        ServerState::Live => markup::other_state("good", "●", "live"),
        ServerState::Expired => markup::other_state("quiet", "✕", "expired"),
    };
    vec![
        state,
        markup::code(&server.process),
        Markup::text(&server.version),
        Markup::text(&server.held.to_string()),
        visit.time(server.started_at),
        visit.time(server.expires_at),
        markup::code(&server.session),
    ]
}

fn queue(found: &Servers) -> Markup {
    let depth = &found.queue;
    let due = usize::try_from(depth.due).unwrap_or(usize::MAX);
    let oldest = match depth.due {
        0 => Markup::default(),
        _ => Markup::text(&format!("{:.1} s", depth.oldest_due_seconds)),
    };
    markup::facts(vec![
        (
            "Runs that servers hold",
            Markup::text(&depth.held.to_string()),
        ),
        (
            "Runs that wait for a server",
            Markup::text(&words::at_most(due, 9_999)),
        ),
        ("The first of them for", oldest),
    ])
}

fn services(found: &Servers) -> Markup {
    let about = "Every server runs every background service, and they share the work by locks: none belongs to one server.";
    let about = Markup::text(about).within("p", "help");
    let failed = match found.failing.is_empty() {
        true => Markup::text("No pass has failed on the server that shows this page.")
            .within("p", "empty"),
        false => {
            let rows: Vec<Vec<Markup>> = found
                .failing
                .iter()
                .map(|it| {
                    vec![
                        markup::code(&it.service),
                        Markup::text(&it.failed.to_string()),
                    ]
                })
                .collect();
            let caption = "Failed passes on the server that shows this page";
            markup::table(caption, &["Service", "Failed passes here"], &rows)
        }
    };
    Markup::join([about, failed])
}
