//! Settling: what an attempt's outcome means under the effect's guard. Pure.
//!
//! Done stays done, and failed stays failed, except an effect that an operator failed while it was
//! in doubt ([`doubted_again`]). The guard says how a doubt is settled:
//!
//! | guard | a doubt is settled by |
//! |---|---|
//! | `transaction` here | the journal itself: no outcome there means that nothing was committed |
//! | `transaction` elsewhere | performing it again, which finds the destination's marker |
//! | `key` | the same key and the same bytes again, while the destination remembers the key |
//! | `natural`, `repeat` | performing it again |
//! | `probe` | asking the destination |
//! | `review` | an operator |
//!
//! A refusal of a repeat settles an earlier attempt as failed only where the destination refused
//! *after it looked*: at its marker ([`Looked::AtMarker`]), or at the key, by one of the statuses
//! that its connection lists. Authentication, gateways and rate limits come before both and know
//! nothing of earlier attempts: their refusals leave the doubt as it is.

use jiff::Timestamp;
use semel_flow::release::{Ask, Method, StepGuard};
use semel_flow::{Action, Step};
use semel_model::effect::{Effect, Licence, Pending, Retrying};
use semel_model::event::{DoubtPlan, Event};
use semel_model::{
    Doubt, Fault, FaultKind, Guard, Looked, Outcome, RetryPolicy, SeededBug, SettledBy, Span,
};

/// How long before the end of a destination's key window the last repeat may be sent: a request
/// may be in flight for as long as the longest timeout.
const KEY_WINDOW_MARGIN: Span = Span::from_const_secs(600);

/// How long to rest where a destination has no room and does not say for how long.
const ROOM_PAUSE: Span = Span::from_const_secs(1);

/// How long to rest after the first probe that found nothing too early; each further rest is twice
/// as long, up to [`PROBE_DOUBLINGS_MAX`] times.
const PROBE_PAUSE: Span = Span::from_const_secs(5);

const PROBE_DOUBLINGS_MAX: u32 = 4;

/// What an attempt is judged by, besides its outcome.
#[derive(Clone, Copy, Debug)]
pub struct SettleContext<'a> {
    /// The step.
    pub step: &'a Step,
    /// How long the destination remembers the key, where its connection said so at the intent.
    pub window: Option<Span>,
    /// How many attempts the destination's limits held back.
    pub held_back: u32,
    /// When the effect's first intent was written.
    pub since: Timestamp,
    /// How long pauses took since then.
    pub deferred: Span,
    /// From when on nothing of the latest attempt can land any more.
    pub landed_by: Timestamp,
    /// From when on the latest attempt may be repeated where its worker was lost: what that worker sent may be on its way
    /// until then.
    pub repeat_from: Timestamp,
    /// The HTTP statuses with which the destination refuses only after it has looked up the key.
    pub final_refusals: &'a [u16],
    /// Now.
    pub now: Timestamp,
    /// A fraction from 0 to 1, for the jitter.
    pub jitter: f64,
}

/// What an outcome that is not *done* means; nothing when it means *done* after all.
pub fn settle(
    context: SettleContext<'_>,
    effect: &Effect<Pending>,
    outcome: &Outcome,
) -> Option<Event> {
    match outcome {
        Outcome::Done(_) => None,
        Outcome::Failed(fault) => settle_failed(context, effect, fault),
        Outcome::InDoubt(doubt) if SeededBug::DoubtTakenForFailure.is_seeded() => {
            let fault = Fault::permanent(doubt.code.clone(), doubt.message.clone());
            settle_failed(context, effect, &fault)
        }
        Outcome::InDoubt(doubt) => Some(settle_doubt(context, effect, doubt.clone())),
    }
}

/// What an intent without an outcome means, when it is found by another worker than the one that
/// wrote it: it may have been carried out. It is not repeated before a lease has passed, however soon its worker is
/// known dead, unless it commits in Semel's own database.
pub fn found_pending(context: SettleContext<'_>, effect: &Effect<Pending>) -> Event {
    let doubt = Doubt::new(
        "worker-lost",
        "the worker was lost between intent and outcome",
    );
    let plan = context.plan_unknown(effect, context.repeat_from);
    doubted(context.step, doubt, plan)
}

/// What an effect is when its run is resumed after an operator failed it in doubt: a doubt again.
/// The operator did not say that it did not happen.
pub fn doubted_again(
    context: SettleContext<'_>,
    effect: &Effect<Retrying>,
    settled_by: SettledBy,
) -> Event {
    let fault = &effect.state().fault;
    let message = format!("an operator failed it while in doubt: {}", fault.message);
    let doubt = Doubt {
        settled_by,
        ..Doubt::new("given-up", message)
    };
    let plan = match settled_by {
        SettledBy::Operator => DoubtPlan::Review,
        SettledBy::Guard => context.plan_unknown(effect, context.now),
    };
    doubted(context.step, doubt, plan)
}

