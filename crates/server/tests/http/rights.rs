//! Rights: every route needs the one that it declares, and no other.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_api::Client;
use semel_api::types::{RunFilter, StartRun};
use semel_model::{Right, Rights, Role};
use semel_server::{Access, DeclaredRoute, list_routes};
use semel_testkit::client::Answer;
use serde_json::Value;

use crate::world::{World, add_token_with, patience_span};

/// A path whose variable parts lead nowhere.
fn fill(path: &str) -> String {
    let zeros = "0".repeat(32);
    let digest = "0".repeat(64);
    path.replace("{run}", &format!("run_{zeros}"))
        .replace("{effect}", &format!("eff_{zeros}"))
        .replace("{event}", &format!("eff_{zeros}"))
        .replace("{task}", &format!("eff_{zeros}"))
        .replace("{duplicate}", &format!("dup_{zeros}"))
        .replace("{wait}", &format!("wait_{zeros}"))
        .replace("{approval}", &format!("wait_{zeros}"))
        .replace("/tokens/{token}", &format!("/tokens/tok_{zeros}"))
        .replace("{digest}", &format!("sha256:{digest}"))
        .replace(['{', '}'], "")
}

/// Asks a route for nothing in particular.
async fn ask(world: &World, route: &DeclaredRoute, token: Option<&str>) -> Result<Answer> {
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![
        ("content-type", "application/json"),
        ("sec-fetch-site", "same-origin"),
    ];
    headers.extend(bearer.iter().map(|it| ("authorization", it.as_str())));
    let body = match route.method == Method::GET {
        true => "",
        false => "{}",
    };
    let path = fill(&route.path);
    let method = route.method.clone();
    Ok(world
        .bare
        .send(method, &path, &headers, body.into())
        .await?)
}

/// For each right, a token that has only it, and one that has every other.
async fn tokens(world: &World) -> Result<BTreeMap<Right, (String, String)>> {
    let cell = world.engine.cell();
    let mut tokens = BTreeMap::new();
    for right in Right::ALL {
        let only = Rights::from(*right);
        let with = add_token_with(cell, &format!("only-{right}"), only).await?;
        let without = Rights::ALL.without(only);
        let without = add_token_with(cell, &format!("all-but-{right}"), without).await?;
        tokens.insert(*right, (with, without));
    }
    Ok(tokens)
}

#[tokio::test]
async fn every_route_needs_the_right_that_it_declares_and_no_other() -> Result<()> {
    let world = World::start().await?;
    let tokens = tokens(&world).await?;
    let routes = list_routes();
    ensure!(routes.len() > 60, "{} routes", routes.len());

    for route in &routes {
        let place = format!("{} {}", route.method, route.path);
        let bare = ask(&world, route, None).await?;
        let (right, (with, without)) = match route.access {
            Access::Open(reason) => {
                assert_ne!(bare.status, 401, "{place}: {reason}");
                assert_ne!(bare.status, 403, "{place}: {reason}");
                continue;
            }
            Access::AnyToken(reason) => {
                let (any, _) = &tokens[&Right::Work];
                let answer = ask(&world, route, Some(any)).await?;
                assert_eq!(
                    (bare.status, answer.status),
                    (401.try_into()?, 200.try_into()?),
                    "{place}: {reason}"
                );
                continue;
            }
            Access::Console => {
                let (any, _) = &tokens[&Right::Admin];
                let answer = ask(&world, route, Some(any)).await?;
                for answer in [bare, answer] {
                    let to = answer.header("location").unwrap_or_default();
                    assert_eq!(answer.status, 303, "{place}: no token opens the console");
                    ensure!(to.starts_with("/console/sign-in?to="), "{place}: {to}");
                }
                continue;
            }
            Access::Right(right) | Access::Monitor(right) => (right, &tokens[&right]),
        };
        let denied = ask(&world, route, Some(without)).await?;
        let let_in = ask(&world, route, Some(with)).await?;

        assert_eq!(bare.status, 401, "{place} without a token");
        assert_eq!(
            denied.status,
            403,
            "{place} without {right}: {}",
            denied.text()
        );
        let problem: Value = denied.json()?;
        assert_eq!(problem["code"], "right-missing", "{place}");
        let detail = format!("the token `all-but-{right}` does not have the right `{right}`");
        assert_eq!(problem["detail"], detail, "{place}");
        let hint = problem["hint"].as_str().context("a hint")?;
        ensure!(
            hint.contains(&format!("--right {right}")),
            "{place}: {hint}"
        );
        let text = let_in.text();
        assert_ne!(let_in.status, 401, "{place} with {right}: {text}");
        assert_ne!(let_in.status, 403, "{place} with {right}: {text}");
        ensure!(!let_in.status.is_server_error(), "{place}: {text}");
    }
    Ok(())
}

