//! Keys: computed, refused, mismatched.

use anyhow::Result;
use semel_engine::{Intake, IntakeError, Moment};
use semel_model::ClaimId;
use semel_store::claims;

use crate::world::World;

const STEPS: &str = "steps:\n  - id: note\n    kv: { set: 'k/${{ input.id }}', value: 1 }\n";

#[tokio::test]
async fn a_delivery_without_its_key_is_refused() -> Result<()> {
    let world = World::start().await?;
    world.publish(STEPS).await?;

    for payload in [
        r#"{"other":1}"#,
        r#"{"id":null}"#,
        r#"{"id":""}"#,
        r#"{"id":[1]}"#,
    ] {
        let refused = world.try_deliver(payload).await;
        assert!(
            matches!(refused, Err(IntakeError::KeyFailed(_))),
            "{payload}: {refused:?}"
        );
    }
    Ok(())
}

#[tokio::test]
async fn another_payload_under_a_known_key_never_makes_a_second_run() -> Result<()> {
    let world = World::start().await?;
    for (policy, expected) in [("reject", 0), ("accept", 1), ("hold", 2)] {
        world
            .publish_source(&format!(
                "flow: story\ntrigger:\n  webhook: {{ auth: none, key: input.id, mismatch: {policy} }}\n{STEPS}"
            ))
            .await?;
        let first = world
            .deliver(&format!(r#"{{"id":"{policy}","v":1}}"#))
            .await?;

        let other = world
            .try_deliver(&format!(r#"{{"id":"{policy}","v":2}}"#))
            .await;

        match (expected, other) {
            (0, Err(IntakeError::Mismatch { run })) => assert_eq!(run, first.run),
            (1, Ok(Intake::Accepted(other))) => assert_eq!(other.run, first.run),
            (2, Ok(Intake::Held(other))) => assert_eq!(other.run, first.run),
            (_, other) => panic!("{policy}: {other:?}"),
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_sender_cannot_take_an_instant_of_the_schedule() -> Result<()> {
    let world = World::start().await?;
    let (namespace, flow) = ("default".parse()?, "story".parse()?);
    world
        .publish_source(&format!(
            "flow: story\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n  \
             schedule: {{ cron: '0 3 1 1 *' }}\n{}",
            STEPS.replace("input.id", "trigger.kind")
        ))
        .await?;
    let instant = "2031-01-01T03:00:00Z";

    let delivered = world
        .deliver(&format!(r#"{{"id":"story@{instant}"}}"#))
        .await?;
    let moment = Moment::At(instant.parse()?);
    let fired = world
        .engine
        .fire_schedule(world.by(), &namespace, &flow, &moment)
        .await?;

    assert_eq!(fired.key.text(), delivered.key.text());
    assert_ne!(fired.run, delivered.run, "the instant has a run of its own");
    assert!(!fired.replayed);
    // People find both by the text.
    let claims = ClaimId::derive_all(&namespace, &flow, &fired.key);
    let found = claims::list_newest_runs(world.engine.cell().every(), &claims, 8).await?;
    assert!(found.contains(&fired.run) && found.contains(&delivered.run));
    Ok(())
}
