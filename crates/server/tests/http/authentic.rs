//! Signatures: what each source signs is accepted, and nothing else, whatever is wrong with it.

use anyhow::{Context, Result};
use hyper::Method;
use jiff::{SignedDuration, Timestamp};
use semel_api::Problem;
use semel_api::types::Started;
use semel_engine::Actor;
use semel_model::{SecretText, Span};
use semel_store::clock::Clock;
use semel_store::namespaces;
use semel_testkit::client::Answer;
use semel_testkit::until_some;
use serde_json::Value;

use crate::signing::{Signed, proof_header, sign, webhook};
use crate::world::{World, patience_span};

pub(crate) const STEPS: &str = "steps:\n  - id: note\n    kv: { add: seen }\n";

/// Secrets that every scheme takes.
pub(crate) const SECRETS: [&str; 4] = [
    "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "whsec_BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "whsec_CAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "whsec_DAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
];

impl World {
    pub(crate) async fn set_secret(&self, name: &str, text: &str, overlap: Span) -> Result<()> {
        let namespace_id = namespaces::ensure(self.engine.cell().home(), &"main".parse()?).await?;
        let by = Actor {
            namespace_id,
            actor: "test",
        };
        let text = SecretText::new(text.to_owned());
        self.engine.set_secret(by, name, &text, overlap).await?;
        Ok(())
    }

    /// Publishes a flow with a hook for a source, and sets its secret.
    pub(crate) async fn publish_signed(
        &self,
        flow: &str,
        source: &str,
        secret: &str,
    ) -> Result<()> {
        self.set_secret(flow, secret, Span::from_secs(0)).await?;
        let webhook = webhook(source, flow);
        let rest = format!("trigger:\n  webhook: {webhook}\n{STEPS}");
        self.publish(flow, &rest).await?;
        Ok(())
    }

    pub(crate) async fn send(&self, signed: &Signed) -> Result<Answer> {
        let headers = signed.headers.iter();
        let headers: Vec<(&str, &str)> = headers
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let body = signed.body.clone().into();
        let sent = self.bare.send(Method::POST, &signed.target, &headers, body);
        Ok(sent.await?)
    }

    pub(crate) async fn now(&self) -> Result<Timestamp> {
        Ok(Clock::start(self.engine.cell()).await?.now())
    }
}

