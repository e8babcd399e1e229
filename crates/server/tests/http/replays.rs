//! Replays: a body that was signed once runs once, under however many ids it comes.

use anyhow::Result;
use semel_api::types::Started;
use semel_model::{ClaimId, Key, Span};
use semel_store::namespaces;
use semel_store::seen_bodies::{self, Body};
use semel_store::{clock, retention};
use semel_testkit::patience;
use sha2::{Digest as _, Sha256};

use crate::authentic::{SECRETS, STEPS};
use crate::signing::{Signed, form_of, sign, sign_as_twilio, webhook};
use crate::world::World;

const TARGET: &str = "/hooks/main/hook";
const ID: &str = "x-github-delivery";

/// A run that waits for most of a year.
const WAITS: &str = "steps:\n  - { id: pause, wait: { for: 300d } }\n";

/// A hook for GitHub, and a delivery to it.
async fn world(rest: &str) -> Result<(World, Signed)> {
    world_of(rest, STEPS).await
}

/// The same for a flow of these steps.
async fn world_of(rest: &str, steps: &str) -> Result<(World, Signed)> {
    let world = World::start().await?;
    world
        .set_secret("hook", SECRETS[0], Span::from_secs(0))
        .await?;
    let webhook = webhook("github", "hook").replace(" }", rest);
    let flow = format!("trigger:\n  webhook: {webhook}\n{steps}");
    world.publish("hook", &flow).await?;
    let signed = sign("github", SECRETS[0], TARGET, 1, world.now().await?);
    Ok((world, signed))
}

async fn count_runs(world: &World) -> Result<i64> {
    let client = world.database.connect().await?;
    let row = client.query_one("SELECT count(*) FROM runs", &[]).await?;
    Ok(row.get(0))
}

#[tokio::test]
async fn a_signed_body_under_another_id_is_held_for_an_operator() -> Result<()> {
    let (world, signed) = world(" }").await?;

    let first: Started = world.send(&signed).await?.json()?;
    let mut held = Vec::new();
    for id in ["forged-1", "forged-2"] {
        let answer = world.send(&signed.clone().with(ID, id)).await?;
        assert_eq!(answer.status, 202);
        held.push(answer.json::<Started>()?);
    }
    let again: Started = world.send(&signed).await?.json()?;

    assert!(!first.held && !again.held);
    assert_eq!(first.run, again.run);
    assert!(held.iter().all(|one| one.held && one.run == first.run));
    assert_eq!(count_runs(&world).await?, 1);
    let page = world.client.list_duplicates(Some(first.run)).await?;
    let replays = page.items.iter().filter(|one| one.stopped_by == "replay");
    let mut keys = Vec::new();
    for replay in replays {
        assert_eq!((replay.verdict.as_str(), replay.count), ("held", 1));
        assert_eq!(replay.payload.as_ref().unwrap()["issue"], 1);
        keys.extend(replay.came_as.as_deref());
    }
    keys.sort_unstable();
    assert_eq!(
        keys,
        ["forged-1", "forged-2"],
        "each key is decided by itself"
    );
    let metrics = world.metrics().await?.text();
    assert!(metrics.contains("semel_replays_total 2"), "{metrics}");
    Ok(())
}

#[tokio::test]
async fn of_many_ids_at_once_one_runs() -> Result<()> {
    let (world, signed) = world(" }").await?;

    let ids = (0..16).map(|n| signed.clone().with(ID, &format!("id-{n}")));
    let ids: Vec<Signed> = ids.collect();
    let answers = futures_util::future::try_join_all(ids.iter().map(|one| world.send(one))).await?;

    let mut free = 0;
    for answer in answers {
        assert_eq!(answer.status, 202, "{}", answer.text());
        free += usize::from(!answer.json::<Started>()?.held);
    }
    assert_eq!(free, 1);
    assert_eq!(count_runs(&world).await?, 1);
    // However many ids a captured body comes under, the first few are kept and the rest are one row.
    let held = world.client.list_held(None).await?.items;
    assert!(held.len() <= 6, "{} rows", held.len());
    assert_eq!(held.iter().map(|one| one.count).sum::<i64>(), 15);
    Ok(())
}

