//! Approvals over HTTP: a link is a page, the decision is a POST, and a token decides by its name
//! or its groups.

use anyhow::{Context, Result};
use hyper::Method;
use semel_api::types::{Approval, Cancel, Decide, PreviewReplay, Replay, RunStatus, StartRun};
use semel_api::{Client, Code};
use semel_model::RunId;
use semel_model::approval::Digest;
use semel_testkit::until_some;
use serde_json::{Value, json};

use crate::world::{World, add_token_of, patience_span, refused};

const ASKING: &str = "trigger: { api: {} }\nsteps:\n\
    \x20 - id: tell\n    kv: { set: address, value: '${{ waits.sign.url }}' }\n\
    \x20 - id: sign\n    approval: { from: [ada, finance], show: '${{ input }}', within: 1h MORE }\n\
    result: steps.sign.result.approved\n";

const FORM: [(&str, &str); 1] = [("content-type", "application/x-www-form-urlencoded")];

/// Starts a run that asks; gives it, the path of its page, and what is asked.
async fn ask(world: &World, more: &str) -> Result<(RunId, String, Approval)> {
    let flow = world
        .publish("asking", &ASKING.replace("MORE", more))
        .await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        input: json!({ "order": "<o-1>" }),
        ..StartRun::default()
    };
    let run = world.client.start_run(&flow, &start, None).await?.body.run;
    let asked = world.until_asked(run).await?;
    let url = world.kv("address").await?;
    let token = url.as_str().and_then(|url| url.rsplit('/').next());
    Ok((
        run,
        format!("/approvals/{}", token.context("an address")?),
        asked,
    ))
}

async fn member(world: &World, name: &str, groups: &[&str]) -> Result<Client> {
    let token = add_token_of(world.engine.cell(), "main", name, groups).await?;
    Ok(Client::new(world.client.base(), &token)?)
}

fn digest(asked: &Approval) -> Digest {
    asked
        .digest
        .clone()
        .unwrap_or_else(|| Digest::from_text(""))
}

fn decide(asked: &Approval, approved: bool) -> Decide {
    Decide {
        approved,
        digest: digest(asked),
        comment: None,
        name: None,
    }
}

#[tokio::test]
async fn a_link_is_a_page_that_changes_nothing_and_whose_form_decides_once() -> Result<()> {
    let world = World::start().await?;
    let (run, path, asked) = ask(&world, ", login: false").await?;
    let form = |decision: &str| {
        let digest = digest(&asked);
        format!("digest={digest}&name=Grace+%3Ci%3E&comment=looks+fine&decision={decision}")
    };
    let post = async |body: String| {
        world
            .bare
            .send(Method::POST, &path, &FORM, body.into())
            .await
    };

    let page = world.bare.get(&path).await?;
    let waiting = world.client.get_run(run).await?.run.state;
    let yes = post(form("approve")).await?;
    let again = post(form("approve")).await?;
    let no = post(form("reject")).await?;
    let after = world.bare.get(&path).await?;
    let end = world.client.await_run(run, patience_span()).await?;

    assert_eq!((page.status.as_u16(), waiting), (200, RunStatus::Waiting));
    assert!(page.text().contains("&lt;o-1&gt;") && page.text().contains(digest(&asked).as_str()));
    assert!(!page.text().contains("<o-1>") && !page.text().contains("<script"));
    assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(page.header("cache-control"), Some("no-store"));
    let policy = page.header("content-security-policy").context("a policy")?;
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"));
    assert_eq!(
        (
            yes.status.as_u16(),
            again.status.as_u16(),
            no.status.as_u16()
        ),
        (200, 200, 409)
    );
    assert_eq!(yes.body, again.body, "the same click gets the same answer");
    let by = "approved by Grace &lt;i&gt; (by link, unverified)";
    assert!(no.text().contains(by), "{}", no.text());
    assert!(after.text().contains("looks fine"));
    assert_eq!(
        (end.state, end.result),
        (RunStatus::Succeeded, Some(json!(true)))
    );
    Ok(())
}

