//! A folder and a bucket behave alike.

use std::io;

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use semel_model::ResourceRef;
use semel_steps::resources::{NoResources, ResourceLocation};
use semel_steps::{KeepError, ResourceStore as _, resources};

use crate::resources::world::{PLENTY, World, long, pieces, refused};

/// Longer than two parts of an upload.
const LONG: u64 = 20 << 20;

#[tokio::test]
async fn what_is_kept_is_read_back() -> Result<()> {
    for world in World::both().await? {
        let short = world.keep(7, "hello").await?;
        let nothing = world.keep(7, "").await?;
        let kept = world.shelf.keep(7, "image/png", long(LONG, 1), PLENTY);
        let long_one = kept.await?;

        assert_eq!(world.read(7, short.resource).await?, b"hello");
        assert_eq!(world.read(7, nothing.resource).await?, b"");
        let expected: Vec<_> = long(LONG, 1).try_collect().await?;
        assert!(world.read(7, long_one.resource).await? == expected.concat());
        assert_eq!(
            (long_one.bytes, long_one.media_type.as_str()),
            (LONG, "image/png")
        );
    }
    Ok(())
}

#[tokio::test]
async fn the_same_bytes_are_one_object() -> Result<()> {
    for world in World::both().await? {
        let first = world.keep(7, "hello").await?;
        let again = world.keep(7, "hello").await?;
        let long_ones = (0..3).map(|_| world.shelf.keep(7, "x/y", long(LONG, 1), PLENTY));
        let long_ones = try_join_all(long_ones).await?;
        let late = world.shelf.keep(7, "x/y", long(LONG, 1), PLENTY).await?;

        assert_eq!(first, again);
        assert!(long_ones.iter().all(|one| *one == late));
        let names = world.list().await?;
        assert_eq!(names.len(), 2, "{names:?}");
        let digest = hex::encode(first.resource.digest());
        let home = format!("7/{}/{}/{digest}", &digest[..2], &digest[2..4]);
        assert!(names.contains(&home), "{names:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_namespace_sees_only_its_own() -> Result<()> {
    for world in World::both().await? {
        let kept = world.keep(7, "hello").await?;

        let fault = world.fault(8, kept.resource).await.context("a fault")?;

        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("resource-missing", false)
        );
        assert_eq!(world.list().await?.len(), 1);
        world.keep(8, "hello").await?;
        assert_eq!(world.list().await?.len(), 2, "each has its own object");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_too_long_or_breaks_off_leaves_nothing() -> Result<()> {
    for world in World::both().await? {
        let too_long = world.shelf.keep(7, "x/y", long(LONG, 1), LONG - 1).await;
        let broken = long(LONG, 1).chain(stream::iter([Err(io::Error::other("cut"))]));
        let broken = world.shelf.keep(7, "x/y", broken.boxed(), PLENTY).await;
        let just = world.shelf.keep(7, "x/y", pieces(vec![1; 10]), 10).await;

        assert_eq!(refused(too_long)?.code, "resource-too-large");
        let fault = refused(broken)?;
        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("source-broken", true)
        );
        assert!(just.is_ok(), "the limit itself is allowed");
        assert_eq!(world.list().await?.len(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn what_is_not_what_its_sender_named_leaves_nothing() -> Result<()> {
    for world in World::both().await? {
        let there = world.keep(7, "hello").await?;
        let other = ResourceRef::from_digest([7; 32]);

        let short = world
            .shelf
            .keep_as(7, other, "x/y", pieces(vec![1; 10]), PLENTY)
            .await;
        let whole = world.shelf.keep_as(7, other, "x/y", long(LONG, 1), PLENTY);
        let whole = whole.await;
        let known = pieces(b"hello".to_vec());
        let known = world.shelf.keep_as(7, other, "x/y", known, PLENTY).await;

        for kept in [short, whole, known] {
            assert!(matches!(kept, Err(KeepError::Differs { .. })), "{kept:?}");
        }
        assert_eq!(world.list().await?.len(), 1, "only what was there before");
        assert_eq!(world.read(7, there.resource).await?, b"hello");
        let right = pieces(b"hello".to_vec());
        let right = world
            .shelf
            .keep_as(7, there.resource, "text/plain", right, PLENTY)
            .await?;
        assert_eq!(right, there);
    }
    Ok(())
}

#[tokio::test]
async fn bytes_that_changed_are_not_handed_out() -> Result<()> {
    let world = World::folder()?;
    let kept = world.keep(7, "pay 10").await?;
    let folder = world.path().context("a folder")?;
    let home = folder.join(&world.list().await?[0]);

    std::fs::write(home, "pay 99")?;
    let read = world.read(7, kept.resource).await;

    let error = format!("{:#}", read.err().context("broken off")?);
    assert!(error.contains("do not match their digest"), "{error}");
    Ok(())
}

#[tokio::test]
async fn what_is_set_aside_can_still_be_opened_and_comes_back() -> Result<()> {
    let (early, late) = (second(1_000), second(2_000));
    for world in World::both().await? {
        let (one, other) = (world.keep(7, "one").await?, world.keep(7, "other").await?);

        let aside = world.shelf.set_aside(7, one.resource, early).await?;
        let aside = aside.context("something was there")?;
        let nothing = world.shelf.set_aside(7, one.resource, early).await?;
        world.shelf.set_aside(7, other.resource, late).await?;

        assert_eq!(nothing, None);
        assert_eq!(world.read(7, one.resource).await?, b"one");
        assert_eq!(world.shelf.list_aside(early, 9).await?, []);
        assert_eq!(world.shelf.list_aside(late, 9).await?, [aside]);
        world.shelf.restore(aside).await?;
        world.shelf.restore(aside).await?;
        assert_eq!(world.read(7, one.resource).await?, b"one");
        for aside in world.shelf.list_aside(second(3_000), 9).await? {
            world.shelf.discard(aside).await?;
            world.shelf.discard(aside).await?;
        }
        assert!(world.fault(7, other.resource).await.is_some());
        assert_eq!(world.list().await?.len(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn storing_bytes_again_restores_what_was_set_aside() -> Result<()> {
    for world in World::both().await? {
        let kept = world.keep(7, "one").await?;
        let aside = world.shelf.set_aside(7, kept.resource, second(1)).await?;

        world.keep(7, "one").await?;
        world.shelf.discard(aside.context("aside")?).await?;

        assert_eq!(world.read(7, kept.resource).await?, b"one");
    }
    Ok(())
}

#[tokio::test]
async fn a_sweep_removes_what_uploads_left_and_nothing_else() -> Result<()> {
    let world = World::folder()?;
    let kept = world.keep(7, "one").await?;
    let uploads = world.path().context("a folder")?.join("uploads/7");
    std::fs::create_dir_all(&uploads)?;
    std::fs::write(uploads.join("a"), "whole, and never moved")?;
    std::fs::write(uploads.join("b#1"), "half")?;
    let modified = std::fs::metadata(uploads.join("a"))?.modified()?;
    let modified = Timestamp::try_from(modified)?;

    let early = world
        .shelf
        .sweep(modified - SignedDuration::from_hours(1))
        .await?;
    let late = world
        .shelf
        .sweep(modified + SignedDuration::from_hours(1))
        .await?;

    assert_eq!((early, late), (0, 2));
    assert_eq!(world.read(7, kept.resource).await?, b"one");
    Ok(())
}

#[tokio::test]
async fn a_bucket_that_does_not_answer_may_answer_later() -> Result<()> {
    let ResourceLocation::Bucket(mut bucket) = ResourceLocation::parse("s3://outputs")? else {
        anyhow::bail!("a bucket");
    };
    bucket.endpoint = Some("http://127.0.0.1:1".to_owned());
    bucket.keys = Some(("a".to_owned(), semel_model::SecretText::new("b".to_owned())));
    let shelf = resources::StoredFiles::open(&ResourceLocation::Bucket(bucket))?;

    let kept = shelf.keep(7, "x/y", pieces(vec![1]), PLENTY).await;
    let opened = shelf.open(7, ResourceRef::from_digest([1; 32])).await;

    for fault in [refused(kept)?, opened.err().context("a fault")?] {
        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("resources-unreachable", true)
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_server_without_a_place_says_which_setting_is_missing() -> Result<()> {
    let kept = NoResources.keep(7, "x/y", pieces(vec![1]), PLENTY).await;

    let fault = refused(kept)?;

    assert_eq!(
        (fault.code.as_str(), fault.retryable),
        ("resources-off", false)
    );
    assert!(fault.message.contains("serve.resources"));
    Ok(())
}

fn second(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}
