//! The others without a backlog: a closed loop of callers that keep the server as busy.
//!
//! They have a thread and a runtime of their own, so that the quiet runs are not timed by a runtime
//! that is busy with the others.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::load::{self, Keys, Poster, Slice, Target};
use crate::meters::Meters;

/// How many callers are tried. More would be more than a server holds of one namespace: a backlog.
const CALLERS: [usize; 7] = [8, 16, 32, 64, 128, 256, 512];

/// The part of what is wanted that is near enough: the machine varies by as much.
const NEAR: f64 = 0.9;

/// How long each number is tried.
const TRY: Duration = Duration::from_secs(3);

/// Lets callers start runs and wait for them, for a while.
pub(super) fn start(
    target: Arc<Target>,
    callers: usize,
    tag: String,
    lasts: Duration,
) -> JoinHandle<Result<Slice>> {
    spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let crowd = Poster::crowd(&target, callers, Keys::Unique, &tag).await?;
            load::run(crowd, lasts).await
        })
    })
}

/// How many callers keep server and PostgreSQL about as busy as `wanted`, in cores.
pub(super) async fn calibrate(target: &Arc<Target>, meters: &Meters, wanted: f64) -> Result<usize> {
    let mut tried = Vec::new();
    for callers in CALLERS {
        let before = meters.read(Some(target.process)).await?;
        let slice = start(target.clone(), callers, format!("try-{callers}"), TRY).await??;
        let used = meters.read(Some(target.process)).await?.since(&before);
        let cores = (used.server_s + used.postgres_s) / slice.elapsed.as_secs_f64();
        eprintln!(
            "{callers} callers: {:.0} runs/s, {cores:.2} cores of server and PostgreSQL, {wanted:.2} wanted",
            slice.rate()
        );
        tried.push((callers, cores));
        if cores >= wanted * NEAR {
            break;
        }
    }
    Ok(fewest(&tried, wanted))
}

/// The fewest callers that come near to what is wanted, or to the most that any of them reached. Each caller more
/// has its run in flight as well and makes every run wait for it, which would make the load look slower, and so
/// the backlog better, than it is.
fn fewest(tried: &[(usize, f64)], wanted: f64) -> usize {
    let most = tried.iter().map(|(_, cores)| *cores).fold(0.0, f64::max);
    let enough = match most >= wanted * NEAR {
        true => wanted * NEAR,
        false => most * NEAR,
    };
    let mut near = tried.iter().filter(|(_, cores)| *cores >= enough);
    near.next().map_or(CALLERS[0], |(callers, _)| *callers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_few_callers_as_keep_the_server_about_as_busy() {
        let tried = [(8, 0.9), (16, 1.2), (32, 1.45), (64, 1.48), (128, 1.5)];

        assert_eq!(fewest(&tried, 1.5), 32);
        assert_eq!(fewest(&tried, 1.9), 32, "no number reaches more");
        assert_eq!(fewest(&tried, 0.5), 8);
        let unsteady = [(8, 0.68), (16, 0.73), (32, 0.72), (64, 0.8)];
        assert_eq!(fewest(&unsteady, 0.86), 64, "the first that is near to it");
    }
}
