//! Keys: told, refused, mismatched.

use anyhow::Result;
use semel_engine::{Intake, IntakeError};

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
    for (policy, expected) in [("reject", 0), ("accept", 1), ("quarantine", 2)] {
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
            (2, Ok(Intake::Quarantined(other))) => assert_eq!(other.run, first.run),
            (_, other) => panic!("{policy}: {other:?}"),
        }
    }
    Ok(())
}
