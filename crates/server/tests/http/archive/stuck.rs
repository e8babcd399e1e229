//! An archive that hangs, or a pass that panics: the duty is done all the same, and so are the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use semel_engine::{
    ArchiveError, ArchivedText, Budget, Engine, ErasedFile, RunArchive, Timeliness,
};
use semel_model::{RunId, Span};
use semel_store::archives::{ArchiveFile, FileContent, SpareFile};
use semel_store::retention::GoingKey;
use semel_store::{Cell, clock};
use semel_testkit::until;

use super::stage::{Stage, left};

/// The duty that writes to the archive.
const RUNS: &str = "retention_runs";

/// Longer than time is moved here, so that no server loses its session by that.
const LEASE: Span = Span::from_const_secs(4 * 3_600);

/// Longer than a pass of the duty may take.
const LONG: Duration = Duration::from_secs(3_600);

/// An archive that writes nothing while it is told so.
#[derive(Debug)]
struct Stuck {
    inner: Arc<dyn RunArchive>,
    hangs: AtomicBool,
    panics: AtomicBool,
    asked: AtomicUsize,
}

impl Stuck {
    fn new(stage: &Stage, hangs: bool, panics: bool) -> Result<Arc<Self>> {
        let inner = stage.world.engine.options().archive.clone();
        Ok(Arc::new(Self {
            inner: inner.context("an archive")?,
            hangs: hangs.into(),
            panics: panics.into(),
            asked: AtomicUsize::new(0),
        }))
    }

    fn hanging(stage: &Stage) -> Result<Arc<Self>> {
        Self::new(stage, true, false)
    }

    /// How often it was asked to write a file.
    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    async fn until_asked(&self) -> Result<usize> {
        let asked = async || Ok(self.asked());
        until("a file to be written", asked, |asked| *asked > 0).await
    }
}

impl RunArchive for Stuck {
    fn write<'a>(
        &'a self,
        cell: &'a Cell,
        file: &'a SpareFile,
        keys: &'a [GoingKey],
    ) -> BoxFuture<'a, Result<(usize, FileContent), ArchiveError>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        assert!(
            !self.panics.swap(false, Ordering::SeqCst),
            "as it was told to"
        );
        match self.hangs.load(Ordering::SeqCst) {
            true => Box::pin(std::future::pending()),
            false => self.inner.write(cell, file, keys),
        }
    }

    fn find<'a>(
        &'a self,
        file: &'a ArchiveFile,
        run: (i32, RunId),
        memory: &'a Budget,
    ) -> BoxFuture<'a, Result<Option<ArchivedText>, ArchiveError>> {
        self.inner.find(file, run, memory)
    }

    fn write_erased<'a>(
        &'a self,
        from: &'a ArchiveFile,
        to: &'a SpareFile,
        runs: &'a [RunId],
        at: Timestamp,
    ) -> BoxFuture<'a, Result<Option<ErasedFile>, ArchiveError>> {
        self.inner.write_erased(from, to, runs, at)
    }

    fn remove<'a>(&'a self, object: &'a str) -> BoxFuture<'a, Result<(), ArchiveError>> {
        self.inner.remove(object)
    }
}

async fn serve(stage: &Stage, archive: Arc<Stuck>) -> Result<Engine> {
    let archive: Arc<dyn RunArchive> = archive;
    stage
        .serve_with(|options| {
            options.lease = LEASE;
            options.archive = Some(archive);
        })
        .await
}

/// Whether a server holds the duty, and whether that is done in time.
fn held(engine: &Engine) -> Result<(bool, Timeliness)> {
    let services = engine.list_services();
    let service = services.iter().find(|it| it.name == RUNS);
    let service = service.context("the duty")?;
    Ok((service.is_held_here, service.timeliness))
}

/// Another server, which the one that holds the duty goes before.
async fn serve_second(stage: &Stage) -> Result<(Engine, Arc<Stuck>)> {
    loop {
        let archive = Stuck::hanging(stage)?;
        let second = serve(stage, archive.clone()).await?;
        // Its first pass looks who is live.
        ensure!(second.whole_pass("poller").await, "no poller");
        if !held(&second)?.0 {
            return Ok((second, archive));
        }
        second.shutdown().await;
    }
}

#[tokio::test]
async fn a_pass_that_hangs_is_taken_over_by_the_next_server() -> Result<()> {
    let stage = Stage::start().await?;
    let run = stage.play_short("o-1", false).await?;
    stage.days_later(91).await?;
    let stuck = Stuck::hanging(&stage)?;
    let first = serve(&stage, stuck.clone()).await?;
    stuck.until_asked().await?;
    let (second, archive) = serve_second(&stage).await?;
    // Two whole passes of what takes late duties: this one is not late.
    for _ in 0..2 {
        ensure!(second.whole_pass("duty_marks").await, "no such service");
    }
    let in_time = (held(&second)?, archive.asked());

    archive.hangs.store(false, Ordering::SeqCst);
    clock::move_ahead(second.cell(), LONG).await?;
    ensure!(second.whole_pass("duty_marks").await, "no such service");
    let rows = async || left(&stage, run).await;
    until("the run to be archived", rows, |rows| *rows == 0).await?;
    for service in [RUNS, "duty_marks"] {
        ensure!(second.whole_pass(service).await, "no service {service}");
    }
    let taken = held(&second)?;

    assert_eq!(in_time, ((false, Timeliness::OnTime), 0));
    assert_eq!(
        taken,
        (true, Timeliness::Covered),
        "its holder has finished nothing"
    );
    assert_eq!(first.metrics().service_passes.get(RUNS), 0, "it hangs");
    assert_eq!(stuck.asked(), 1);
    second.shutdown().await;
    first.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn keys_are_freed_while_the_archive_hangs() -> Result<()> {
    let stage = Stage::start().await?;
    stage.play_short("o-1", false).await?;
    stage.days_later(91).await?;
    let stuck = Stuck::hanging(&stage)?;
    let engine = serve(&stage, stuck.clone()).await?;
    stuck.until_asked().await?;
    stage.play_short("o-2", false).await?;

    let month = Duration::from_secs(31 * 86_400);
    clock::move_ahead(engine.cell(), month).await?;
    let freed = async || {
        ensure!(engine.whole_pass("retention_keys").await, "no such service");
        Ok(engine.metrics().keys_forgotten.get())
    };
    until("a key to be freed", freed, |freed| *freed > 0).await?;
    for service in ["retention", "retention_archive", "retention_audit"] {
        ensure!(engine.whole_pass(service).await, "no service {service}");
    }

    assert_eq!(engine.metrics().service_passes.get(RUNS), 0, "it hangs");
    assert_eq!(stuck.asked(), 1);
    engine.shutdown().await;
    Ok(())
}

#[tokio::test]
async fn a_panic_in_a_pass_does_not_end_the_duty() -> Result<()> {
    let stage = Stage::start().await?;
    let run = stage.play_short("o-1", false).await?;
    stage.days_later(91).await?;

    let engine = serve(&stage, Stuck::new(&stage, false, true)?).await?;
    let rows = async || left(&stage, run).await;
    until("the run to be archived", rows, |rows| *rows == 0).await?;

    assert_eq!(engine.metrics().service_panics.get(RUNS), 1);
    engine.shutdown().await;
    Ok(())
}
