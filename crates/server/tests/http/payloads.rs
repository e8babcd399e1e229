//! Payloads: what a destination answered is seen with the right `payload`, and without it nowhere.

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_api::types::{
    AskReconcile, AskRunJob, BeginOnce, Decide, FinishOnce, PassFilter, PlanReplay, PreviewReplay,
    RunJobVerb, RunStatus, StartRun,
};
use semel_api::{Client, Code};
use semel_model::named_effect::{EffectName, EffectScope};
use semel_model::{EffectId, HolderId, NamedEffectId, NamedEffectState, Right};
use semel_server::{Access, list_routes};
use semel_testkit::client::Answer;
use semel_testkit::until_some;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::world::{World, add_token_of, add_token_with, patience_span};

/// A part of everything that the destination answers.
const CANARY: &str = "hush-7719";

/// A destination that refuses what is sent to `/fail`, and says the canary whatever it does.
async fn destination() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut request = vec![0; 16_384];
                let length = stream.read(&mut request).await.unwrap_or(0);
                let is_refused = request[..length].windows(5).any(|part| part == b"/fail");
                let status = if is_refused { "500 Broken" } else { "200 OK" };
                let body = json!({ "id": 1, "said": CANARY }).to_string();
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\
                     content-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).await.ok();
                stream.write_all(body.as_bytes()).await.ok();
            });
        }
    });
    Ok(url)
}

/// A flow whose step has a business key, at a path of the destination.
fn charging(url: &str, path: &str) -> String {
    format!(
        "trigger: {{ api: {{}} }}\nsteps:\n  - id: charge\n    key: '\"{path}:\" + input.order'\n    \
         scope: namespace\n    retry: {{ attempts: 1 }}\n    \
         http: {{ put: '{url}/{path}' }}\nresult: steps.charge.result\n"
    )
}

/// A flow that reconciles with a list that its source does not give.
fn reconciling(url: &str) -> String {
    format!(
        "trigger: {{ webhook: {{ auth: none, key: input.id }} }}\nreconcile:\n  every: 300d\n  \
         list: {{ http: {{ get: '{url}/fail' }} }}\n  key: item.id\n  at: item.at\n  window: 1d\n\
         steps:\n  - {{ id: one, kv: {{ add: seen }} }}\n"
    )
}

/// A flow that asks for an approval.
const ASKING: &str = "trigger: { api: {} }\nsteps:\n  - id: sign\n    \
    approval: { from: [ada], show: '${{ input }}', within: 1h }\n";

/// What a sweep puts into the variable parts of paths.
struct Names {
    /// Values by the part that they stand for.
    values: Vec<(&'static str, String)>,
}

impl Names {
    /// Every address that a route may lead to.
    fn fill(&self, path: &str) -> Vec<String> {
        let mut paths = vec![path.to_owned()];
        for part in ["{run}", "{effect}", "{flow}", "{nominal}", "{plan}"] {
            let of_part = || self.values.iter().filter(|(name, _)| *name == part);
            paths = paths
                .iter()
                .flat_map(|path| match path.contains(part) {
                    true => of_part()
                        .map(|(_, value)| path.replace(part, value))
                        .collect(),
                    false => vec![path.clone()],
                })
                .collect();
        }
        paths
    }
}

/// Runs, named effects, a pass and a plan whose rows hold the canary.
async fn fill_world(world: &World, url: &str) -> Result<Names> {
    let client = &world.client;
    let mut values = Vec::new();
    let patience = Some(patience_span());
    for path in ["paid", "fail"] {
        let flow = world.publish(path, &charging(url, path)).await?;
        let start = StartRun {
            key: Some("k".to_owned()),
            input: json!({ "order": "o-1" }),
            ..StartRun::default()
        };
        let run = client.start_run(&flow, &start, patience).await?.body.run;
        values.push(("{run}", run.to_string()));
        values.push(("{flow}", flow.to_string()));
        let key = format!("{path}:o-1");
        let name = EffectName::new(EffectScope::Shared, key.as_bytes())?;
        let name = NamedEffectId::derive(&"main".parse()?, &name);
        values.push(("{effect}", EffectId::named(name, 0).to_string()));
    }
    let flow = world.publish("missed", &reconciling(url)).await?;
    let asked = client
        .ask_reconcile(&flow, &AskReconcile::default(), None)
        .await?;
    until_some("a pass that failed", async || {
        let passes = client.list_passes(&flow, &PassFilter::default()).await?;
        Ok(passes.items.into_iter().find(|pass| pass.fault.is_some()))
    })
    .await?;
    values.push(("{flow}", flow.to_string()));
    values.push(("{nominal}", asked.body.nominal.to_string()));
    let effects: Value = get(world, &world.token, "/v1/effects").await?.json()?;
    for effect in effects["items"].as_array().context("effects")? {
        let id = effect["effect"].as_str().context("an id")?;
        values.push(("{effect}", id.to_owned()));
    }
    Ok(Names { values })
}

async fn get(world: &World, token: &str, path: &str) -> Result<Answer> {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str())];
    let answer = world.bare.send(Method::GET, path, &headers, "".into());
    Ok(answer.await?)
}