#[tokio::test]
async fn a_body_that_was_remembered_and_then_lost_is_accepted_when_it_comes_again() -> Result<()> {
    let (world, signed) = world(" }").await?;
    let cell = world.engine.cell();
    // What a crash between the two commits leaves behind.
    let claim = ClaimId::derive(
        &"main".parse()?,
        &"hook".parse()?,
        &Key::new(*b"delivery-1")?,
    );
    let body = Body {
        namespace_id: namespaces::ensure(cell.home(), &"main".parse()?).await?,
        flow: "hook",
        digest: &Sha256::digest(&signed.body).into(),
        claim,
        passed_over: None,
        keep: Span::from_secs(3_600),
    };
    assert_eq!(
        seen_bodies::remember(cell.of(body), body).await?,
        Some(claim)
    );

    let forged: Started = world
        .send(&signed.clone().with(ID, "forged"))
        .await?
        .json()?;
    let lost: Started = world.send(&signed).await?.json()?;

    assert!(forged.held);
    assert!(!lost.held);
    assert_eq!(forged.run, lost.run, "it is held for the run to come");
    assert_eq!(count_runs(&world).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_trigger_can_accept_replayed_bodies() -> Result<()> {
    let (world, signed) = world(", replay: accept }").await?;

    world.send(&signed).await?;
    let other: Started = world
        .send(&signed.clone().with(ID, "other"))
        .await?
        .json()?;

    assert!(!other.held);
    assert_eq!(count_runs(&world).await?, 2);
    Ok(())
}

/// The key counts from the end of its run, and so does the body.
#[tokio::test]
async fn a_body_is_not_forgotten_while_the_run_of_its_key_goes_on() -> Result<()> {
    let (world, signed) = world_of(" }", WAITS).await?;
    let cell = world.engine.cell();
    let first: Started = world.send(&signed).await?.json()?;

    for _ in 0..3 {
        clock::move_ahead(cell, std::time::Duration::from_secs(40 * 86_400)).await?;
        retention::forget_keys(cell.every()).await?;
        retention::sweep(cell.every()).await?;
    }
    let forged: Started = world
        .send(&signed.clone().with(ID, "forged"))
        .await?
        .json()?;

    assert!(forged.held, "{forged:?}");
    assert_eq!(forged.run, first.run);
    assert_eq!(count_runs(&world).await?, 1);
    Ok(())
}

#[tokio::test]
async fn a_body_expires_with_its_key_and_not_before() -> Result<()> {
    let (world, signed) = world(" }").await?;
    let cell = world.engine.cell();
    let first: Started = world.send(&signed).await?.json()?;
    // The key counts from the end of its run.
    world.engine.await_end(first.run, patience()).await?;
    let month = std::time::Duration::from_secs(30 * 86_400);

    clock::move_ahead(cell, month).await?;
    retention::sweep(cell.every()).await?;
    let held: Started = world
        .send(&signed.clone().with(ID, "early"))
        .await?
        .json()?;
    clock::move_ahead(cell, std::time::Duration::from_secs(300)).await?;
    retention::forget_keys(cell.every()).await?;
    retention::sweep(cell.every()).await?;
    let free: Started = world.send(&signed.clone().with(ID, "late")).await?.json()?;

    assert!(held.held);
    assert!(!free.held);
    Ok(())
}

/// Twilio signs names and values with nothing between them: one text, many forms.
#[tokio::test]
async fn one_signed_text_of_a_form_runs_once_however_its_fields_are_divided() -> Result<()> {
    let world = World::start().await?;
    world.publish_signed("hook", "twilio", SECRETS[0]).await?;
    let json = r#"{"MessageSid":"SM9","MessageStatus":"sent"}"#;
    let text = format!("hi&bodySHA256={}&x=", hex::encode(Sha256::digest(json)));
    let fields = [
        ("Body", text.as_str()),
        ("MessageSid", "SM1"),
        ("MessageStatus", "sent"),
        ("SmsSid", "SM1"),
        ("SmsStatus", "sent"),
    ];
    let target = "/hooks/main/hook?tenant=7";
    let mut genuine = sign_as_twilio(SECRETS[0], target, &fields);
    // The first value has signs that a form escapes.
    let value = text.replace('&', "%26").replace('=', "%3D");
    let body = ("Body", value.as_str());
    genuine.body = form_of(&[body, fields[1], fields[2], fields[3], fields[4]]);

    let first: Started = world.send(&genuine).await?.json()?;
    let mut divided = Vec::new();
    for forged in [
        form_of(&[
            body,
            ("MessageSid", "SM1MessageStatussent"),
            fields[3],
            fields[4],
        ]),
        form_of(&[
            body,
            fields[1],
            ("MessageStatus", "sentSmsSidSM1SmsStatussent"),
        ]),
        form_of(&[
            ("MessageStatus", "sentSmsSidSM1SmsStatussent"),
            fields[1],
            body,
        ]),
    ] {
        divided.push(Signed {
            body: forged,
            ..genuine.clone()
        });
    }
    let moved: String = fields
        .iter()
        .flat_map(|(name, value)| [*name, *value])
        .collect();
    let as_json = genuine.clone().with("content-type", "application/json");
    divided.push(Signed {
        target: format!("{target}{moved}"),
        body: json.to_owned(),
        ..as_json
    });
    let mut held = Vec::new();
    for one in &divided {
        let answer = world.send(one).await?;
        assert_eq!(answer.status, 202, "{one:?}: {}", answer.text());
        held.push(answer.json::<Started>()?);
    }
    let respelled = genuine.body.replace("SmsStatus=sent", "SmsStatus=%73ent");
    let again = Signed {
        body: respelled,
        ..genuine.clone()
    };
    let again: Started = world.send(&again).await?.json()?;

    assert!(!first.held && !again.held);
    assert_eq!(first.run, again.run);
    assert!(
        held.iter().all(|one| one.held && one.run == first.run),
        "{held:?}"
    );
    assert_eq!(count_runs(&world).await?, 1);
    Ok(())
}

const EVENT: &str = "x-github-event";

/// A `when` that reads the event's name, which the signature does not cover.
fn only(event: &str) -> String {
    format!(r#", when: 'headers["{EVENT}"] == "{event}"' }}"#)
}

/// Sends a delivery that the trigger ignores.
async fn be_ignored(world: &World, signed: &Signed) -> Result<()> {
    let answer: serde_json::Value = world.send(signed).await?.json()?;
    assert_eq!(answer["ignored"], true, "{answer}");
    Ok(())
}

#[tokio::test]
async fn a_body_that_was_ignored_is_held_when_it_comes_as_another_event() -> Result<()> {
    let (world, signed) = world(&only("deployment_status")).await?;
    let push = signed.clone().with(EVENT, "push");
    let forged = signed.with(EVENT, "deployment_status");

    be_ignored(&world, &push).await?;
    let mut held = Vec::new();
    for id in ["delivery-1", "forged"] {
        let one: Started = world.send(&forged.clone().with(ID, id)).await?.json()?;
        held.push(one.held);
    }
    be_ignored(&world, &push).await?;
    let other = sign("github", SECRETS[0], TARGET, 2, world.now().await?);
    let genuine = other.with(EVENT, "deployment_status");
    let genuine: Started = world.send(&genuine).await?.json()?;

    assert_eq!(held, [true, true], "its own id does not help");
    assert!(!genuine.held, "a body that never came before");
    assert_eq!(count_runs(&world).await?, 1);
    assert_eq!(world.client.list_held(None).await?.items.len(), 2);
    Ok(())
}

#[tokio::test]
async fn a_body_that_was_ignored_runs_once_when_the_trigger_takes_its_event() -> Result<()> {
    let (world, signed) = world(&only("deployment_status")).await?;
    let push = signed.with(EVENT, "push");
    be_ignored(&world, &push).await?;
    let webhook = webhook("github", "hook").replace(" }", &only("push"));
    let flow = format!("trigger:\n  webhook: {webhook}\n{STEPS}");
    world.publish("hook", &flow).await?;

    // The same delivery, sent again by hand; the server may not know the release yet.
    let send = async || Ok(world.send(&push).await?.text());
    let is_started = |text: &String| serde_json::from_str::<Started>(text).is_ok();
    let first = semel_testkit::until("the release to be live", send, is_started).await?;
    let first: Started = serde_json::from_str(&first)?;
    let again: Started = world.send(&push).await?.json()?;
    let forged: Started = world.send(&push.clone().with(ID, "forged")).await?.json()?;

    assert_eq!((first.held, again.held, forged.held), (false, false, true));
    assert_eq!((first.run, first.run), (again.run, forged.run));
    assert_eq!(count_runs(&world).await?, 1);
    Ok(())
}
