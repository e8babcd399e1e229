//! The server and the token.

use semel_api::ClientError;
use semel_api::types::{Alerts, Pause, ServiceState, ServiceStatus};
use semel_model::Rights;

use super::Line;
use crate::answer::chain;
use crate::context::Context;
use crate::remote;
use crate::text::{ago, printable};
use crate::views;

pub(super) async fn look(ctx: &Context) -> Vec<Line> {
    let client = match remote::client(ctx) {
        Ok(client) => client,
        Err(problem) => {
            let mend = "set SEMEL_URL and SEMEL_TOKEN, or run `semel dev` here";
            let mend = problem.advice().unwrap_or(mend);
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
    let mut lines = vec![
        server,
        token(client.whoami().await),
        alerts(client.list_alerts().await),
    ];
    // A token that is refused has its line already.
    if let Ok(open) = client.list_pauses().await {
        lines.extend(open.items.iter().map(paused));
    }
    match client.list_servers().await {
        Ok(servers) => lines.extend(services(&servers.services)),
        Err(error) if error.status() == Some(403) => lines.push(unseen()),
        // A server that does not answer has its line already, too.
        Err(_) => {}
    }
    lines
}

/// Which background services are late: one line for each.
fn services(found: &[ServiceStatus]) -> Vec<Line> {
    let late: Vec<Line> = found.iter().filter_map(late).collect();
    match late.is_empty() {
        true => vec![Line::ok(
            "services",
            format!("all {} are done in time", found.len()),
        )],
        false => late,
    }
}

fn late(service: &ServiceStatus) -> Option<Line> {
    let name = printable(&service.service);
    let (secs, most) = (service.finished_seconds, service.late_after_seconds);
    let found = match service.state {
        ServiceState::OnTime => return None,
        ServiceState::Covered => {
            format!(
                "{name} is done by another server: its own has finished nothing for {most:.0} s"
            )
        }
        ServiceState::Late => {
            format!(
                "{name} is late: nobody has finished a pass for {secs:.0} s, more than {most:.0} s"
            )
        }
    };
    let mend = printable(service.hint.as_deref().unwrap_or_default());
    Some(Line::warn("services", found, mend))
}

/// Only who manages the installation sees its services.
fn unseen() -> Line {
    let found = "not looked at: the token does not have the right instance";
    Line::ok("services", found)
}

fn paused(pause: &Pause) -> Line {
    let mend = format!("semel {} resume {}", pause.kind, pause.name);
    Line::warn("pause", views::pause::tell(pause), mend)
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

/// Whether people learn of doubts and stopped runs.
fn alerts(found: Result<Alerts, ClientError>) -> Line {
    let alerts = match found {
        Ok(alerts) => alerts,
        Err(error) => return Line::warn("alerts", chain(&error), error.hint()),
    };
    let set = "semel alert set CONNECTION";
    let Some(setting) = &alerts.setting else {
        return Line::warn("alerts", "none are set: people learn of nothing", set);
    };
    let Some(connection) = &setting.connection else {
        return Line::warn("alerts", "only printed to the server's log", set);
    };
    if !setting.connection_exists {
        let found = format!("they go to {}, which does not exist", printable(connection));
        return Line::warn("alerts", found, set);
    }
    let failing = alerts.groups.iter().filter(|group| group.failures > 0);
    match failing.clone().count() {
        0 => Line::ok("alerts", format!("they go to {}", printable(connection))),
        count => {
            let messages = failing.filter_map(|group| group.message.as_ref());
            let note = messages
                .filter_map(|message| message.note.as_deref())
                .next();
            let note = printable(note.unwrap_or("the outcome is unknown"));
            let found = format!("{count} groups have a message that was not delivered: {note}");
            Line::warn("alerts", found, "semel alert list, then semel alert test")
        }
    }
}

fn spelled(rights: Rights) -> String {
    match rights == Rights::ALL {
        true => "do everything".to_owned(),
        false => rights.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    fn service(name: &str, state: ServiceState, hint: Option<&str>) -> ServiceStatus {
        ServiceStatus {
            service: name.to_owned(),
            is_duty: true,
            held_here: true,
            state,
            finished_seconds: 720.0,
            late_after_seconds: 90.0,
            finished_by: Some("host 1".to_owned()),
            failed_at: None,
            failed_by: None,
            error: None,
            hint: hint.map(str::to_owned),
        }
    }

    #[test]
    fn each_late_service_has_a_line_that_says_what_to_do() {
        let on_time = service("alerts", ServiceState::OnTime, None);
        let late = service("retention_keys", ServiceState::Late, Some("restart host 1"));

        let lines = services(&[on_time.clone(), late]);
        let well = services(&[on_time]);

        let [line] = lines.as_slice() else {
            panic!("{lines:?}");
        };
        assert_eq!(line.state, State::Warn);
        assert_eq!(line.mend.as_deref(), Some("restart host 1"));
        let found = "retention_keys is late: nobody has finished a pass for 720 s, more than 90 s";
        assert_eq!(line.found, found);
        assert_eq!(well.len(), 1);
        assert_eq!(well[0].found, "all 1 are done in time");
    }
}
