//! What is measured: every `GET` of the API and every page of the console, each in the ways that differ
//! in what they read.

use anyhow::{Context, Result};
use serde_json::Value;

use super::samples::Samples;
use crate::caller::Who;

/// Operations that are no list, look-up or page, and why.
const LEFT_OUT: [(&str, &str); 13] = [
    ("/approvals/{token}", "the token is only in a message"),
    ("/callbacks/{token}", "the token is only in a message"),
    ("/healthz", "reads nothing"),
    ("/metrics", "reads nothing by itself"),
    ("/readyz", "reads nothing"),
    ("/v1/openapi.json", "reads nothing"),
    ("/v1/reconcile/{flow}", "nothing is reconciled"),
    ("/v1/reconcile/{flow}/{nominal}", "nothing is reconciled"),
    ("/v1/rehearsals/{rehearsal}", "nothing is rehearsed"),
    ("/v1/keys/{flow}/audit", "reads all deliveries, as it says"),
    (
        "/v1/resources/{digest}/content",
        "bytes are not in the database",
    ),
    ("/v1/runs/{run}/wait", "waits"),
    ("/v1/flows/{flow}/rehearsals", "nothing is rehearsed"),
];

/// Further ways to ask, where they read otherwise than the plain one. The plain one comes first; it is
/// left out where the operation needs to be told more.
const WAYS: [(&str, &[&str]); 24] = [
    (
        "/v1/runs",
        &[
            "",
            "?limit=200",
            "?state=active",
            "?state=queued",
            "?state=running",
            "?state=waiting",
            "?state=retrying",
            "?state=in_doubt",
            "?state=needs_review",
            "?state=quarantined",
            "?state=succeeded",
            "?state=failed",
            "?state=cancelled",
            "?state=superseded",
            "?flow=orders",
            "?flow=seldom",
            "?flow=orders&state=failed",
            "?flow=seldom&state=failed",
            "?flow=orders&state=in_doubt",
            "?flow=charging&state=in_doubt",
            "?flow=none",
            "?flow=orders&release=1",
            "?flow=seldom&release=1&state=failed",
            "?since={since}",
            "?until={since}",
            "?state=failed&since={since}",
            "?error=none",
            "?parent={batch}",
            "?external_id={external}",
            "?external_id=none",
            "?key={key}",
            "?key=none",
        ],
    ),
    (
        "/v1/runs/{run}/child-runs",
        &[
            "",
            "?state=failed",
            "?step=each",
            "?step=each&state=succeeded",
        ],
    ),
    (
        "/v1/effects",
        &[
            "",
            "?limit=200",
            "?state=pending",
            "?state=retrying",
            "?state=done",
            "?state=failed",
            "?state=in_doubt",
            "?run={run}",
            "?flow=orders&key={key}",
            "?external_id={external}",
            "?external_id=none",
            "?flow=seldom",
            "?flow=orders&state=failed",
            "?step=charge",
            "?step=none",
            "?since={since}",
            "?until={since}",
        ],
    ),
    (
        "/v1/duplicates",
        &[
            "",
            "?limit=200",
            "?without_payloads=true",
            "?held=true",
            "?held=true&flow=holding",
            "?held=true&flow=seldom",
            "?run={run}",
            "?key={key}",
        ],
    ),
    ("/v1/approvals", &["", "?all=true", "?run={asking}"]),
    ("/v1/waits", &["", "?all=true", "?run={waiting}"]),
    (
        "/v1/tasks",
        &[
            "",
            "?all=true",
            "?queue=images",
            "?queue=none",
            "?state=done",
            "?queue=images&state=held",
            "?run={working}",
        ],
    ),
    (
        "/v1/audit",
        &[
            "",
            "?action=key.drop",
            "?action=none",
            "?actor=auditor",
            "?actor=none",
            "?actor=auditor&action=run.cancel",
            "?subject=none",
            "?subject=none&actor=auditor",
            "?since={since}",
            "?until={since}",
        ],
    ),
    ("/v1/audit/chain", &["", "?after=100"]),
    ("/v1/audit/removed", &["", "?after=100"]),
    (
        "/v1/refusals",
        &[
            "",
            "?code=signature-invalid",
            "?code=none",
            "?flow=seldom",
            "?flow=none",
            "?since={since}",
        ],
    ),
    (
        "/v1/once",
        &[
            "",
            "?state=in_doubt",
            "?state=done",
            "?state=failed",
            "?scope=shared",
            "?scope=none",
        ],
    ),
    ("/v1/tokens", &["", "?all=true"]),
    ("/v1/kv", &["", "?prefix=stock", "?prefix=none"]),
    ("/v1/kv/entry", &["?entry=stock/one"]),
    (
        "/v1/find",
        &["?key={key}", "?key=none", "?key={run}", "?key={external}"],
    ),
    ("/v1/flows/{flow}/diff", &["?before=1&after=3"]),
    ("/v1/keys/{flow}", &["?key={key}"]),
    ("/v1/replay-plans/{plan}/runs", &["", "?state=replayed"]),
    (
        "/v1/subscriptions/{name}/deliveries",
        &["", "?state=due", "?state=failed"],
    ),
    ("/v1/schedules/{flow}/ticks", &[""]),
    ("/v1/runs/{run}", &[""]),
    (
        "/v1/tallies",
        &["", "?last=1h", "?last=90d", "?flow=orders"],
    ),
    (
        "/v1/tallies/series",
        &[
            "",
            "?last=1h",
            "?last=7d",
            "?last=30d",
            "?last=30d&flow=orders",
        ],
    ),
];

