//! Servers: which are alive, what they hold, how much there is to do in the installation, and whether background services
//! are done in time.

use std::time::Duration;

use semel_api::types::{
    Server, ServerState, Servers, ServiceFailures, ServiceState, ServiceStatus,
};
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
        section("services", "Background services", &services(&visit, &found)),
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

fn services(visit: &Visit, found: &Servers) -> Markup {
    let about = "Of the live servers one or a few do each duty for all; every other service each server does for itself. A duty that is late is done by the next server as well.";
    let about = Markup::text(about).within("p", "help");
    let columns = ["State", "Service", "Last done", "By", "What to do"];
    let mut by_state: Vec<&ServiceStatus> = found.services.iter().collect();
    // What needs somebody stands first.
    by_state.sort_by_key(|it| match it.state {
        ServiceState::Late => 0,
        ServiceState::Covered => 1,
        ServiceState::OnTime => 2,
    });
    let rows: Vec<Vec<Markup>> = by_state.iter().map(|it| service(visit, it)).collect();
    let caption = "Background services, those that are late first";
    Markup::join([
        about,
        markup::table(caption, &columns, &rows),
        failures(found),
    ])
}

fn service(visit: &Visit, service: &ServiceStatus) -> Vec<Markup> {
    let (class, shape, word) = match service.state {
        ServiceState::Late => ("bad", "■", "late"),
        ServiceState::Covered => ("doubt", "▲", "covered"),
        ServiceState::OnTime => ("good", "●", "on time"),
    };
    let age = Duration::try_from_secs_f64(service.finished_seconds).unwrap_or_default();
    let by = service.finished_by.as_deref();
    // Nothing is known of a service that no server has finished since this one began.
    let last = by.and_then(|_| visit.now.checked_sub(age).ok());
    vec![
        markup::other_state(class, shape, word),
        markup::code(&service.service),
        last.map_or_else(Markup::default, |at| visit.time(at)),
        by.map_or_else(Markup::default, markup::code),
        service
            .hint
            .as_deref()
            .map_or_else(Markup::default, Markup::text),
    ]
}

fn failures(found: &Servers) -> Markup {
    if found.failing.is_empty() {
        return Markup::text("No pass has failed on the server that shows this page.")
            .within("p", "empty");
    }
    let row = |it: &ServiceFailures| {
        let failed = Markup::text(&it.failed.to_string());
        vec![markup::code(&it.service), failed]
    };
    let rows: Vec<Vec<Markup>> = found.failing.iter().map(row).collect();
    let caption = "Failed passes on the server that shows this page";
    markup::table(caption, &["Service", "Failed passes here"], &rows)
}
