//! Which hosts a connection leads to, and whether a secret may go there.

use std::mem::discriminant;

use semel_model::Connection;
use semel_model::connection::{HttpAuth, HttpTarget, Target, Tls};
use semel_model::host::HostPattern;
use url::Url;

/// The hosts that get a connection's secrets, or what is made with them. An address that cannot be read
/// is one that no secret is bound to.
pub(crate) fn of_connection(connection: &Connection) -> Vec<String> {
    match &connection.to {
        Target::Http(http) => of_http(http),
        Target::Slack(slack) => vec![host_of(&slack.base_url)],
        Target::Llm(llm) => vec![host_of(&llm.base_url)],
        Target::Webhook(webhook) => vec![host_of(&webhook.url)],
        Target::Postgres(postgres) => vec![postgres.host.clone()],
        Target::Smtp(smtp) => vec![smtp.host.clone()],
        Target::Ssh(ssh) => vec![ssh.host.clone()],
    }
}

fn of_http(http: &HttpTarget) -> Vec<String> {
    let mut hosts = vec![host_of(&http.base_url)];
    match &http.auth {
        // The secret goes to where tokens are fetched, and the token to the destination.
        HttpAuth::Oauth2 { token_url, .. } => hosts.push(host_of(token_url)),
        HttpAuth::None
        | HttpAuth::Bearer { .. }
        | HttpAuth::Basic { .. }
        | HttpAuth::Header { .. }
        | HttpAuth::Mtls { .. } => {}
    }
    hosts
}

fn host_of(address: &str) -> String {
    let url = Url::parse(address).ok();
    let host = url.as_ref().and_then(Url::host_str);
    host.unwrap_or_default().to_owned()
}

/// Whether a secret is used in the same way over both: a private key that is sent as a password is shown to
/// the other end.
pub(crate) fn is_same_way(one: &Connection, other: &Connection) -> bool {
    match (&one.to, &other.to) {
        (Target::Http(one), Target::Http(other)) => {
            discriminant(&one.auth) == discriminant(&other.auth) && one.trust == other.trust
        }
        (Target::Postgres(one), Target::Postgres(other)) => one.trust == other.trust,
        (one, other) => discriminant(one) == discriminant(other),
    }
}

/// Whether nobody on the way can read what is sent.
pub(crate) fn is_encrypted(connection: &Connection) -> bool {
    let is_https = |address: &str| address.starts_with("https://");
    match &connection.to {
        Target::Http(http) => {
            let tokens = match &http.auth {
                HttpAuth::Oauth2 { token_url, .. } => is_https(token_url),
                HttpAuth::None
                | HttpAuth::Bearer { .. }
                | HttpAuth::Basic { .. }
                | HttpAuth::Header { .. }
                | HttpAuth::Mtls { .. } => true,
            };
            is_https(&http.base_url) && tokens
        }
        Target::Slack(slack) => is_https(&slack.base_url),
        Target::Llm(llm) => is_https(&llm.base_url),
        // A signature shows nothing of its secret.
        Target::Webhook(_) | Target::Ssh(_) => true,
        Target::Postgres(postgres) => postgres.tls != Tls::Off,
        Target::Smtp(smtp) => smtp.tls != Tls::Off,
    }
}

/// Hosts as they are stored. One that cannot be read matches nothing, and the secret stays bound.
pub(super) fn read(stored: &[String]) -> Vec<HostPattern> {
    let read: Vec<HostPattern> = stored.iter().filter_map(|host| host.parse().ok()).collect();
    match (read.is_empty(), stored.is_empty()) {
        (true, false) => "unreadable.invalid".parse().into_iter().collect(),
        _ => read,
    }
}

/// Whether a secret that is bound to these may go to all of those hosts.
pub(super) fn allows(bound: &[HostPattern], hosts: &[String]) -> bool {
    let fits = |host: &String| bound.iter().any(|pattern| pattern.matches(host));
    bound.is_empty() || hosts.iter().all(fits)
}

/// Whether a secret that is bound to these hosts is sent over a connection.
pub fn may_send(stored: &[String], connection: &Connection) -> bool {
    find_unbound(stored, &of_connection(connection)).is_none()
}

/// The first of the hosts that a secret is not bound to, where it is bound.
pub(crate) fn find_unbound<'a>(stored: &[String], hosts: &'a [String]) -> Option<&'a str> {
    let bound = read(stored);
    let is_foreign = |host: &&String| !allows(&bound, std::slice::from_ref(*host));
    hosts.iter().find(is_foreign).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hosts(to: Value) -> Vec<String> {
        of_connection(&serde_json::from_value(json!({ "to": to })).unwrap())
    }

    #[test]
    fn tokens_are_fetched_from_a_host_of_their_own() {
        let auth = json!({ "oauth2": { "token_url": "https://login.example/t", "client_id": "c", "secret": "s" } });
        let to = json!({ "http": { "base_url": "https://API.example:8443/v1", "auth": auth } });

        assert_eq!(hosts(to), ["api.example", "login.example"]);
    }

    #[test]
    fn a_secret_goes_only_where_it_is_bound_to() {
        let bound = vec!["api.example".to_owned()];
        let [here, there] = ["api.example".to_owned(), "evil.example".to_owned()];

        assert_eq!(find_unbound(&bound, std::slice::from_ref(&here)), None);
        assert_eq!(
            find_unbound(&bound, &[here, there.clone()]),
            Some("evil.example")
        );
        assert_eq!(find_unbound(&[], std::slice::from_ref(&there)), None);
        assert_eq!(
            find_unbound(&["not a host".to_owned()], &[there]),
            Some("evil.example")
        );
    }
}
