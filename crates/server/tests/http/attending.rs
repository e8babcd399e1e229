//! Doubts while operators look into them: where to look, from when on one may be denied, and what was said.

use anyhow::{Context, Result, ensure};
use semel_api::types::{
    AssignDoubt, DoubtFilter, Effect, NoteDoubt, PutConnection, RunStatus, Settle, SnoozeDoubt,
    StartRun, Verdict,
};
use semel_api::{Client, ClientError, Code};
use semel_model::{EffectId, Right, Rights, Span};
use semel_testkit::Peer;
use semel_testkit::peer::Behaviour;
use serde_json::json;

use crate::world::{World, add_token_with, patience_span, refused};

/// A connection that says where its effects are found.
pub(crate) async fn connect(world: &World, bank: &Peer, find_url: &str) -> Result<()> {
    let to = json!({ "http": { "base_url": bank.url("") } });
    let connection = json!({ "to": to, "find_url": find_url, "acts_within": "7s" });
    let put = PutConnection {
        connection: serde_json::from_value(connection)?,
        replace: true,
    };
    let name = "bank".parse()?;
    world.client.put_connection(&name, &put, None).await?;
    Ok(())
}

/// A run over the connection whose one call lost its response.
pub(crate) async fn doubt(world: &World, bank: &Peer, key: &str) -> Result<Effect> {
    let steps = "trigger: { api: {} }\nsteps:\n  - id: charge\n    guard: review\n    \
        http: { connection: bank, post: /plain/charges, json: { n: 1 }, timeout: 2s }\n";
    let flow = world.publish("charging", steps).await?;
    bank.next("/plain/", Behaviour::CloseWithoutAnswer).await?;
    let start = StartRun {
        key: Some(key.to_owned()),
        ..StartRun::default()
    };
    let patience = Some(patience_span());
    let run = world.client.start_run(&flow, &start, patience).await?.body;
    ensure!(run.state == RunStatus::InDoubt, "{run:?}");
    let doubts = world.client.list_doubts().await?.items;
    let doubt = doubts.into_iter().find(|doubt| doubt.run == run.run);
    doubt.context("a doubt")
}

#[tokio::test]
async fn a_doubt_says_where_to_look_and_from_when_on_it_may_be_denied() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    connect(&world, &bank, "https://bank.example/find?q={key}#x").await?;
    let doubt = doubt(&world, &bank, "k").await?;
    let deny = Settle {
        verdict: Verdict::DidNotHappen,
        external_id: None,
        result: None,
        attempt: None,
        reason: "not in their list".to_owned(),
    };

    let shown = world.client.get_effect(doubt.id).await?;
    let too_soon = world.client.settle_effect(doubt.id, &deny, "d").await;

    let key = shown.key_sent.context("a key")?;
    let found = format!("https://bank.example/find?q={key}#x");
    assert_eq!(shown.find_url.as_deref(), Some(found.as_str()));
    assert_eq!(doubt.find_url, shown.find_url, "in the list, too");
    let opens = shown.deniable.context("when it opens")?;
    assert_eq!(doubt.deniable, Some(opens));
    assert_eq!(
        (opens.timeout, opens.acts_within),
        (Span::from_secs(2), Span::from_secs(7))
    );
    let spans = [opens.lease, opens.timeout, opens.acts_within];
    let millis: u64 = spans.iter().map(|span| span.as_millis()).sum();
    let since = shown.intended_at.duration_until(opens.from).as_millis();
    assert_eq!(u128::try_from(since)?, u128::from(millis));
    let Err(ClientError::Problem(problem)) = too_soon else {
        anyhow::bail!("{too_soon:?}");
    };
    assert_eq!(problem.code(), Some(Code::SettleTooSoon));
    let left = problem.retry_in.context("how long")?.as_millis();
    let expected = world.engine.now().duration_until(opens.from).as_millis();
    let apart = i128::from(left) - expected;
    ensure!(
        apart.abs() < 2_000,
        "the page says what the engine does: {left} {expected}"
    );
    Ok(())
}

#[tokio::test]
async fn an_address_that_could_lead_elsewhere_is_refused_with_the_connection() -> Result<()> {
    let world = World::start().await?;
    for find_url in [
        "http://bank.example/{key}",
        "https://{key}/x",
        "https://a:b@bank.example/",
        "javascript:alert(1)",
    ] {
        let to = json!({ "http": { "base_url": "https://bank.example" } });
        let body = json!({ "connection": { "to": to, "find_url": find_url } });
        let bearer = format!("Bearer {}", world.token);
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let path = "/v1/connections/bank";
        let sent = world
            .bare
            .send(hyper::Method::PUT, path, &headers, body.to_string().into());
        let answer = sent.await?;

        let said = answer.text();
        ensure!(answer.status.is_client_error(), "{find_url}: {said}");
        ensure!(said.contains("find_url"), "{find_url}: {said}");
    }
    Ok(())
}

/// The effects of a list of doubts.
async fn listed(client: &Client, snoozed: Option<bool>) -> Result<Vec<EffectId>> {
    let filter = DoubtFilter {
        snoozed,
        ..DoubtFilter::default()
    };
    let found = client.list_doubts_by(&filter).await?.items;
    Ok(found.iter().map(|doubt| doubt.id).collect())
}