/// The pages of the console, behind `/console/{namespace}`.
pub(super) const PAGES: [&str; 70] = [
    "/",
    "/?last=1h",
    "/?last=30d",
    "/?last=30d&flow=orders",
    "/runs",
    "/runs?q=state%3Afailed",
    "/runs?q=state%3Asuperseded",
    "/runs?q=state%3Ain_doubt",
    "/runs?q=flow%3Aorders",
    "/runs?q=flow%3Aseldom",
    "/runs?q=flow%3Aseldom%20state%3Afailed",
    "/runs/{run}",
    "/runs/{doubtful}",
    "/runs/{batch}",
    "/runs/{asking}",
    "/runs/{run}/duplicates",
    "/runs/{batch}/items?state=failed",
    "/runs/{batch}/items",
    "/runs/{run}/replay",
    "/runs?q=flow%3Aorders%20release%3A1%20since%3A{since}",
    "/runs?q=error%3Ahttp-status",
    "/searches",
    "/keys?key={key}",
    "/keys?key=none",
    "/doubts",
    "/doubts/group?flow=charging",
    "/effects",
    "/effects?state=failed",
    "/effects?state=in_doubt",
    "/effects/{effect}",
    "/effects/{doubt}",
    "/approvals",
    "/approvals?all=yes",
    "/approvals/{approval}",
    "/duplicates",
    "/duplicates?held=yes",
    "/flows",
    "/flows/{flow}",
    "/flows/{flow}?release=1",
    "/flows/{flow}/releases",
    "/flows/{flow}/diff/r1..r2",
    "/flows/{flow}/releases/1/rehearsal",
    "/schedules",
    "/schedules/nightly",
    "/connections",
    "/connections/hooked",
    "/secrets",
    "/subscriptions",
    "/subscriptions/hooked",
    "/events",
    "/events/{event}",
    "/servers",
    "/tasks",
    "/tasks?queue=images&all=yes",
    "/jobs",
    "/jobs/new?verb=resume&flow=failing&state=failed&after={since}",
    "/jobs/{job}",
    "/replays",
    "/replays/{plan}",
    "/settings",
    "/audit",
    "/audit?subject=none&since={since}",
    "/audit/chain",
    "/audit/export?format=csv&since={since}",
    "/refusals",
    "/waits",
    "/waits?all=yes",
    "/waits/{wait}",
    "/tokens",
    "/people",
];

