//! Which hosts a connection leads to, and whether a secret may go there.

use std::mem::discriminant;

use semel_model::Connection;
use semel_model::connection::{Target, Tls};
use semel_model::host::HostPattern;
use url::Url;

/// The hosts that get a connection's secrets, or what is made with them. An address that cannot be read
/// is one that no secret is bound to.
pub(crate) fn of_connection(connection: &Connection) -> Vec<String> {
    match &connection.to {
        // The secret goes to where tokens are fetched, and the token to the destination.
        Target::Http(http) => {
            let addresses = std::iter::once(http.base_url.as_str()).chain(http.auth.token_url());
            addresses.map(host_of).collect()
        }
        Target::Slack(slack) => vec![host_of(&slack.base_url)],
        Target::Llm(llm) => vec![host_of(&llm.base_url)],
        Target::Webhook(webhook) => vec![host_of(&webhook.url)],
        Target::Postgres(postgres) => vec![postgres.host.clone()],
        Target::Smtp(smtp) => vec![smtp.host.clone()],
        Target::Ssh(ssh) => vec![ssh.host.clone()],
    }
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
            is_https(&http.base_url) && http.auth.token_url().is_none_or(is_https)
        }
        Target::Slack(slack) => is_https(&slack.base_url),
        Target::Llm(llm) => is_https(&llm.base_url),
        // A signature shows nothing of its secret.
        Target::Webhook(_) | Target::Ssh(_) => true,
        Target::Postgres(postgres) => postgres.tls != Tls::Off,
        Target::Smtp(smtp) => smtp.tls != Tls::Off,
    }
}

/// Whether a secret that is bound to these hosts is sent over a connection.
pub fn may_send(bound: &[String], connection: &Connection) -> bool {
    find_unbound(bound, &of_connection(connection)).is_none()
}

/// The first of the hosts that a secret is not bound to, where it is bound. A bound host that cannot be
/// read is none of them.
pub(crate) fn find_unbound<'a>(bound: &[String], hosts: &'a [String]) -> Option<&'a str> {
    if bound.is_empty() {
        return None;
    }
    let patterns = bound.iter().filter_map(|host| host.parse().ok());
    let patterns: Vec<HostPattern> = patterns.collect();
    let fits = |host: &&String| patterns.iter().any(|pattern| pattern.matches(host));
    let unbound = hosts.iter().find(|host| !fits(host));
    unbound.map(String::as_str)
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
