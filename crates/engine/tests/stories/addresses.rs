//! Callback addresses: each opens its own wait, and one that was changed opens nothing.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use semel_engine::CallbackError;
use semel_model::RunId;
use semel_model::run::RunState;
use semel_store::waits;
use semel_testkit::{patience, until, until_some};

use crate::world::World;

const TWO_WAITS: &str = "steps:\n  - id: tell\n    kv: { set: 'url/${{ input.id }}', value: { one: '${{ waits.one.url }}', two: '${{ waits.two.url }}' } }\n\
    \x20 - id: one\n    wait: { callback: true, within: 1h }\n  - id: two\n    wait: { callback: true, within: 1h }\n\
    result: '[steps.one.result, steps.two.result]'\n";

/// The bytes of an address: the run, the wait and the code.
struct Address([u8; 64]);

impl Address {
    async fn of(world: &World, id: &str, wait: &str) -> Result<Self> {
        let entry = format!("url/{id}");
        let what = format!("the addresses in {entry}");
        let urls = until(
            &what,
            async || world.kv(&entry).await,
            |urls| !urls.is_null(),
        )
        .await?;
        let url = urls[wait].as_str().context("an address")?;
        let token = url.rsplit('/').next().context("a token")?;
        let bytes = URL_SAFE_NO_PAD.decode(token)?;
        Ok(Self(bytes.try_into().ok().context("64 bytes")?))
    }

    fn changed_at(&self, index: usize) -> Self {
        let mut bytes = self.0;
        bytes[index] ^= 1;
        Self(bytes)
    }

    /// This address with some bytes of another.
    fn with(&self, other: &Self, range: std::ops::Range<usize>) -> Self {
        let mut bytes = self.0;
        bytes[range.clone()].copy_from_slice(&other.0[range]);
        Self(bytes)
    }

    fn token(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }
}

async fn start(world: &World, id: &str) -> Result<RunId> {
    let run = world.deliver(&format!(r#"{{"id":"{id}"}}"#)).await?.run;
    until_some("the run to wait", async || {
        let (cell, namespace_id) = (world.engine.cell(), world.namespace_id);
        Ok(
            waits::list_of_run(cell.of(run), namespace_id, run, false, None, 1)
                .await?
                .items
                .pop(),
        )
    })
    .await?;
    Ok(run)
}

#[tokio::test]
async fn an_address_with_one_changed_byte_opens_nothing() -> Result<()> {
    let world = World::start().await?;
    world.publish(TWO_WAITS).await?;
    let run = start(&world, "a").await?;
    let address = Address::of(&world, "a", "one").await?;

    // The run, the wait, and the first, a middle and the last byte of the code.
    for index in [0, 15, 16, 31, 32, 47, 48, 63] {
        let token = address.changed_at(index).token();
        let answer = world.engine.call_back(&token, b"1").await;
        assert!(
            matches!(answer, Err(CallbackError::Unknown)),
            "byte {index}: {answer:?}"
        );
    }
    let shortened = address.token();
    let shortened = world.engine.call_back(&shortened[..80], b"1").await;
    let genuine = world.engine.call_back(&address.token(), b"2").await?;

    assert!(matches!(shortened, Err(CallbackError::Unknown)));
    assert_eq!((genuine.run, genuine.replayed), (run, false));
    Ok(())
}

#[tokio::test]
async fn the_code_of_one_wait_opens_no_other_wait_and_no_other_run() -> Result<()> {
    let world = World::start().await?;
    world.publish(TWO_WAITS).await?;
    let (mine, other) = (start(&world, "a").await?, start(&world, "b").await?);
    let one = Address::of(&world, "a", "one").await?;
    let two = Address::of(&world, "a", "two").await?;
    let foreign = Address::of(&world, "b", "one").await?;

    let forged = [
        ("the other wait under this code", one.with(&two, 16..32)),
        ("the other wait's code", one.with(&two, 32..64)),
        ("the other run under this code", one.with(&foreign, 0..16)),
        ("the other run and its wait", one.with(&foreign, 0..32)),
        ("the other run's code", one.with(&foreign, 32..64)),
    ];
    for (what, address) in forged {
        let answer = world.engine.call_back(&address.token(), b"1").await;
        assert!(
            matches!(answer, Err(CallbackError::Unknown)),
            "{what}: {answer:?}"
        );
    }

    // Nothing was answered meanwhile: each run ends with what its own addresses bring.
    for (address, payload) in [(&one, "1"), (&two, "2")] {
        let called = world
            .engine
            .call_back(&address.token(), payload.as_bytes())
            .await?;
        assert_eq!((called.run, called.replayed), (mine, false));
    }
    let end = world.engine.await_end(mine, patience()).await?;
    assert_eq!(end.context("a run")?.result.as_deref(), Some("[1,2]"));
    let waiting =
        semel_store::runs::find(world.engine.cell().of(other), world.namespace_id, other).await?;
    assert_eq!(waiting.context("a run")?.state, RunState::Active);
    Ok(())
}