#[test]
fn only_addresses_that_carry_their_own_proof_and_health_checks_are_open() {
    let open: Vec<String> = list_routes()
        .into_iter()
        .filter(|route| matches!(route.access, Access::Open(_)))
        .map(|route| format!("{} {}", route.method, route.path))
        .collect();

    assert_eq!(
        open,
        [
            "POST /hooks/{namespace}/{path}",
            "OPTIONS /hooks/{namespace}/{path}",
            "POST /callbacks/{token}",
            "GET /callbacks/{token}",
            "GET /approvals/{token}",
            "POST /approvals/{token}",
            "GET /healthz",
            "GET /readyz",
            "GET /v1/openapi.json",
            "GET /console/sign-in",
            "POST /console/sign-in",
            "GET /console/sign-in/oidc",
            "GET /console/sign-in/oidc/callback",
            "POST /console/sign-in/oidc/logout",
            "GET /console/console.css",
            "GET /console/console.js",
            "GET /console/icon.svg",
        ]
    );
}

/// Everything that changes something, or shows what was sent, with the right that lets it in. A route
/// that is added or changed is added or changed here too.
const SENSITIVE: &[&str] = &[
    "GET /metrics instance",
    "GET /v1/tokens admin",
    "POST /v1/tokens admin",
    "POST /v1/tokens/{token}/revoke admin",
    "POST /v1/tokens/revoke-derived admin",
    "POST /v1/sign-in-codes read",
    "PUT /v1/searches/{name} read",
    "DELETE /v1/searches/{name} read",
    "GET /v1/group-roles admin",
    "POST /v1/group-roles/map admin",
    "POST /v1/group-roles/unmap admin",
    "GET /v1/people admin",
    "POST /v1/people/{person}/revoke admin",
    "POST /v1/people/{person}/restore admin",
    "GET /v1/namespaces instance",
    "POST /v1/namespaces instance",
    "POST /v1/namespaces/{namespace}/set instance",
    "GET /v1/servers instance",
    "GET /v1/audit audit",
    "GET /v1/audit/chain audit",
    "GET /v1/audit/removed audit",
    "PUT /v1/flows/{flow}/draft write",
    "POST /v1/flows/{flow}/publish write",
    "POST /v1/flows/{flow}/promote promote",
    "POST /v1/flows/{flow}/runs start",
    "POST /v1/runs/{run}/cancel operate",
    "POST /v1/runs/{run}/erase admin",
    "POST /v1/runs/{run}/resume operate",
    "POST /v1/runs/{run}/replay replay",
    "POST /v1/runs/{run}/replay/preview replay",
    "POST /v1/effects/{effect}/settle settle",
    "POST /v1/effects/{effect}/amend settle",
    "POST /v1/effects/{effect}/undo redo",
    "POST /v1/effects/{effect}/redo redo",
    "POST /v1/doubts/settle settle",
    "POST /v1/doubts/settle/preview settle",
    "POST /v1/effects/{effect}/assign settle",
    "POST /v1/effects/{effect}/note settle",
    "POST /v1/effects/{effect}/snooze settle",
    "POST /v1/duplicates/{duplicate}/accept-as-new override",
    "POST /v1/duplicates/{duplicate}/accept-as-repeat operate",
    "POST /v1/duplicates/{duplicate}/dismiss operate",
    "GET /v1/kv/entry payload",
    "GET /v1/keys/{flow}/audit payload",
    "POST /v1/keys/{flow}/drop operate",
    "PUT /v1/resources/{digest} start",
    "GET /v1/resources/{digest}/content payload",
    "POST /v1/waits/{wait}/complete operate",
    "PUT /v1/connections/{name} connect",
    "DELETE /v1/connections/{name} connect",
    "POST /v1/connections/{name}/test connect",
    "POST /v1/connections/{name}/prepare connect",
    "POST /v1/secrets/rotate secret",
    "PUT /v1/secrets/{name} secret",
    "DELETE /v1/secrets/{name} secret",
    "POST /v1/reconcile/{flow} operate",
    "PUT /v1/rehearsals/{rehearsal} write",
    "POST /v1/schedules/{flow}/pause operate",
    "POST /v1/schedules/{flow}/resume operate",
    "POST /v1/schedules/{flow}/fire operate",
    "POST /v1/flows/{flow}/pause operate",
    "POST /v1/flows/{flow}/resume operate",
    "POST /v1/connections/{name}/pause operate",
    "POST /v1/connections/{name}/resume operate",
    "POST /v1/run-jobs operate",
    "POST /v1/run-jobs/preview operate",
    "POST /v1/run-jobs/{job}/stop operate",
    "POST /v1/replay-plans replay",
    "POST /v1/replay-plans/{plan}/apply replay",
    "POST /v1/replay-plans/{plan}/pause replay",
    "POST /v1/replay-plans/{plan}/stop replay",
    "PUT /v1/subscriptions/{name} connect",
    "DELETE /v1/subscriptions/{name} connect",
    "POST /v1/subscriptions/{name}/deliveries/{event}/retry operate",
    "PUT /v1/alerts connect",
    "DELETE /v1/alerts connect",
    "POST /v1/alerts/test connect",
    "POST /v1/tasks/claim work",
    "POST /v1/tasks/{task}/heartbeat work",
    "POST /v1/tasks/{task}/complete work",
    "POST /v1/tasks/{task}/fail work",
    "POST /v1/once/begin once",
    "POST /v1/once/heartbeat once",
    "POST /v1/once/done once",
    "POST /v1/once/fail once",
    "POST /v1/once/get read",
    "POST /v1/once/settle settle",
    "POST /v1/once/redo redo",
    "POST /v1/once/free override",
    "POST /v1/approvals/{approval}/decide approve",
];