/// One source against everything that can be wrong with a delivery.
async fn prove(source: &str) -> Result<()> {
    let world = World::start().await?;
    let day = Span::from_secs(86_400);
    world.publish_signed("hook", source, SECRETS[0]).await?;
    world.publish_signed("other", source, SECRETS[3]).await?;
    let target = "/hooks/main/hook?from=a%40b";
    let now = world.now().await?;
    let make =
        |secret: usize, id: u32, at: Timestamp| sign(source, SECRETS[secret], target, id, at);

    let good = make(0, 1, now);
    let first = world.send(&good).await?;
    let again = world.send(&good).await?;
    assert_eq!(first.status, 202, "{source}: {}", first.text());
    assert_eq!(again.status, 202, "{source}: {}", again.text());
    assert_eq!(first.json::<Started>()?.run, again.json::<Started>()?.run);
    assert_eq!(again.header("idempotency-replayed"), Some("true"));

    let mut wrong = vec![
        make(1, 2, now),
        make(0, 3, now).without(proof_header(source)),
        make(0, 4, now).doubled(proof_header(source)),
        make(0, 5, now).sent_to("/hooks/main/other"),
    ];
    if source != "token" {
        let mut changed = make(0, 6, now);
        changed.body = changed.body.replace('6', "7");
        wrong.push(changed);
    }
    if [
        "stripe",
        "slack",
        "hubspot",
        "linear",
        "standard-webhooks",
        "described",
    ]
    .contains(&source)
    {
        let far = match source {
            "linear" => SignedDuration::from_secs(8 * 3_600 + 60),
            _ => SignedDuration::from_secs(301),
        };
        wrong.extend([
            make(0, 8, now - far),
            make(0, 9, now + far + SignedDuration::from_secs(60)),
        ]);
    }
    let mut bodies = Vec::new();
    for signed in &wrong {
        let answer = world.send(signed).await?;
        assert_eq!(answer.status, 401, "{source}: {signed:?}");
        bodies.push(answer.body);
    }
    let problem: Problem = serde_json::from_slice(&bodies[0])?;
    assert_eq!(problem.code, "signature-invalid");
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{source}");

    // While a secret is rotated, both versions verify; a retired one does not.
    world.set_secret("hook", SECRETS[1], day).await?;
    let former = world.send(&make(0, 10, now)).await?;
    let latest = world.send(&make(1, 11, now)).await?;
    assert_eq!((former.status.as_u16(), latest.status.as_u16()), (202, 202));
    world
        .set_secret("hook", SECRETS[2], Span::from_secs(0))
        .await?;
    let retired = world.send(&make(1, 12, now)).await?;
    assert_eq!(retired.status, 401, "{source}");

    let metrics = world.metrics().await?.text();
    let counted = metrics.lines().find(|line| line.contains(r#"flow="hook""#));
    let counted = counted.with_context(|| metrics.clone())?;
    assert!(
        counted.starts_with("semel_auth_failures_total{namespace=\"main\",flow=\"hook\"}"),
        "{counted}"
    );
    let refusals = until_some("a refusal to be recorded", async || {
        let client = world.database.connect().await?;
        let rows = client
            .query(
                "SELECT code, message FROM refused_deliveries WHERE flow = 'hook'",
                &[],
            )
            .await?;
        Ok((!rows.is_empty()).then_some(rows))
    })
    .await?;
    assert_eq!(refusals.len(), 1, "a storm costs a line a minute");
    assert_eq!(refusals[0].get::<_, &str>(0), "signature-invalid");
    Ok(())
}

macro_rules! sources {
    ($($name:ident $source:literal,)*) => {
        $(#[tokio::test]
        async fn $name() -> Result<()> {
            prove($source).await
        })*
    };
}

sources! {
    what_stripe_signs_is_taken_and_nothing_else "stripe",
    what_github_signs_is_taken_and_nothing_else "github",
    what_slack_signs_is_taken_and_nothing_else "slack",
    what_shopify_signs_is_taken_and_nothing_else "shopify",
    what_hubspot_signs_is_taken_and_nothing_else "hubspot",
    what_twilio_signs_is_taken_and_nothing_else "twilio",
    what_linear_signs_is_taken_and_nothing_else "linear",
    what_pagerduty_signs_is_taken_and_nothing_else "pagerduty",
    what_typeform_signs_is_taken_and_nothing_else "typeform",
    what_standard_webhooks_sign_is_taken_and_nothing_else "standard-webhooks",
    what_an_author_describes_is_taken_and_nothing_else "described",
    who_has_the_token_is_let_in_and_nobody_else "token",
}

#[tokio::test]
async fn a_hook_without_its_secret_refuses_all_deliveries() -> Result<()> {
    let world = World::start().await?;
    let rest = format!(
        "trigger:\n  webhook: {}\n{STEPS}",
        webhook("github", "missing")
    );
    world.publish("hook", &rest).await?;
    let now = world.now().await?;

    for secret in ["", SECRETS[0]] {
        let answer = world
            .send(&sign("github", secret, "/hooks/main/hook", 1, now))
            .await?;
        assert_eq!(answer.status, 401, "{secret}");
    }
    Ok(())
}

#[tokio::test]
async fn a_token_is_neither_seen_nor_kept() -> Result<()> {
    let world = World::start().await?;
    world
        .set_secret("shop", "hush-hush", Span::from_secs(0))
        .await?;
    let open = "auth: { token: {} }, secret: shop, key: input.id";
    let named = "auth: { token: { header: x-shop-token } }, secret: shop, key: input.id";
    for (flow, webhook, header, value) in [
        ("open", open, "authorization", "Bearer hush-hush"),
        ("named", named, "x-shop-token", "hush-hush"),
    ] {
        let rest = format!("trigger:\n  webhook: {{ {webhook} }}\n{STEPS}result: headers\n");
        world.publish(flow, &rest).await?;
        let now = world.now().await?;
        let signed = sign("token", "hush-hush", &format!("/hooks/main/{flow}"), 1, now)
            .without("x-shop-token")
            .with(header, value)
            .with("user-agent", "shop/1");

        let started: Started = world.send(&signed).await?.json()?;
        let patience = patience_span();
        let end = world.client.await_run(started.run, patience).await?;

        let seen = end.result.context("a result")?;
        assert_eq!(seen["user-agent"], "shop/1", "{seen}");
        assert!(!seen.to_string().contains("hush"), "{seen}");
        let client = world.database.connect().await?;
        let row = client
            .query_one(
                "SELECT count(*) FROM journal WHERE events::text LIKE '%hush-hush%'",
                &[],
            )
            .await?;
        assert_eq!(row.get::<_, i64>(0), 0);
    }
    Ok(())
}

#[tokio::test]
async fn changing_fields_of_a_source_are_no_mismatch() -> Result<()> {
    let world = World::start().await?;
    world.publish_signed("hook", "linear", SECRETS[0]).await?;
    let now = world.now().await?;
    let target = "/hooks/main/hook";

    let first = world
        .send(&sign("linear", SECRETS[0], target, 1, now))
        .await?;
    let later = now + SignedDuration::from_secs(60);
    let again = world
        .send(&sign("linear", SECRETS[0], target, 1, later))
        .await?;

    assert_eq!(again.status, 202, "{}", again.text());
    let (first, again): (Value, Value) = (first.json()?, again.json()?);
    assert_eq!(first["run"], again["run"]);
    assert_eq!(again.get("held"), None);
    Ok(())
}

#[tokio::test]
async fn a_form_is_read_as_an_object_of_texts() -> Result<()> {
    let world = World::start().await?;
    world
        .set_secret("hook", SECRETS[0], Span::from_secs(0))
        .await?;
    let rest = format!(
        "trigger:\n  webhook: {}\n{STEPS}result: input\n",
        webhook("twilio", "hook")
    );
    world.publish("hook", &rest).await?;
    let now = world.now().await?;

    let answer = world
        .send(&sign("twilio", SECRETS[0], "/hooks/main/hook", 1, now))
        .await?;
    let started: Started = answer.json()?;
    let patience = patience_span();
    let end = world.client.await_run(started.run, patience).await?;

    assert_eq!(started.key, "SM1/delivered");
    assert_eq!(end.result.context("a result")?["From"], "+1500");
    Ok(())
}