/// Reads everything that can be read, and gives the addresses whose answer has the canary.
async fn sweep(world: &World, names: &Names, token: &str) -> Result<Vec<String>> {
    let mut hits = Vec::new();
    for route in list_routes() {
        let is_behind_token = !matches!(route.access, Access::Open(_));
        if route.method != Method::GET || !is_behind_token {
            continue;
        }
        for path in names.fill(&route.path) {
            let answer = get(world, token, &path).await?;
            ensure!(
                !answer.status.is_server_error(),
                "{path}: {}",
                answer.text()
            );
            if answer.text().contains(CANARY) {
                hits.push(path);
            }
        }
    }
    Ok(hits)
}

#[tokio::test]
async fn what_a_destination_answered_is_nowhere_without_payload() -> Result<()> {
    let (world, url) = (World::start().await?, destination().await?);
    let names = fill_world(&world, &url).await?;
    let cell = world.engine.cell();
    let reader = add_token_with(cell, "reader", Right::Read.into()).await?;
    let script = add_token_with(cell, "script", Right::Once.into()).await?;
    let both = [Right::Read, Right::Once].into_iter().collect();
    let both = add_token_with(cell, "both", both).await?;

    let whole = sweep(&world, &names, &world.token).await?;
    for path in ["/v1/once/eff_", "/v1/reconcile/missed", "/v1/runs/run_"] {
        ensure!(whole.iter().any(|hit| hit.starts_with(path)), "{whole:?}");
    }
    for token in [&reader, &script, &both] {
        assert_eq!(sweep(&world, &names, token).await?, [""; 0]);
    }
    Ok(())
}

#[tokio::test]
async fn a_script_sees_what_scripts_reported_and_a_reader_that_it_is_there() -> Result<()> {
    let world = World::start().await?;
    let cell = world.engine.cell();
    let reader = add_token_with(cell, "reader", Right::Read.into()).await?;
    let script = add_token_with(cell, "script", Right::Once.into()).await?;
    let reader = Client::new(world.client.base(), &reader)?;
    let script = Client::new(world.client.base(), &script)?;
    let begin = || BeginOnce {
        scope: None,
        key: "a".to_owned(),
        holder: HolderId::generate(),
        holder_name: "box-7, process 1".to_owned(),
        request: json!({ "amount": 12 }),
        lease: None,
        on_doubt: None,
        keep: None,
    };
    let hold = script.begin_once(&begin()).await?.hold.context("a hold")?;
    let done = FinishOnce {
        scope: None,
        key: "a".to_owned(),
        token: hold.token,
        result: Some(json!(CANARY)),
        external_id: None,
    };
    script.finish_once(&done).await?;

    let repeat = script.begin_once(&begin()).await?.effect;
    let by_key = reader.get_once_by_key(hold.effect_key).await?;
    let refused = script.get_once_by_key(hold.effect_key).await;

    assert_eq!(repeat.context("an effect")?.result, Some(json!(CANARY)));
    assert_eq!(by_key.state, NamedEffectState::Done);
    assert_eq!(by_key.result, None);
    assert_eq!(crate::world::refused(refused)?, Code::RightMissing);
    Ok(())
}