#[test]
fn what_changes_something_or_shows_payloads_needs_exactly_this_right() {
    let sensitive: Vec<String> = list_routes()
        .into_iter()
        .filter_map(|route| Some((route.access.right()?, route)))
        .filter(|(right, route)| *right != Right::Read || route.method != Method::GET)
        .map(|(right, route)| format!("{} {} {right}", route.method, route.path))
        .collect();

    assert_eq!(sensitive, SENSITIVE);
}

#[test]
fn what_changes_something_needs_more_than_to_read() {
    for route in list_routes() {
        let reads = matches!(
            route.access.right(),
            Some(Right::Read | Right::Payload | Right::Audit)
        );
        // A key may be any text, so it is in the body.
        // A code signs in with what its token may do, and no more.
        // A search is saved for oneself; what everybody gets needs the right to operate as well.
        let asks = ["/v1/once/get", "/v1/sign-in-codes", "/v1/searches/{name}"];
        let asks = asks.contains(&route.path.as_str());
        assert!(!reads || asks || route.method == Method::GET, "{route:?}");
    }
}

#[tokio::test]
async fn a_token_that_may_only_read_sees_no_payload() -> Result<()> {
    let world = World::start().await?;
    let flow = "trigger: { api: {} }\nsteps:\n  - { id: one, kv: { add: hush_counter } }\n  \
                - { id: two, function: '\"hush-result\"' }\nresult: steps.two.result\n";
    let flow = world.publish("quiet", flow).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        input: serde_json::json!({ "card": "hush-input" }),
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let run = world.client.start_run(&flow, &start, patience).await?;
    let token = add_token_with(world.engine.cell(), "observer", Right::Read.into()).await?;
    let observer = Client::new(world.client.base(), &token)?;

    let seen = observer.get_run(run.body.run).await?;
    let whole = world.client.get_run(run.body.run).await?;
    let listed = observer.list_runs(&RunFilter::default()).await?;

    assert_eq!(
        (seen.run.state, &seen.run.key),
        (whole.run.state, &whole.run.key)
    );
    assert_eq!(
        seen.journal.len(),
        whole.journal.len(),
        "when something happened"
    );
    for text in [
        serde_json::to_string(&seen)?,
        serde_json::to_string(&listed)?,
    ] {
        ensure!(!text.contains("hush-"), "{text}");
    }
    let text = serde_json::to_string(&whole)?;
    ensure!(
        text.contains("hush-input") && text.contains("hush-result"),
        "{text}"
    );
    Ok(())
}

#[test]
fn the_page_about_access_lists_every_role() {
    let page = include_str!("../../../../docs/access.md");
    let spelled = |rights: Rights| {
        let words: Vec<String> = rights.iter().map(|right| format!("`{right}`")).collect();
        words.join(", ")
    };
    for role in Role::ALL {
        let (given, more) = (spelled(role.rights()), spelled(role.grantable()));
        let row = format!("| `{role}` | {given} | {more} |").replace("|  |", "| |");
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn the_page_about_access_lists_every_right() {
    let page = include_str!("../../../../docs/access.md");
    let rows: Vec<String> = Right::ALL
        .iter()
        .map(|right| format!("| `{right}` | {} |", right.meaning()))
        .collect();

    assert!(page.contains(&rows.join("\n")), "{}", rows.join("\n"));
}
