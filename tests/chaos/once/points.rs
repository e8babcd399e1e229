//! A server that dies at each commit point of `semel once`, before the commit and after it.

use anyhow::{Result, ensure};
use semel_testkit::{Cluster, Options, patience};

use super::Place;
use crate::harness::Harness;
use crate::invariants;
use crate::queries::count;
use crate::servers::{Home, faults, serve_at};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_at_a_commit_point_has_nothing_run_twice() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let place = Place::new(&home)?;
    let harness = Harness::start()?;
    let serve = async || {
        let program = faults()?.env("SEMEL_FAULTS", harness.socket());
        serve_at(program, &home.url(), "2s", place.listen()).await
    };
    let mut server = serve().await?;
    for point in [
        "once.begin.before",
        "once.begin.after",
        "once.report.before",
        "once.report.after",
    ] {
        let line = format!("echo ran >> {point}; echo said");
        let held = harness.arm(point, Some(point));
        let mut process = place.once(&["--lease", "30s"], point, &line)?.start()?;
        let held = held.until_held().await?;
        server.process.sigkill()?;
        drop(held);
        server = serve().await?;

        let status = process.until_exit(patience()).await?;

        ensure!(status.success(), "{point}: {status}: {}", process.stderr());
        let repeat = place.once(&[], point, &line)?.run(patience()).await?;
        ensure!(repeat.stdout == "said\n", "{point}: {repeat:?}");
        assert_eq!(place.count(point), 1, "{point}");
    }
    invariants::hold(&home, &[&server]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_whose_answer_is_lost_is_recorded_once() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let place = Place::new(&home)?;
    let harness = Harness::start()?;
    let serve = async || {
        let program = faults()?.env("SEMEL_FAULTS", harness.socket());
        serve_at(program, &home.url(), "2s", place.listen()).await
    };
    let mut server = serve().await?;
    for (index, point) in ["once.settle.before", "once.settle.after"]
        .iter()
        .enumerate()
    {
        let doubt = place.once(&[], point, "exit 17")?.run(patience()).await?;
        assert_eq!(doubt.status.code(), Some(4), "{doubt:?}");
        let held = harness.arm(point, Some(point));
        let words = ["--did-not-happen"];
        let (settled, held) = tokio::join!(place.settle(point, &words), async {
            let held = held.until_held().await?;
            server.process.sigkill()?;
            anyhow::Ok(held)
        });
        drop(held?);
        assert_eq!(settled?.status.code(), Some(8), "the answer is lost");
        server = serve().await?;

        let again = place.settle(point, &words).await?;

        ensure!(again.status.success(), "{point}: {again:?}");
        let acts = "SELECT count(*) FROM audit WHERE action = 'once.settle'";
        assert_eq!(count(&home.connect().await?, acts).await?, index + 1);
        assert_eq!(place.show(point).await?["state"], "failed");
    }
    invariants::hold(&home, &[&server]).await
}