/// A flow that waits, and would send something afterwards.
const HALTING: &str = "trigger: { api: {} }\nsteps:\n  \
    - { id: on, wait: { callback: true, within: 1h } }\n  \
    - { id: off, http: { put: 'http://127.0.0.1:9/x' } }\n";

#[tokio::test]
async fn why_runs_are_cancelled_or_replayed_and_with_what_is_left_out_without_payload() -> Result<()>
{
    let world = World::start().await?;
    let flow = world.publish("halting", HALTING).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    let run = world.client.start_run(&flow, &start, None).await?.body.run;
    world.until_waiting(run).await?;
    let mut cancel = AskRunJob {
        verb: RunJobVerb::Cancel,
        flow: flow.clone(),
        state: None,
        after: None,
        before: None,
        digest: None,
        reason: Some(CANARY.to_owned()),
    };
    cancel.digest = Some(world.client.plan_run_job(&cancel).await?.digest);
    let job = world.client.make_run_job(&cancel, "job").await?.body.job;
    world.client.await_run(run, patience_span()).await?;
    let replay = PlanReplay {
        flow,
        state: Some(RunStatus::Cancelled),
        since: None,
        until: None,
        error: None,
        per_second: None,
        reason: Some(CANARY.to_owned()),
    };
    let plan = world.client.plan_replay(&replay, "plan").await?.body.plan;
    let cell = world.engine.cell();
    let rights = [Right::Read, Right::Replay].into_iter().collect();
    let reader = add_token_with(cell, "reader", rights).await?;

    for path in [
        "/v1/run-jobs".to_owned(),
        format!("/v1/run-jobs/{job}"),
        "/v1/replay-plans".to_owned(),
        format!("/v1/replay-plans/{plan}"),
    ] {
        let whole = get(&world, &world.token, &path).await?;
        let limited = get(&world, &reader, &path).await?;
        ensure!(whole.text().contains(CANARY), "{path}: {}", whole.text());
        ensure!(limited.status.is_success(), "{path}: {}", limited.text());
        ensure!(!limited.text().contains(CANARY), "{path}");
    }
    let asked = PreviewReplay::default();
    let whole = world.client.preview_replay(run, &asked).await?;
    let reader = Client::new(world.client.base(), &reader)?;
    let limited = reader.preview_replay(run, &asked).await?;
    assert_eq!(limited.digest, whole.digest, "a replay is asked for by it");
    assert!(whole.input.is_some() && limited.input.is_none());
    let requests = |preview| serde_json::to_string(preview).map(|it| it.contains("\"request\""));
    assert_eq!((requests(&whole)?, requests(&limited)?), (true, false));
    Ok(())
}

#[tokio::test]
async fn what_people_said_of_an_approval_is_left_out_without_payload() -> Result<()> {
    let world = World::start().await?;
    let flow = world.publish("asking", ASKING).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    let run = world.client.start_run(&flow, &start, None).await?.body.run;
    let asked = world.until_asked(run).await?;
    let cell = world.engine.cell();
    let reader = add_token_with(cell, "reader", Right::Read.into()).await?;
    let ada = add_token_of(cell, "main", "ada", &[]).await?;
    let yes = Decide {
        approved: true,
        digest: asked.digest.context("a digest")?,
        comment: Some(CANARY.to_owned()),
        name: None,
    };

    let ada = Client::new(world.client.base(), &ada)?;
    ada.decide_approval(asked.approval, &yes).await?;
    world.client.await_run(run, patience_span()).await?;

    let acts = Client::new(world.client.base(), &reader)?;
    let acts = acts.get_run(run).await?.acts;
    assert_eq!(acts.len(), 1, "that it was decided is seen: {acts:?}");
    for path in [
        format!("/v1/runs/{run}"),
        format!("/v1/approvals/{}", asked.approval),
        "/v1/approvals?all=true".to_owned(),
    ] {
        let (whole, limited) = (
            get(&world, &world.token, &path).await?,
            get(&world, &reader, &path).await?,
        );
        ensure!(whole.text().contains(CANARY), "{path}: {}", whole.text());
        ensure!(limited.status.is_success(), "{path}: {}", limited.text());
        ensure!(!limited.text().contains(CANARY), "{path}");
    }
    Ok(())
}