#[tokio::test]
async fn a_doubt_is_assigned_noted_and_snoozed_until_it_is_settled() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    connect(&world, &bank, "https://bank.example/").await?;
    let one = doubt(&world, &bank, "k-1").await?.id;
    let two = doubt(&world, &bank, "k-2").await?.id;
    let client = &world.client;
    let to = |name: &str| AssignDoubt {
        to: Some(name.to_owned()),
    };
    let note = NoteDoubt {
        note: Some("asked the bank, case 4711".to_owned()),
    };
    let for_an_hour = SnoozeDoubt {
        until: None,
        span: Some(Span::from_secs(3_600)),
    };

    client.assign_doubt(one, &to("ada"), "a").await?;
    client.note_doubt(one, &note, "n").await?;
    let said = client.snooze_doubt(one, &for_an_hour, "s").await?.body;
    let again = client.snooze_doubt(one, &for_an_hour, "s").await?;

    ensure!(again.replayed && again.body == said, "{again:?}");
    assert_eq!(said.attended.assignee.as_deref(), Some("ada"));
    assert_eq!(said.attended.note, note.note);
    let until = said.attended.snoozed_until.context("a time")?;
    ensure!(until > world.engine.now(), "{until}");
    assert_eq!(listed(client, Some(false)).await?, [two]);
    assert_eq!(listed(client, Some(true)).await?, [one]);
    assert_eq!(
        listed(client, None).await?.len(),
        2,
        "a list of all has all"
    );
    let shown = client.get_effect(one).await?;
    assert_eq!(shown.attended, Some(said.attended));
    let acts: Vec<(&str, &str)> = shown
        .acts
        .iter()
        .map(|act| (act.action.as_str(), act.reason.as_deref().unwrap_or("")))
        .collect();
    assert_eq!(
        acts[..2],
        [
            ("doubt.assign", "to ada"),
            ("doubt.note", "asked the bank, case 4711")
        ]
    );
    assert_eq!((acts.len(), acts[2].0), (3, "doubt.snooze"));

    let awake = SnoozeDoubt {
        until: None,
        span: None,
    };
    client.snooze_doubt(one, &awake, "w").await?;
    client
        .assign_doubt(one, &AssignDoubt { to: None }, "b")
        .await?;
    assert_eq!(listed(client, Some(false)).await?.len(), 2);
    let settle = Settle {
        verdict: Verdict::Fail,
        external_id: None,
        result: None,
        attempt: None,
        reason: "cannot be told".to_owned(),
    };
    client.settle_effect(one, &settle, "f").await?;
    let late = client.assign_doubt(one, &to("bob"), "l").await;
    assert_eq!(refused(late)?, Code::NotInDoubt);
    assert_eq!(client.get_effect(one).await?.attended, None);
    Ok(())
}

#[tokio::test]
async fn a_note_on_a_doubt_is_left_out_without_payload() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    connect(&world, &bank, "https://bank.example/").await?;
    let one = doubt(&world, &bank, "k").await?.id;
    let note = NoteDoubt {
        note: Some("case 4711".to_owned()),
    };
    let token = add_token_with(world.engine.cell(), "reader", Right::Read.into()).await?;
    let reader = Client::new(world.client.base(), &token)?;

    world.client.note_doubt(one, &note, "n").await?;
    let whole = world.client.get_effect(one).await?;
    let effect = reader.get_effect(one).await?;
    let run = reader.get_run(effect.run).await?;

    assert_eq!(whole.acts[0].reason.as_deref(), Some("case 4711"));
    for acts in [&effect.acts, &run.acts] {
        let [act] = acts.as_slice() else {
            anyhow::bail!("{acts:?}");
        };
        assert_eq!((act.action.as_str(), &act.reason), ("doubt.note", &None));
    }
    assert_eq!(effect.attended.and_then(|it| it.note), None);
    Ok(())
}

#[tokio::test]
async fn only_who_may_settle_says_something_of_a_doubt_and_only_what_fits() -> Result<()> {
    let (world, bank) = (World::start().await?, Peer::start().await?);
    connect(&world, &bank, "https://bank.example/").await?;
    let doubt = doubt(&world, &bank, "k").await?.id;
    let rights: Rights = [Right::Read, Right::Payload, Right::Operate]
        .into_iter()
        .collect();
    let token = add_token_with(world.engine.cell(), "operator", rights).await?;
    let operator = Client::new(world.client.base(), &token)?;
    let stranger = world.stranger().await?;
    let to = |name: String| AssignDoubt { to: Some(name) };

    let ada = to("ada".to_owned());
    let denied = operator.assign_doubt(doubt, &ada, "a").await;
    let foreign = stranger.assign_doubt(doubt, &ada, "a").await;
    assert_eq!(refused(denied)?, Code::RightMissing);
    assert_eq!(refused(foreign)?, Code::EffectNotFound);
    for name in [String::new(), "a\nb".to_owned(), "x".repeat(201)] {
        let (key, ask) = (format!("n-{}", name.len()), to(name));
        let wrong = world.client.assign_doubt(doubt, &ask, &key).await;
        assert_eq!(refused(wrong)?, Code::BodyInvalid, "{ask:?}");
    }
    for (number, days) in [0, 31].into_iter().enumerate() {
        let snooze = SnoozeDoubt {
            until: None,
            span: Some(Span::from_secs(days * 86_400)),
        };
        let key = format!("s-{number}");
        let wrong = world.client.snooze_doubt(doubt, &snooze, &key).await;
        assert_eq!(refused(wrong)?, Code::BodyInvalid, "{days} days");
    }
    let note = NoteDoubt {
        note: Some("x".repeat(2_001)),
    };
    let wrong = world.client.note_doubt(doubt, &note, "n").await;
    assert_eq!(refused(wrong)?, Code::BodyInvalid);
    assert_eq!(
        world.client.get_effect(doubt).await?.attended,
        Some(semel_api::types::Attended::default()),
        "nothing was said"
    );
    Ok(())
}