#[tokio::test]
async fn unknown_ended_and_withdrawn_approvals_look_the_same() -> Result<()> {
    let world = World::start().await?;
    let (run, path, asked) = ask(&world, "").await?;
    let reason = "over".to_owned();
    world
        .client
        .cancel_run(run, &Cancel { reason }, "c")
        .await?;
    world.client.await_run(run, patience_span()).await?;
    let mut forged = path.clone();
    forged.replace_range(20..21, if &path[20..21] == "A" { "B" } else { "A" });
    let body = format!("digest={}&decision=approve", digest(&asked));

    let mut seen = Vec::new();
    for path in [&path, &forged, &"/approvals/AAAA".to_owned()] {
        let page = world.bare.get(path).await?;
        let post = world
            .bare
            .send(Method::POST, path, &FORM, body.clone().into())
            .await?;
        seen.push((page.status.as_u16(), page.body));
        seen.push((post.status.as_u16(), post.body));
    }

    assert_eq!(seen[0].0, 404);
    assert!(seen.iter().all(|one| *one == seen[0]), "{seen:?}");
    Ok(())
}

#[tokio::test]
async fn guessing_addresses_is_rate_limited() -> Result<()> {
    let world = World::start().await?;

    let mut statuses = Vec::new();
    for number in 0..15 {
        let page = world.bare.get(&format!("/approvals/guess{number}")).await?;
        statuses.push(page.status.as_u16());
    }

    assert_eq!(statuses[..10], [404; 10]);
    assert_eq!(statuses[14], 429);
    Ok(())
}

#[tokio::test]
async fn a_token_decides_by_its_name_or_a_group_and_by_what_was_shown() -> Result<()> {
    let world = World::start().await?;
    let (_, _, asked) = ask(&world, "").await?;
    let (eve, bob) = (
        member(&world, "eve", &["sales"]).await?,
        member(&world, "bob", &["finance"]).await?,
    );
    let stranger = world.stranger().await?;
    let other = Decide {
        digest: semel_model::approval::Digest::of(&json!({ "order": "o-2" })),
        ..decide(&asked, true)
    };

    let denied = eve
        .decide_approval(asked.approval, &decide(&asked, true))
        .await;
    let unknown = stranger.get_approval(asked.approval).await;
    let differs = bob.decide_approval(asked.approval, &other).await;
    let first = bob
        .decide_approval(asked.approval, &decide(&asked, true))
        .await?;
    let ada = member(&world, "ada", &[]).await?;
    let again = ada
        .decide_approval(asked.approval, &decide(&asked, true))
        .await?;
    let contrary = ada
        .decide_approval(asked.approval, &decide(&asked, false))
        .await;
    let groups = bob.whoami().await?.groups;
    let audited = audited(&world).await?;

    assert_eq!(refused(denied)?, Code::ApprovalDenied);
    assert_eq!(refused(unknown)?, Code::ApprovalNotFound);
    assert_eq!(refused(differs)?, Code::ApprovalDiffers);
    assert_eq!(first.body.decision.by, "token:bob");
    assert!(again.replayed && again.body == first.body);
    assert_eq!(refused(contrary)?, Code::ApprovalDecided);
    assert_eq!(groups, ["finance"]);
    assert_eq!(
        audited,
        [("token:bob".to_owned(), "approval.approve".to_owned())]
    );
    Ok(())
}

