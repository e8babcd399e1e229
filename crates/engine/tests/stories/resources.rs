//! Large outputs: outside the journal, stored as long as a row needs them, and no longer.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures_util::TryStreamExt as _;
use futures_util::future::{join, try_join_all};
use jiff::{SignedDuration, Timestamp};
use semel_engine::{NoResources, ResourceLocation, Resources, StoredFiles};
use semel_model::request::PersistRequest;
use semel_model::resource::INLINE_BYTES_MAX;
use semel_model::{Outcome, Resource, ResourceRef, RunId, Span};
use semel_store::resources::{self, Keeping};
use semel_store::{Cell, clock};
use semel_testkit::pace;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::World;

/// A database, and a folder for resources.
struct Ground {
    resources: Resources,
    cell: Cell,
    folder: tempfile::TempDir,
    world: World,
}

impl Ground {
    async fn start() -> Result<Self> {
        let world = World::start().await?;
        let folder = tempfile::tempdir()?;
        let shelf = StoredFiles::open(&ResourceLocation::Folder(folder.path().to_owned()))?;
        let cell = world.engine.cell().clone();
        Ok(Self {
            resources: Resources::new(cell.clone(), Arc::new(shelf)),
            cell,
            folder,
            world,
        })
    }

    async fn persist(&self, value: Value, keep: Span) -> Result<Resource> {
        let request = PersistRequest {
            value,
            name: Some("report".to_owned()),
            media_type: "text/csv".to_owned(),
            keep,
        };
        match self.resources.persist(1, run(), "report", &request).await {
            Outcome::Done(receipt) => receipt.kept.first().cloned().context("one is kept"),
            other @ (Outcome::Failed(_) | Outcome::InDoubt(_)) => bail!("{other:?}"),
        }
    }

    async fn read(&self, resource: ResourceRef) -> Result<Vec<u8>> {
        let opened = self.resources.open(1, resource).await;
        let opened = opened.map_err(|fault| anyhow::anyhow!("{fault:?}"))?;
        let pieces: Vec<_> = opened.stream.try_collect().await?;
        Ok(pieces.concat())
    }

    async fn is_needed(&self, resource: ResourceRef) -> Result<bool> {
        Ok(resources::is_needed(self.cell.of(resource), 1, resource).await?)
    }

    async fn now(&self) -> Result<Timestamp> {
        Ok(clock::Clock::start(&self.cell).await?.now())
    }

    async fn pass(&self, hours: u64) -> Result<()> {
        let hours = Duration::from_secs(hours * 3_600);
        self.world.move_clock(hours).await
    }

    /// How many files the folder holds in all.
    fn count(&self) -> Result<usize> {
        let mut folders = vec![self.folder.path().to_owned()];
        let mut count = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => count += 1,
                }
            }
        }
        Ok(count)
    }
}

fn run() -> RunId {
    RunId::from_uuid(Uuid::from_u128(1))
}

fn keeping(keep: Span) -> Keeping<'static> {
    Keeping {
        namespace_id: 1,
        by: Some((run(), "fetch")),
        name: None,
        keep,
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_goes_to_the_resource_store() -> Result<()> {
    let ground = Ground::start().await?;
    let keeping = keeping(Span::from_secs(3_600));
    // The quotes count as well.
    let just = json!("x".repeat(INLINE_BYTES_MAX - 2));
    let text = json!("y".repeat(INLINE_BYTES_MAX - 1));
    let rows = json!({"rows": vec![json!({"id": 1}); 20_000]});

    let spill = async |value: &Value| {
        let mut value = value.clone();
        let spilled = ground.resources.spill(&keeping, &mut value).await;
        spilled.map_err(|fault| anyhow::anyhow!("{fault:?}"))?;
        anyhow::Ok(value)
    };
    let stays = spill(&just).await?;
    let text_ref = spill(&text).await?;
    let rows_ref = spill(&rows).await?;

    assert_eq!(stays, just);
    assert_eq!(text_ref["type"], "text/plain; charset=utf-8");
    assert_eq!(text_ref["bytes"], INLINE_BYTES_MAX - 1);
    let kept: Resource = serde_json::from_value(text_ref)?;
    assert_eq!(
        ground.read(kept.resource).await?,
        text.as_str().unwrap_or_default().as_bytes()
    );
    let kept: Resource = serde_json::from_value(rows_ref)?;
    assert_eq!(kept.media_type, "application/json");
    assert_eq!(
        serde_json::from_slice::<Value>(&ground.read(kept.resource).await?)?,
        rows
    );
    let row = resources::find(ground.cell.of(kept.resource), 1, kept.resource).await?;
    let row = row.context("a row")?;
    assert_eq!(row.step.as_deref(), Some("fetch"));
    Ok(())
}

#[tokio::test]
async fn without_a_resource_store_a_large_result_names_the_missing_setting() -> Result<()> {
    let ground = Ground::start().await?;
    let off = Resources::new(ground.cell.clone(), Arc::new(NoResources));
    let keeping = keeping(Span::from_secs(1));

    let (mut small, mut large) = (json!(1), json!("x".repeat(INLINE_BYTES_MAX)));
    let before = large.clone();

    let kept = off.spill(&keeping, &mut small).await;
    let refused = off.spill(&keeping, &mut large).await;

    assert_eq!((kept, small), (Ok(()), json!(1)));
    assert_eq!(large, before, "it stays as it was");
    let fault = refused.err().context("a fault")?;
    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("resources-off", false)
    );
    Ok(())
}