/// What is asked in the namespace with a hundred old runs.
const QUIET: [&str; 8] = [
    "/v1/runs",
    "/v1/runs?state=failed",
    "/v1/runs?state=in_doubt",
    "/v1/runs?flow=orders",
    "/v1/effects",
    "/v1/effects?state=failed",
    "/v1/duplicates",
    "/v1/doubts",
];

/// One address, and who asks for it.
pub(super) struct Address {
    pub(super) who: Who,
    /// As it is shown: with the names of what stands in it.
    pub(super) shown: String,
    /// As it is asked for.
    pub(super) path: String,
    /// Whether the page after it is measured too.
    pub(super) has_next: bool,
}

/// Every address, by the document of the API and by [`PAGES`].
pub(super) fn all(document: &Value, samples: &Samples) -> Result<Vec<Address>> {
    let paths = document["paths"].as_object().context("paths")?;
    let mut all = Vec::new();
    for (path, operations) in paths {
        let operation = &operations["get"];
        if operation.is_null() || LEFT_OUT.iter().any(|(out, _)| out == path) {
            continue;
        }
        let parameters = operation["parameters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let has_next = parameters.iter().any(|it| it["name"] == "cursor");
        let ways = WAYS.iter().find(|(of, _)| of == path);
        for way in ways.map_or(&[""][..], |(_, ways)| ways) {
            let shown = format!("{path}{way}");
            all.push(Address {
                who: Who::Program,
                path: samples.fill_in(&shown)?,
                has_next: has_next && way.is_empty(),
                shown,
            });
        }
    }
    for page in PAGES {
        let page = format!("/console/default{page}");
        all.push(Address {
            who: Who::Browser,
            path: samples.fill_in(&page)?,
            has_next: false,
            shown: page,
        });
    }
    Ok(all)
}

/// What is asked in the namespace that has few runs.
pub(super) fn quiet() -> impl Iterator<Item = Address> {
    QUIET.into_iter().map(|path| Address {
        who: Who::Program,
        shown: format!("{path} (a namespace with few runs)"),
        path: path.to_owned(),
        has_next: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page that is not measured is a page that may be slow.
    #[test]
    fn every_page_of_the_console_is_measured() {
        let routes = include_str!("../../../server/src/console.rs");
        let is_place = |part: &str| part.starts_with('{') && part.ends_with('}');
        let shape = |page: &str| -> Vec<String> {
            let path = page.split('?').next().unwrap_or_default();
            path.split('/').map(str::to_owned).collect()
        };
        let fits = |route: &[String], page: &[String]| {
            let same = |(route, page): (&String, &String)| route == page || is_place(route);
            route.len() == page.len() && route.iter().zip(page).all(same)
        };
        let reading = routes.split("/// The pages.\n").nth(1).expect("the pages");
        let reading = reading.split("/// The forms.\n").next().expect("an end");
        let (mut missing, mut count) = (Vec::new(), 0);
        for text in reading.split('"').skip(1).step_by(2) {
            let Some(route) = text.strip_prefix("/console/{namespace}") else {
                continue;
            };
            let is_form = ["/pause", "/resume", "/start", "/rehearse", "/promote"]
                .iter()
                .any(|verb| route.ends_with(verb));
            // A stream: it says something only when something changes.
            let is_stream = route == "/live";
            if is_form || is_stream || route.contains("{*rest}") {
                continue;
            }
            count += 1;
            let route = shape(route);
            if !PAGES.iter().any(|page| fits(&route, &shape(page))) {
                missing.push(text);
            }
        }
        assert!(count > 25, "{count} routes are not all of them");
        assert!(missing.is_empty(), "no address in PAGES for {missing:?}");
    }
}