#[tokio::test]
async fn a_link_alone_is_not_enough_where_login_is_asked_for() -> Result<()> {
    let world = World::start().await?;
    let (_, path, asked) = ask(&world, "").await?;
    let body = format!("digest={}&name=Grace&decision=approve", digest(&asked));

    let page = world.bare.get(&path).await?;
    let post = world
        .bare
        .send(Method::POST, &path, &FORM, body.into())
        .await?;
    let json = json!({ "approved": true, "digest": digest(&asked), "name": "Grace" }).to_string();
    let headers = [("content-type", "application/json")];
    let by_json = world
        .bare
        .send(Method::POST, &path, &headers, json.into())
        .await?;
    let ada = member(&world, "ada", &[]).await?;
    let decided = ada
        .decide_approval(asked.approval, &decide(&asked, true))
        .await?;

    let command = format!("semel approval approve {}", asked.approval);
    assert!(page.text().contains(&command), "{}", page.text());
    assert!(!page.text().contains("<form"));
    assert_eq!((post.status.as_u16(), by_json.status.as_u16()), (403, 403));
    assert_eq!(by_json.json::<Value>()?["code"], "approval-needs-login");
    assert_eq!(decided.body.decision.by, "token:ada");
    Ok(())
}

#[tokio::test]
async fn the_starter_of_the_run_may_not_decide_where_the_step_says_so() -> Result<()> {
    let world = World::start().await?;
    let flow = world
        .publish("asking", &ASKING.replace("MORE", ", not_starter: true"))
        .await?;
    let ada = member(&world, "ada", &[]).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    let run = ada.start_run(&flow, &start, None).await?.body.run;
    let asks = async || Ok(ada.list_approvals(Some(run)).await?.items.pop());
    let asked = until_some("an approval", asks).await?;

    let own = ada
        .decide_approval(asked.approval, &decide(&asked, true))
        .await;
    let bob = member(&world, "bob", &["finance"]).await?;
    let other = bob
        .decide_approval(asked.approval, &decide(&asked, true))
        .await?;

    assert_eq!(asked.not_by.as_deref(), Some("ada"));
    assert!(asked.login, "a link does not say who follows it");
    assert_eq!(refused(own)?, Code::ApprovalDenied);
    assert_eq!(other.body.decision.by, "token:bob");
    Ok(())
}

#[tokio::test]
async fn the_starter_may_not_decide_where_only_a_later_release_says_so() -> Result<()> {
    let world = World::start().await?;
    let asking = ASKING.replace("MORE", "");
    let flow = world.publish("asking", &asking).await?;
    let ada = member(&world, "ada", &[]).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    let run = ada.start_run(&flow, &start, None).await?.body.run;
    let asks = async || Ok(ada.list_approvals(Some(run)).await?.items.pop());
    until_some("an approval", asks).await?;
    let reason = "the wrong release".to_owned();
    ada.cancel_run(run, &Cancel { reason }, "cancel").await?;
    ada.await_run(run, patience_span()).await?;

    let asking = ASKING.replace("MORE", ", not_starter: true");
    world.publish("asking", &asking).await?;
    let accept_changed = vec!["tell".to_owned()];
    let wish = PreviewReplay {
        accept_changed: accept_changed.clone(),
        ..PreviewReplay::default()
    };
    let digest = ada.preview_replay(run, &wish).await?.digest;
    let replay = Replay {
        digest,
        release: None,
        from: None,
        input: None,
        accept_changed,
        reason: None,
    };
    let next = ada.replay_run(run, &replay, "replay").await?.body.run;
    let asks = async || Ok(ada.list_approvals(Some(next)).await?.items.pop());
    let asked = until_some("an approval", asks).await?;
    let own = ada
        .decide_approval(asked.approval, &decide(&asked, true))
        .await;

    assert_eq!(asked.not_by.as_deref(), Some("ada"));
    assert_eq!(refused(own)?, Code::ApprovalDenied);
    Ok(())
}

