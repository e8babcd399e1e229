//! The suite: what every executor makes of an answer, of a refusal, and of silence.
//!
//! ```text
//! connect ── greet or shake hands ── request sent ── the destination acts ── answer
//!    └────────── failed ──────────────┘└──────────── in doubt ───────────┘└─ done
//! ```

use std::sync::Arc;

use anyhow::Result;
use semel_model::{EffectId, Fault, Outcome, Receipt, RunId, Span};
use semel_steps::{Attempt, Executors, Reach, Route};
use semel_testkit::{Cut, Proxy, until};

use super::subject::{AskedFor, At, Repeat, Subject, Wanted};
use crate::http::stage::Open;

/// How long an attempt may take that is to end by itself.
const LONG: Span = Span::from_const_secs(100);

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

    // No greeting comes, however long it is.
    let limit = Span::from_millis(300);
    let fault = failed(stage.attempt("a", Wanted::Done, limit).await?);
    stage.proxy.resume();
    stage.at.encrypted = false;
    done(stage.attempt("b", Wanted::Done, LONG).await?);

    assert!(fault.retryable, "{fault:?}");
    assert_eq!(stage.subject.effects().await?, 1, "the second alone");
    Ok(())
}

pub(crate) async fn time_out_after_sending<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::start().await?;
    stage.subject.hold_answer(&stage.proxy);

    let acts = stage.give_up_waiting().await?;

    stage.until_effects(acts).await?;
    assert_eq!(stage.subject.effects().await?, acts);
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
        stage.until_effects(1).await?;
        stage.subject.let_answer_go(&stage.proxy)
    };
    let (outcome, let_go) = tokio::join!(stage.attempt("a", Wanted::Slow, LONG), letting_go);

    let_go?;
    done(outcome?);
    assert_eq!(stage.subject.effects().await?, 1);
    Ok(())
}

pub(crate) async fn answer_too_late<S: Subject>() -> Result<()> {
    let stage = Stage::<S>::start().await?;
    stage.subject.hold_answer(&stage.proxy);
    let acts = stage.give_up_waiting().await?;
    stage.subject.let_answer_go(&stage.proxy)?;

    // The next request comes while the answer to the one before is on its way, or just came.
    let refused = stage.attempt("b", Wanted::Refused, LONG).await?;
    let next = stage.attempt("c", Wanted::Done, LONG).await?;

    failed(refused);
    done(next);
    stage.until_effects(acts + 1).await?;
    assert_eq!(stage.subject.effects().await?, acts + 1);
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

    /// Makes attempts until one ends in doubt; gives how often the destination acts because of them.
    ///
    /// On a slow machine an attempt may be over before its request is sent: the next has a second more. On one that
    /// stands still for seconds, the answer of a server that cannot be held may come before that.
    async fn give_up_waiting(&self) -> Result<usize> {
        let (mut tried, mut acts) = (0, 0);
        let attempt = async || -> Result<Outcome> {
            tried += 1;
            let name = format!("late-{tried}");
            let limit = Span::from_secs(tried);
            let outcome = self.attempt(&name, Wanted::Slow, limit).await?;
            acts += usize::from(!matches!(outcome, Outcome::Failed(_)));
            Ok(outcome)
        };
        let is_in_doubt = |outcome: &Outcome| matches!(outcome, Outcome::InDoubt(_));
        until("an attempt whose answer is too late", attempt, is_in_doubt).await?;
        Ok(acts)
    }

    async fn until_effects(&self, count: usize) -> Result<()> {
        let look = async || self.subject.effects().await;
        until("the destination to act", look, |effects| *effects >= count).await?;
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
