//! Killed while keeping: no name without its bytes.

use std::path::Path;

use anyhow::{Context as _, Result};
use futures_util::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use semel_steps::ResourceStore as _;
use semel_steps::resources::{ResourceLocation, StoredFiles};
use semel_testkit::{Program, patience};

use crate::resources::world::{PLENTY, files, long};

/// Where the process that is killed keeps something.
const PLACE: &str = "SEMEL_TEST_PLACE";

/// More than two parts, so that some are written when the stream stands still.
const LONG: u64 = 40 << 20;

#[tokio::test]
async fn killed_while_keeping_leaves_an_upload_that_is_swept_and_no_name() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut keeper = Program::at(std::env::current_exe()?)
        .args([
            "resources::crash::keeps_for_ever",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(PLACE, folder.path())
        .start()?;
    keeper.until_line("standing still", patience()).await?;

    keeper.sigkill()?;

    let left = files(folder.path())?;
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].starts_with(folder.path().join("uploads/7")));
    assert!(
        std::fs::metadata(&left[0])?.len() > 8 << 20,
        "it was in progress"
    );
    let modified = Timestamp::try_from(std::fs::metadata(&left[0])?.modified()?)?;
    let shelf = StoredFiles::open(&ResourceLocation::Folder(folder.path().to_owned()))?;
    let swept = shelf
        .sweep(modified + SignedDuration::from_hours(1))
        .await?;
    assert_eq!((swept, files(folder.path())?.len()), (1, 0));
    Ok(())
}

#[tokio::test]
#[ignore = "runs in a process of its own, which is killed"]
async fn keeps_for_ever() -> Result<()> {
    let place = std::env::var_os(PLACE).context("a place")?;
    let shelf = StoredFiles::open(&ResourceLocation::Folder(Path::new(&place).to_owned()))?;
    let still = stream::once(async {
        println!("standing still");
        std::future::pending().await
    });
    let endless = long(LONG, 1).chain(still).boxed();
    shelf.keep(7, "x/y", endless, PLENTY).await?;
    Ok(())
}