#[tokio::test]
async fn who_replays_a_run_with_another_input_may_not_decide_either() -> Result<()> {
    let world = World::start().await?;
    let flow = world
        .publish("asking", &ASKING.replace("MORE", ", not_starter: true"))
        .await?;
    let ada = member(&world, "ada", &[]).await?;
    let start = StartRun {
        key: Some("k".to_owned()),
        ..StartRun::default()
    };
    let run = ada.start_run(&flow, &start, None).await?.body.run;
    let reason = "wrong amount".to_owned();
    let cancel = Cancel {
        reason: reason.clone(),
    };
    ada.cancel_run(run, &cancel, "cancel").await?;
    ada.await_run(run, patience_span()).await?;

    let bob = member(&world, "bob", &["finance"]).await?;
    let input = Some(json!({ "amount": 7 }));
    let wish = PreviewReplay {
        input: input.clone(),
        accept_changed: vec!["tell".to_owned()],
        ..PreviewReplay::default()
    };
    let digest = bob.preview_replay(run, &wish).await?.digest;
    let replay = Replay {
        digest,
        release: None,
        from: None,
        input,
        accept_changed: vec!["tell".to_owned()],
        reason: Some(reason),
    };
    let next = bob.replay_run(run, &replay, "replay").await?.body.run;
    let asks = async || Ok(bob.list_approvals(Some(next)).await?.items.pop());
    let asked = until_some("an approval of the replay", asks).await?;
    let own = bob
        .decide_approval(asked.approval, &decide(&asked, true))
        .await;

    assert_eq!(asked.not_by.as_deref(), Some("bob"));
    assert_eq!(refused(own)?, Code::ApprovalDenied);
    Ok(())
}

async fn audited(world: &World) -> Result<Vec<(String, String)>> {
    let client = world.database.connect().await?;
    let rows = "SELECT actor, action FROM audit WHERE action LIKE 'approval.%'";
    let rows = client.query(rows, &[]).await?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

#[tokio::test]
async fn a_decision_by_link_records_a_claimed_name() -> Result<()> {
    let world = World::start().await?;
    let (_, path, asked) = ask(&world, ", login: false").await?;
    let headers = [("content-type", "application/json")];
    let mut statuses = Vec::new();

    for name in [
        Value::Null,
        json!(" "),
        json!("a\u{0}b"),
        json!("Grace Hopper"),
    ] {
        let mut body = json!({ "approved": true, "digest": digest(&asked) });
        if !name.is_null() {
            body["name"] = name;
        }
        let body = body.to_string().into();
        let sent = world.bare.send(Method::POST, &path, &headers, body).await?;
        statuses.push(sent.status.as_u16());
    }
    let page = world.bare.get(&path).await?;

    assert_eq!(statuses, [400, 400, 400, 200]);
    assert!(page.text().contains("Grace Hopper (by link, unverified)"));
    let audited = audited(&world).await?;
    assert_eq!(audited[0].0, "link:Grace Hopper (unverified)");
    Ok(())
}

#[tokio::test]
async fn no_answer_of_the_api_shows_a_link() -> Result<()> {
    let world = World::start().await?;
    let (run, path, asked) = ask(&world, "").await?;
    let token = path.rsplit('/').next().context("a token")?;
    let authorization = format!("Bearer {}", world.token);
    let headers = [("authorization", authorization.as_str())];

    let mut shown = String::new();
    for address in [
        format!("/v1/runs/{run}"),
        "/v1/effects".to_owned(),
        format!("/v1/approvals/{}", asked.approval),
    ] {
        let answer = world
            .bare
            .send(Method::GET, &address, &headers, Default::default())
            .await?;
        assert_eq!(answer.status.as_u16(), 200, "{address}");
        shown.push_str(&answer.text());
    }
    let journal = "SELECT string_agg(events::text, '') FROM journal";
    let client = world.database.connect().await?;
    let kept: String = client.query_one(journal, &[]).await?.get(0);

    assert!(kept.contains(token), "the step sends it, so it is pinned");
    assert!(!shown.contains(token));
    assert!(shown.contains("/approvals/[redacted]"), "{shown}");
    Ok(())
}