#[tokio::test]
async fn keeping_twice_is_harmless_and_the_longer_time_holds() -> Result<()> {
    let ground = Ground::start().await?;

    let first = ground.persist(json!("a,b"), Span::from_secs(7_200)).await?;
    let again = ground.persist(json!("a,b"), Span::from_secs(60)).await?;

    assert_eq!((&first, ground.count()?), (&again, 1));
    ground.pass(1).await?;
    ground.resources.expire().await?;
    let row = resources::find(ground.cell.of(first.resource), 1, first.resource).await?;
    assert_eq!(row.context("still there")?.name.as_deref(), Some("report"));
    assert_eq!(ground.read(first.resource).await?, b"a,b");
    Ok(())
}

#[tokio::test]
async fn what_expired_is_removed_and_what_is_needed_is_not() -> Result<()> {
    let ground = Ground::start().await?;
    let short = ground
        .persist(json!("short"), Span::from_secs(3_600))
        .await?;
    let long = ground
        .persist(json!("long"), Span::from_secs(90 * 86_400))
        .await?;

    ground.pass(2).await?;
    let removed = ground.resources.expire().await?;
    let early = ground.resources.settle_aside(ground.now().await?).await?;
    ground.pass(25).await?;
    let gone = ground.resources.settle_aside(ground.now().await?).await?;

    assert_eq!((removed, early, gone), (1, 0, 1));
    assert!(ground.read(short.resource).await.is_err());
    assert_eq!(ground.read(long.resource).await?, b"long");
    assert_eq!(ground.count()?, 1);
    Ok(())
}

#[tokio::test]
async fn a_row_that_comes_between_keeping_and_expiry_has_its_bytes() -> Result<()> {
    let ground = Ground::start().await?;
    let kept = ground
        .persist(json!("again"), Span::from_secs(3_600))
        .await?;
    ground.pass(2).await?;

    // Another server removes it after an executor stored the same bytes and before they are
    // recorded.
    ground.resources.expire().await?;
    let recorded = keeping(Span::from_secs(30 * 86_400));
    let recorded = ground
        .resources
        .record(&recorded, std::slice::from_ref(&kept));
    recorded
        .await
        .map_err(|fault| anyhow::anyhow!("{fault:?}"))?;

    assert_eq!(ground.read(kept.resource).await?, b"again");
    ground.pass(25).await?;
    ground.resources.settle_aside(ground.now().await?).await?;
    assert_eq!(ground.read(kept.resource).await?, b"again");
    Ok(())
}

#[tokio::test]
async fn unrecorded_bytes_are_removed_in_time() -> Result<()> {
    let ground = Ground::start().await?;
    let kept = ground
        .persist(json!("kept"), Span::from_secs(90 * 86_400))
        .await?;
    let stray = ground
        .persist(json!("stray"), Span::from_secs(3_600))
        .await?;
    ground.pass(2).await?;
    // As if the process had crashed before it wrote the row.
    assert!(resources::remove_expired(ground.cell.of(stray.resource), 1, stray.resource).await?);

    ground.resources.look_through(ground.now().await?).await?;
    assert_eq!(ground.count()?, 2, "it may be on its way to a row");
    for _ in 0..2 {
        ground.pass(25).await?;
        ground.resources.look_through(ground.now().await?).await?;
    }

    assert!(ground.read(stray.resource).await.is_err());
    assert_eq!(ground.read(kept.resource).await?, b"kept");
    assert_eq!(ground.count()?, 1);
    Ok(())
}

#[tokio::test]
async fn under_concurrency_no_live_row_lacks_its_bytes() -> Result<()> {
    let ground = Ground::start().await?;
    let texts: Vec<String> = (0..4).map(|n| format!("text {n}")).collect();

    let keepers = (0..8_u64).map(|keeper| {
        let (ground, texts) = (&ground, &texts);
        async move {
            for round in 0..40 {
                let text = &texts[((keeper * 7 + round) % 4) as usize];
                // Short, and with pauses, so that some expire however fast the machine is.
                let keep = Span::from_millis(1 + (keeper + round) % 4);
                pace(Duration::from_millis(round % 7 * 3)).await;
                let kept = ground.persist(json!(text), keep).await?;
                if let Err(error) = ground.read(kept.resource).await
                    && ground.is_needed(kept.resource).await?
                {
                    bail!("{text} is needed: {error:#}");
                }
            }
            Ok(())
        }
    });
    let expirers = (0..2).map(|_| async {
        let mut removed = 0;
        for _ in 0..120 {
            removed += ground.resources.expire().await?;
            pace(Duration::from_millis(3)).await;
        }
        anyhow::Ok(removed)
    });
    let (kept, removed) = join(try_join_all(keepers), try_join_all(expirers)).await;
    kept?;
    let removed: u64 = removed?.iter().sum();

    for text in &texts {
        ground
            .persist(json!(text), Span::from_secs(30 * 86_400))
            .await?;
    }
    let later = ground.now().await? + SignedDuration::from_hours(25);
    ground.resources.settle_aside(later).await?;
    for text in &texts {
        let kept = ground.persist(json!(text), Span::from_secs(1)).await?;
        assert_eq!(ground.read(kept.resource).await?, text.as_bytes());
    }
    assert!(removed > 0, "some expired meanwhile: {removed}");
    assert_eq!(ground.count()?, texts.len(), "nothing else is left");
    Ok(())
}