fn settle_failed(
    context: SettleContext<'_>,
    effect: &Effect<Pending>,
    fault: &Fault,
) -> Option<Event> {
    if effect.doubted() {
        // An earlier attempt may have happened. A refusal of this one says something about that one
        // only where the destination looked.
        match (effect.guard(), fault.kind) {
            (Guard::Natural, FaultKind::Http(404 | 410)) if context.deletes() => return None,
            // The destination still works on the first request with this key.
            (Guard::Key, FaultKind::Http(409)) => {
                return Some(settle_doubt(context, effect, fault.to_doubt()));
            }
            // The marker was looked for first and was absent: no earlier attempt had committed.
            (Guard::Transaction, _) if fault.looked == Looked::AtMarker => {}
            // A destination that looked the key up would have returned its first answer.
            (Guard::Key, _) if context.is_final(fault) => {}
            _ if !fault.retryable => {
                let message = format!("{}, after an attempt in doubt", fault.message);
                let doubt = Doubt {
                    message,
                    retry_after: None,
                    ..fault.to_doubt()
                };
                return Some(doubted(context.step, doubt, DoubtPlan::Review));
            }
            _ => {}
        }
    }
    let delay = match fault.is_held_back() {
        true => context.wait_for_room(fault.retry_after),
        false => fault
            .retryable
            .then(|| context.delay(effect.attempt(), fault.retry_after))
            .flatten(),
    };
    if delay.is_none() && fault.retryable && effect.doubted() {
        let doubt = Doubt {
            retry_after: None,
            ..fault.to_doubt()
        };
        return Some(doubted(context.step, doubt, DoubtPlan::Review));
    }
    // Beyond the window a repeat would be a first request again.
    if let Some(delay) = delay
        && effect.doubted()
        && effect.guard() == Guard::Key
        && !context.key_is_remembered(context.now + delay.to_duration())
    {
        return Some(doubted(context.step, fault.to_doubt(), DoubtPlan::Review));
    }
    Some(Event::Failed {
        step: context.step.id.to_string(),
        fault: fault.clone(),
        retry_at: delay.map(|delay| context.now + delay.to_duration()),
    })
}

fn settle_doubt(context: SettleContext<'_>, effect: &Effect<Pending>, doubt: Doubt) -> Event {
    let repeat = |licence| match context.delay(effect.attempt(), doubt.retry_after) {
        Some(delay) => DoubtPlan::Repeat {
            at: context.now + delay.to_duration(),
            licence,
        },
        None => DoubtPlan::Review,
    };
    if doubt.settled_by == SettledBy::Operator {
        return doubted(context.step, doubt, DoubtPlan::Review);
    }
    let plan = match effect.guard() {
        Guard::Transaction if context.step.commits_here() => DoubtPlan::Repeat {
            at: context.now,
            licence: Licence::Uncommitted,
        },
        Guard::Transaction => repeat(Licence::Marker),
        Guard::Key => match repeat(Licence::Key) {
            DoubtPlan::Repeat { at, .. } if !context.key_is_remembered(at) => DoubtPlan::Review,
            plan @ (DoubtPlan::Repeat { .. } | DoubtPlan::Probe { .. } | DoubtPlan::Review) => plan,
        },
        Guard::Natural => repeat(Licence::Natural),
        Guard::Repeat => repeat(Licence::Repeat),
        Guard::Probe => context.probe(effect, context.now),
        Guard::Review if SeededBug::RetryWithoutGuard.is_seeded() => repeat(Licence::Repeat),
        Guard::Review => DoubtPlan::Review,
    };
    doubted(context.step, doubt, plan)
}

/// The time in which the destination remembers the key is over before the repeat could leave.
pub fn too_late(step: &Step, doubt: &Doubt) -> Event {
    let doubt = Doubt {
        message: format!("{}; the key may be forgotten by now", doubt.message),
        retry_after: None,
        ..doubt.clone()
    };
    doubted(step, doubt, DoubtPlan::Review)
}

fn doubted(step: &Step, doubt: Doubt, plan: DoubtPlan) -> Event {
    Event::Doubted {
        step: step.id.to_string(),
        doubt,
        plan,
    }
}

