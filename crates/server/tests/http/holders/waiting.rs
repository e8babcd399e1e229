//! Claims that wait: one token has so many, and another one's wait all the same.

use anyhow::{Context, Result};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use semel_api::types::ClaimedTasks;
use semel_api::{ClientError, Code};
use semel_model::Span;
use semel_testkit::{patience, until_some};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::worker;
use super::workers::{claim, open};
use crate::world::{World, patience_span, refused};

/// What the documentation says.
const MOST: usize = 64;

/// How many more there are.
const BEYOND: usize = 9;

type Claimed = Result<ClaimedTasks, ClientError>;

/// What the next claim gets that is answered.
async fn next(waiting: &mut FuturesUnordered<JoinHandle<Claimed>>) -> Result<Claimed> {
    let answered = timeout(patience(), waiting.next()).await?;
    Ok(answered.context("a claim that waits")??)
}

#[tokio::test]
async fn one_token_has_a_bounded_number_of_claims_that_wait() -> Result<()> {
    let world = World::start().await?;
    let (greedy, other) = (worker(&world, "a").await?, worker(&world, "b").await?);
    let (long, short) = (patience_span(), Span::from_millis(20));
    let mut waiting: FuturesUnordered<_> = (0..MOST + BEYOND)
        .map(|number| {
            let greedy = greedy.clone();
            let asked = claim("images", long);
            tokio::spawn(async move { greedy.claim_tasks(&asked, &format!("w-{number}")).await })
        })
        .collect();

    // All others wait for as long as the test does.
    for _ in 0..BEYOND {
        let refusal = next(&mut waiting).await?;
        assert_eq!(refused(refusal)?, Code::TooManyRequests);
    }
    let at_once = greedy
        .claim_tasks(&claim("images", Span::from_secs(0)), "now")
        .await?;
    let others = other.claim_tasks(&claim("images", short), "other").await?;
    open(&world, "images", "key").await?;
    let served = next(&mut waiting).await??;
    open(&world, "mails", "key").await?;
    let free = until_some("a place for a claim that waits", async || {
        let mails = greedy.claim_tasks(&claim("mails", short), "mails").await;
        Ok(mails.ok().filter(|it| !it.tasks.is_empty()))
    })
    .await?;

    assert!(
        at_once.tasks.is_empty(),
        "one that does not wait is answered"
    );
    assert!(others.tasks.is_empty(), "another token waits");
    assert_eq!(served.tasks.len(), 1, "a task reaches a claim that waits");
    assert_eq!(free.tasks[0].queue, "mails");
    for claim in &waiting {
        claim.abort();
    }
    Ok(())
}
