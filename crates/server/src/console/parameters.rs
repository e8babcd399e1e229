//! The parameters of the pages. One that a page does not know is refused, as the API does: who mistypes a filter
//! would otherwise take everything for what they asked for.

use std::collections::HashMap;

use semel_api::Code;

use crate::error::ApiError;

/// Every page that has parameters: its route behind the namespace, and their names. [`EVERYWHERE`] may be on each.
const NAMES: &[(&str, &[&str])] = &[
    ("/", &["last", "flow"]),
    ("/live", &["topic", "once"]),
    ("/runs", &["q", "cursor"]),
    ("/runs/{run}", &["rows"]),
    ("/runs/{run}/duplicates", &["cursor"]),
    ("/runs/{run}/items", &["state", "step", "cursor"]),
    ("/runs/{run}/replay", &["from", "release", "accept"]),
    ("/keys", &["key"]),
    ("/doubts", &["cursor"]),
    (
        "/doubts/group",
        &["flow", "step", "connection", "seen", "verdict"],
    ),
    (
        "/effects",
        &[
            "state",
            "flow",
            "step",
            "since",
            "until",
            "external_id",
            "cursor",
        ],
    ),
    ("/approvals", &["all", "cursor"]),
    ("/duplicates", &["held", "cursor"]),
    ("/flows/{flow}", &["release"]),
    ("/flows/{flow}/releases", &["cursor"]),
    ("/schedules/{flow}", &["cursor"]),
    ("/subscriptions/{name}", &["state", "cursor"]),
    ("/events", &["cursor"]),
    ("/tasks", &["queue", "all", "cursor"]),
    (
        "/jobs",
        &["verb", "flow", "state", "after", "before", "cursor"],
    ),
    (
        "/jobs/new",
        &["verb", "flow", "state", "after", "before", "cursor"],
    ),
    ("/replays", &["cursor"]),
    ("/replays/{plan}", &["cursor"]),
    (
        "/audit",
        &["actor", "action", "subject", "since", "until", "cursor"],
    ),
    ("/audit/chain", &["digest", "after"]),
    (
        "/audit/export",
        &["actor", "action", "subject", "since", "until", "format"],
    ),
    ("/refusals", &["flow", "code", "since", "until", "cursor"]),
    ("/waits", &["all", "cursor"]),
    ("/tokens", &["cursor"]),
    ("/people", &["cursor"]),
];

/// Whether long texts are shown whole.
const EVERYWHERE: &str = "whole";

/// Those that are on or off.
const SWITCHES: [&str; 4] = ["all", "held", "once", EVERYWHERE];

/// Routes whose parameters are somebody else's: the API's, or those of no page.
const OTHERS: [&str; 2] = ["/json/{*rest}", "/{*rest}"];

/// Refuses what the page does not know, and spells those that are on `yes`.
///
/// # Errors
///
/// Where a name, or the value of a switch, is not known.
pub(super) fn read(route: &str, query: &mut HashMap<String, String>) -> Result<(), ApiError> {
    let page = route.strip_prefix("/console/{namespace}").unwrap_or(route);
    if OTHERS.contains(&page) {
        return Ok(());
    }
    let known = NAMES.iter().find(|(name, _)| *name == page);
    let known = known.map(|(_, names)| *names).unwrap_or_default();
    for (name, value) in query {
        if name != EVERYWHERE && !known.contains(&name.as_str()) {
            return Err(unknown(page, name, value, known));
        }
        if SWITCHES.contains(&name.as_str()) {
            *value = switch(name, value)?.to_owned();
        }
    }
    Ok(())
}

fn switch(name: &str, value: &str) -> Result<&'static str, ApiError> {
    match value.trim() {
        "yes" | "true" | "1" => Ok("yes"),
        "" | "no" | "false" | "0" => Ok(""),
        _ => {
            let detail = format!("the parameter `{name}` is `yes`, or left out");
            Err(ApiError::new(Code::QueryInvalid, detail))
        }
    }
}

fn unknown(page: &str, name: &str, value: &str, known: &[&str]) -> ApiError {
    let detail = format!("this page has no parameter `{name}`");
    let hint = match (page, known.is_empty()) {
        ("/runs", _) => format!("Search with `q`, as in `q={name}:{value}`."),
        (_, true) => "This page has no parameters.".to_owned(),
        (_, false) => format!("It has {}.", known.join(", ")),
    };
    ApiError::new(Code::QueryInvalid, detail).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(route: &str, query: &[(&str, &str)]) -> Result<HashMap<String, String>, ApiError> {
        let named = query.iter();
        let mut query: HashMap<String, String> = named
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let route = format!("/console/{{namespace}}{route}");
        read(&route, &mut query).map(|()| query)
    }

    #[test]
    fn what_a_page_does_not_know_is_refused() {
        assert!(asked("/runs", &[("q", "state:failed"), ("whole", "yes")]).is_ok());
        assert!(asked("/json/{*rest}", &[("state", "failed")]).is_ok());
        let refused = asked("/runs", &[("state", "failed")]).unwrap_err();
        assert_eq!(refused.problem().code, "query-invalid");
        assert!(refused.problem().hint.contains("q=state:failed"));
        assert!(asked("/servers", &[("nonsense", "1")]).is_err());
    }

    #[test]
    fn a_switch_is_on_or_off_and_nothing_else() {
        let on = asked("/duplicates", &[("held", "true")]).unwrap();
        let off = asked("/duplicates", &[("held", "no")]).unwrap();

        assert_eq!((on["held"].as_str(), off["held"].as_str()), ("yes", ""));
        assert!(asked("/duplicates", &[("held", "some")]).is_err());
    }
}