impl<'a> SettleContext<'a> {
    /// What anything that is no effect is judged by: it may simply be made again.
    pub fn of_read(step: &'a Step, since: Timestamp, now: Timestamp, jitter: f64) -> Self {
        Self {
            step,
            window: None,
            held_back: 0,
            since,
            deferred: Span::from_millis(0),
            landed_by: now,
            repeat_from: now,
            final_refusals: &[],
            now,
            jitter,
        }
    }

    /// How long to rest before attempt number `attempt + 1`, where there may be one.
    pub fn delay(&self, attempt: u32, asked: Option<Span>) -> Option<Span> {
        let policy: RetryPolicy = self.step.retry;
        policy.delay(
            attempt.saturating_sub(self.held_back).max(1),
            self.waited(),
            self.jitter,
            asked,
        )
    }

    /// How long to rest before the destination is asked for room again: what it said, and up to as
    /// much again as jitter. Only the time limit ends this, not the attempts.
    pub fn wait_for_room(&self, asked: Option<Span>) -> Option<Span> {
        let least = asked.unwrap_or(ROOM_PAUSE).as_millis().max(1);
        let spread = (least as f64 * self.jitter.clamp(0.0, 1.0)) as u64;
        (self.waited() < self.step.retry.within).then(|| Span::from_millis(least + spread))
    }

    /// How long the step has been at it, pauses aside.
    fn waited(&self) -> Span {
        let waited = span_between(self.since, self.now).as_millis();
        Span::from_millis(waited.saturating_sub(self.deferred.as_millis()))
    }

    pub(crate) fn key_is_remembered(&self, at: Timestamp) -> bool {
        let Some(window) = self.window.or_else(|| self.step.guard.window(None)) else {
            return false;
        };
        // A short window keeps a tenth of itself as margin, a long one ten minutes.
        let margin = KEY_WINDOW_MARGIN.as_millis().min(window.as_millis() / 10);
        span_between(self.since, at).as_millis() + margin < window.as_millis()
    }

    /// How to settle an effect of which nothing is known since its intent, from `from` on. It uses up none of the
    /// author's attempts.
    fn plan_unknown<S>(&self, effect: &Effect<S>, from: Timestamp) -> DoubtPlan {
        let at = self.now.max(from);
        let repeat = |licence| DoubtPlan::Repeat { at, licence };
        match effect.guard() {
            // The journal itself says that nothing was committed, and what was sent late is refused by the fence.
            Guard::Transaction if self.step.commits_here() => DoubtPlan::Repeat {
                at: self.now,
                licence: Licence::Uncommitted,
            },
            Guard::Transaction => repeat(Licence::Marker),
            Guard::Key if self.key_is_remembered(at) => repeat(Licence::Key),
            Guard::Natural => repeat(Licence::Natural),
            Guard::Repeat => repeat(Licence::Repeat),
            Guard::Probe => self.probe(effect, from),
            Guard::Key | Guard::Review => DoubtPlan::Review,
        }
    }

    /// When the destination is asked, and from when on it is believed that there is nothing: not before `from`.
    fn probe<S>(&self, effect: &Effect<S>, from: Timestamp) -> DoubtPlan {
        let StepGuard::Probe(probe) = &self.step.guard else {
            return DoubtPlan::Review;
        };
        let at = self.now + probe.after.to_duration();
        // The marker of a command lets it begin once, however often it is sent. Only after the last
        // attempt must Semel know that none is still in flight.
        let meets_marker = probe.ask == Ask::Marker && effect.attempt() < self.step.retry.attempts;
        let absent_from = match probe.because.is_some() || meets_marker {
            true => at,
            false => self.landed_by.max(at),
        };
        DoubtPlan::Probe {
            at,
            absent_from: Some(absent_from.max(from)),
        }
    }

    /// Whether the destination refused after it had looked up the key.
    fn is_final(&self, fault: &Fault) -> bool {
        fault
            .http_status()
            .is_some_and(|status| self.final_refusals.contains(&status))
    }

    fn deletes(&self) -> bool {
        matches!(&self.step.action, Action::Http(request) if request.method == Method::Delete)
    }
}

/// When a probe asks again that found nothing too early: later each time, and once more when that
/// will be believed.
pub fn next_probe(now: Timestamp, absences: u32, absent_from: Timestamp) -> Timestamp {
    let pause = PROBE_PAUSE.as_millis() << absences.min(PROBE_DOUBLINGS_MAX);
    absent_from.min(now + Span::from_millis(pause).to_duration())
}

/// The time from one instant to a later one; zero when it is not later.
pub(crate) fn span_between(earlier: Timestamp, later: Timestamp) -> Span {
    let millis = later.as_millisecond() - earlier.as_millisecond();
    Span::from_millis(u64::try_from(millis).unwrap_or(0))
}

#[cfg(test)]
mod tests;
