//! 200 MiB go in and out, and the process grows by less than 64 MiB.

use anyhow::{Context as _, Result, anyhow};
use futures_util::TryStreamExt as _;
use semel_steps::ResourceStore as _;

use crate::resources::world::{PLENTY, World, long};

const BYTES: u64 = 200 << 20;
const GROWTH_KIB_MAX: u64 = 64 << 10;

#[tokio::test]
async fn a_folder_takes_200_mib_in_little_memory() -> Result<()> {
    stays_small(World::folder()?).await
}

#[tokio::test]
async fn a_bucket_takes_200_mib_in_little_memory() -> Result<()> {
    stays_small(World::bucket().await?).await
}

async fn stays_small(world: World) -> Result<()> {
    let before = peak_kib()?;

    let kept = world.shelf.keep(7, "x/y", long(BYTES, 1), PLENTY).await?;
    let opened = world.shelf.open(7, kept.resource).await;
    let opened = opened.map_err(|fault| anyhow!("{fault:?}"))?;
    let read = opened
        .stream
        .try_fold(
            0,
            |read, piece| async move { Ok(read + piece.len() as u64) },
        )
        .await?;

    let growth = peak_kib()? - before;
    eprintln!("{} MiB in and out, grown by {growth} KiB", BYTES >> 20);
    assert_eq!((kept.bytes, read), (BYTES, BYTES));
    assert!(growth < GROWTH_KIB_MAX, "grown by {growth} KiB");
    Ok(())
}

/// The most memory that this process ever had.
fn peak_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number.context("a peak")?.parse().context("a number")
}
