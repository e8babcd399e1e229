//! The suite: what every executor makes of an answer, of a refusal, and of silence.
//!
//! ```text
//! connect ── greet or shake hands ── request sent ── the destination acts ── answer
//!    └────────── failed ──────────────┘└──────────── in doubt ───────────┘└─ done
//! ```

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use semel_model::{EffectId, Fault, Outcome, Receipt, RunId, Span};
use semel_steps::{Attempt, Executors, Reach, Route};
use semel_testkit::{Cut, Proxy, patience};
use tokio::time::{Instant, sleep};

use super::subject::{AskedFor, At, Repeat, Subject, Wanted};
use crate::http::stage::Open;

/// How long an attempt may take that is to end by itself.
const LONG: Span = Span::from_const_secs(30);

/// How long an attempt may take whose answer does not come: long enough for the request to arrive,
/// and shorter than the slowest server takes to answer.
const SHORT: Span = Span::from_const_secs(4);

/// How long an attempt may take whose destination does not even greet.
const SHORTEST: Span = Span::from_const_secs(1);

pub(crate) async fn perform<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::start().await?;

    let receipt = done(stage.attempt("a", Wanted::Done, LONG).await?);

    assert!(!receipt.response.is_null(), "{receipt:?}");
    assert_eq!(stage.subject.effects().await?, 1);
    Ok(())
}

pub(crate) async fn refuse<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::start().await?;

    let fault = failed(stage.attempt("a", Wanted::Refused, LONG).await?);

    assert!(!fault.retryable, "{fault:?}");
    assert_eq!(stage.subject.effects().await?, 0);
    Ok(())
}

pub(crate) async fn time_out_before_sending<S: Subject>() -> Result<()> {
    let mut stage = Stage::<S>::start().await?;
    stage.at.encrypted = true;
    stage.proxy.hold_answers();

    let fault = failed(stage.attempt("a", Wanted::Done, SHORTEST).await?);
    stage.proxy.resume();
    sleep(Duration::from_millis(200)).await;

    assert!(fault.retryable, "{fault:?}");
    assert_eq!(stage.subject.effects().await?, 0);
    Ok(())
}

pub(crate) async fn time_out_after_sending<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::start().await?;
    stage.subject.hold_answer(&stage.proxy);

    let outcome = stage.attempt("a", Wanted::Slow, SHORT).await?;

    assert!(matches!(outcome, Outcome::InDoubt(_)), "{outcome:?}");
    assert_eq!(stage.subject.effects().await?, 1);
    Ok(())
}

pub(crate) async fn lose_answer<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::start().await?;
    stage.subject.hold_answer(&stage.proxy);

    let cutting = async {
        let acted = stage.until_effects(1).await;
        stage.proxy.cut(Cut::Reset);
        acted
    };
    let (outcome, acted) = tokio::join!(stage.attempt("a", Wanted::Slow, LONG), cutting);
    let outcome = outcome?;

    acted?;
    assert!(matches!(outcome, Outcome::InDoubt(_)), "{outcome:?}");
    assert_eq!(stage.subject.effects().await?, 1);
    Ok(())
}

pub(crate) async fn answer_late<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::start().await?;
    stage.subject.hold_answer(&stage.proxy);

    let letting_go = async {
        let acted = stage.until_effects(1).await;
        sleep(Duration::from_millis(500)).await;
        stage.proxy.resume();
        acted
    };
    let (outcome, acted) = tokio::join!(stage.attempt("a", Wanted::Slow, LONG), letting_go);

    acted?;
    done(outcome?);
    assert_eq!(stage.subject.effects().await?, 1);
    Ok(())
}

pub(crate) async fn answer_too_late<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::start().await?;
    stage.subject.hold_answer(&stage.proxy);
    let late = stage.attempt("a", Wanted::Slow, SHORT).await?;
    stage.proxy.resume();

    // The next request comes while the answer to the one before is on its way, or just came.
    let refused = stage.attempt("b", Wanted::Refused, LONG).await?;
    let next = stage.attempt("c", Wanted::Done, LONG).await?;

    assert!(matches!(late, Outcome::InDoubt(_)), "{late:?}");
    failed(refused);
    done(next);
    assert_eq!(stage.subject.effects().await?, 2);
    Ok(())
}

pub(crate) async fn repeat<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::start().await?;

    done(stage.attempt("a", Wanted::Done, LONG).await?);
    done(stage.attempt("a", Wanted::Done, LONG).await?);

    match S::REPEAT {
        Repeat::Once => assert_eq!(stage.subject.effects().await?, 1),
        Repeat::Again(reason) => assert_eq!(stage.subject.effects().await?, 2, "{reason}"),
    }
    Ok(())
}

/// A server, a proxy before it, and the executors that the engine uses.
struct Stage<S> {
    subject: S,
    proxy: Proxy,
    at: At,
    executors: Executors,
}

impl<S: Subject> Stage<S> {
    async fn start() -> Result<Self> {
        let subject = S::start().await?;
        let proxy = Proxy::start(subject.server()).await?;
        let at = At {
            address: proxy.address(),
            encrypted: false,
        };
        Ok(Self {
            subject,
            proxy,
            at,
            executors: Executors::new(Arc::new(Open), &Reach::open())?,
        })
    }

    /// Makes one attempt, as the engine does.
    async fn attempt(&self, name: &str, wanted: Wanted, timeout: Span) -> Result<Outcome> {
        let to = self.subject.destination(self.at, wanted)?;
        let request = self.subject.request(self.at, wanted, timeout);
        let route = Route {
            namespace_id: to.namespace_id,
            to: Some(&to),
            origin: None,
        };
        Ok(match S::ASKED_FOR {
            AskedFor::Effects(guard) => {
                let attempt = Attempt {
                    request: &request,
                    route,
                    key: key(name),
                    guard,
                };
                self.executors.perform(attempt).await
            }
            AskedFor::Reads => self.executors.read(route, &request).await,
        })
    }

    async fn until_effects(&self, count: usize) -> Result<()> {
        let deadline = Instant::now() + patience();
        while self.subject.effects().await? < count {
            ensure!(Instant::now() < deadline, "the destination did not act");
            sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

fn key(name: &str) -> EffectId {
    let run = RunId::from_uuid(uuid::Uuid::from_u128(7));
    EffectId::derive(run, name, "", 0)
}

#[track_caller]
fn done(outcome: Outcome) -> Receipt {
    match outcome {
        Outcome::Done(receipt) => receipt,
        Outcome::Failed(_) | Outcome::InDoubt(_) => panic!("not done: {outcome:?}"),
    }
}

#[track_caller]
fn failed(outcome: Outcome) -> Fault {
    match outcome {
        Outcome::Failed(fault) => fault,
        Outcome::Done(_) | Outcome::InDoubt(_) => panic!("not failed: {outcome:?}"),
    }
}
