//! The stage: answers requests from the examples, counts what arrives, and ends processes.
//!
//! Counting is the destination's: a `PUT` or `DELETE` of the same target and body is one effect, a
//! request under a key that the connection honours is one per key, and so is a marker. Anything else
//! counts each time it arrives.

mod log;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::future::BoxFuture;
use semel_engine::{CrashPoint, CrashPoints};
use semel_model::request::{ExternalRequest, StepRequest};
use semel_model::{EffectId, Fault, FaultKind, Guard, Outcome};
use semel_steps::{Attempt, DestinationStage, Origin, Route};
use serde_json::Value;
use tokio::sync::Semaphore;

pub(crate) use log::{Arrival, Asked, CaseLog};

use crate::answer;
use crate::fault::{FaultClass, RehearsedFault};

/// The part of the stage that one case plays on.
pub(crate) struct CaseStage {
    /// What is answered, by step.
    pub(crate) answers: Arc<BTreeMap<String, Value>>,
    /// The steps that have a probe.
    pub(crate) probed: Arc<BTreeSet<String>>,
    /// What goes wrong.
    pub(crate) fault: RehearsedFault,
    log: std::sync::Mutex<CaseLog>,
    late: Semaphore,
}

/// What the stage does with an attempt.
enum Reaction {
    Answer(Outcome),
    AnswerLate(Outcome),
}

impl CaseStage {
    pub(crate) fn new(
        answers: Arc<BTreeMap<String, Value>>,
        probed: Arc<BTreeSet<String>>,
        fault: RehearsedFault,
    ) -> Self {
        Self {
            answers,
            probed,
            fault,
            log: std::sync::Mutex::default(),
            late: Semaphore::new(0),
        }
    }

    /// What was seen of the case.
    pub(crate) fn log(&self) -> std::sync::MutexGuard<'_, CaseLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets an answer go that was held back.
    pub(crate) fn release_late(&self) {
        self.log().late_waiting = false;
        self.late.add_permits(1);
    }

    fn answer(&self, name: &str) -> Option<&Value> {
        self.answers.get(name)
    }

    fn arrive(&self, attempt: &Attempt<'_>, origin: Origin<'_>) -> Reaction {
        let mut log = self.log();
        log.attempts
            .push((origin.run, origin.step.to_owned(), attempt.key));
        let nth = log.nth_comer(origin);
        if !log.refused && self.fault.refuses(origin.step, nth) {
            log.refused = true;
            return Reaction::Answer(answer::refusal());
        }
        let strikes = !log.used && self.fault.is_at(origin.step, nth);
        let struck_by = |classes: &[FaultClass]| strikes && classes.contains(&self.fault.class);
        if struck_by(&[FaultClass::AnswerLostBefore, FaultClass::SecondIntent]) {
            log.used = true;
            return Reaction::Answer(answer::lost());
        }
        if struck_by(&[FaultClass::EffectRefused]) {
            log.used = true;
            return Reaction::Answer(answer::refusal());
        }
        let outcome = answer::outcome(attempt.request, self.answer(origin.step));
        if let Outcome::Failed(_) = outcome {
            return Reaction::Answer(outcome);
        }
        let sequence = log.arrivals.len();
        log.arrivals.push(Arrival {
            run: origin.run,
            step: origin.step.to_owned(),
            counts_as: counts_as(attempt, sequence),
            repeats_allowed: attempt.guard == Guard::Repeat,
        });
        if struck_by(&[FaultClass::AnswerLostAfter]) {
            log.used = true;
            return Reaction::Answer(answer::lost());
        }
        if struck_by(&[FaultClass::AnswerLate, FaultClass::AnswerVeryLate]) {
            log.used = true;
            log.late_waiting = true;
            return Reaction::AnswerLate(outcome);
        }
        Reaction::Answer(outcome)
    }

    fn ask(&self, origin: Origin<'_>, request: &ExternalRequest) -> Outcome {
        if !self.probed.contains(origin.step) {
            return answer::outcome(request, self.answer(origin.step));
        }
        let name = format!("{}.probe", origin.step);
        let mut log = self.log();
        let found = log.performed(origin);
        log.asked.push(Asked {
            step: origin.step.to_owned(),
            request: describe(request),
        });
        let which = if found { "found" } else { "absent" };
        match self.answer(&name).and_then(|answer| answer.get(which)) {
            Some(answer) => answer::outcome(request, Some(answer)),
            None => {
                log.unanswered_probes.insert(origin.step.to_owned());
                let message = format!("the example has no answer {which} of {name}");
                Outcome::Failed(Fault::permanent("no-answer", message))
            }
        }
    }

    fn find_marker(&self, origin: Origin<'_>, request: &ExternalRequest) -> Outcome {
        let log = self.log();
        match log.performed(origin) {
            true => answer::outcome(request, self.answer(origin.step)),
            false => {
                let fault = Fault::permanent("marker-absent", "there is no marker");
                Outcome::Failed(fault.of(FaultKind::MarkerAbsent))
            }
        }
    }

    /// Notes that a commit point was reached; whether the process ends there.
    fn ends_at(&self, point: &CrashPoint<'_>) -> bool {
        let mut log = self.log();
        let nth = log.reach(point.name, point.step);
        let (class, Some(spot)) = (self.fault.class, &self.fault.at) else {
            return false;
        };
        let ends = match class {
            FaultClass::Crash => {
                spot.point.as_deref() == Some(point.name)
                    && spot.step == point.step
                    && spot.nth == nth
            }
            // Before the run's first write: both callbacks come while nobody can read the first.
            FaultClass::CallbackContradicted => !point.name.starts_with("accept."),
            FaultClass::None
            | FaultClass::DeliveryAtOnce
            | FaultClass::DeliveryInARow
            | FaultClass::DeliveryAfterEnd
            | FaultClass::DeliveryOtherPayload
            | FaultClass::AnswerLostBefore
            | FaultClass::AnswerLostAfter
            | FaultClass::AnswerLate
            | FaultClass::AnswerVeryLate
            | FaultClass::CallbackEarly
            | FaultClass::CallbackTwice
            | FaultClass::CallbackLate
            | FaultClass::ApprovalTwice
            | FaultClass::ApprovalContradicted
            | FaultClass::ItemTwice
            | FaultClass::EffectRefused
            | FaultClass::SecondIntent => false,
        };
        let ends = ends && !log.used;
        log.used |= ends;
        log.delivery_died |= ends && point.name.starts_with("accept.");
        ends
    }
}

/// The stages of all cases, by namespace.
#[derive(Default)]
pub(crate) struct Hall {
    cases: RwLock<HashMap<i32, Arc<CaseStage>>>,
}

impl Hall {
    pub(crate) fn add(&self, namespace_id: i32, stage: Arc<CaseStage>) {
        let mut cases = self.cases.write().unwrap_or_else(PoisonError::into_inner);
        cases.insert(namespace_id, stage);
    }

    fn find(&self, namespace_id: i32) -> Option<Arc<CaseStage>> {
        let cases = self.cases.read().unwrap_or_else(PoisonError::into_inner);
        cases.get(&namespace_id).cloned()
    }
}

/// The stage as one process sees it: it knows what of the process stands still.
pub(crate) struct ProcessStage {
    hall: Arc<Hall>,
    held: AtomicUsize,
    held_deliveries: AtomicUsize,
}

impl ProcessStage {
    pub(crate) fn new(hall: Arc<Hall>) -> Self {
        Self {
            hall,
            held: AtomicUsize::new(0),
            held_deliveries: AtomicUsize::new(0),
        }
    }

    /// How many runs and deliveries of the process stand still.
    pub(crate) fn count_held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }

    /// How many of them are deliveries.
    pub(crate) fn count_held_deliveries(&self) -> usize {
        self.held_deliveries.load(Ordering::Acquire)
    }

    fn case(&self, route: Route<'_>) -> Option<Arc<CaseStage>> {
        self.hall.find(route.namespace_id)
    }
}

impl DestinationStage for ProcessStage {
    fn perform<'a>(&'a self, attempt: Attempt<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let (Some(case), Some(origin)) = (self.case(attempt.route), attempt.route.origin)
            else {
                return off_stage();
            };
            match case.arrive(&attempt, origin) {
                Reaction::Answer(outcome) => outcome,
                Reaction::AnswerLate(outcome) => {
                    self.held.fetch_add(1, Ordering::AcqRel);
                    // Closed by nothing: the process ends instead.
                    let _ = case.late.acquire().await;
                    self.held.fetch_sub(1, Ordering::AcqRel);
                    outcome
                }
            }
        })
    }

    fn read<'a>(
        &'a self,
        route: Route<'a>,
        request: &'a ExternalRequest,
    ) -> BoxFuture<'a, Outcome> {
        let outcome = match (self.case(route), route.origin) {
            (Some(case), Some(origin)) => case.ask(origin, request),
            (None, _) | (_, None) => off_stage(),
        };
        Box::pin(std::future::ready(outcome))
    }

    fn find_marker<'a>(
        &'a self,
        route: Route<'a>,
        request: &'a ExternalRequest,
        _: EffectId,
    ) -> BoxFuture<'a, Outcome> {
        let outcome = match (self.case(route), route.origin) {
            (Some(case), Some(origin)) => case.find_marker(origin, request),
            (None, _) | (_, None) => off_stage(),
        };
        Box::pin(std::future::ready(outcome))
    }
}

impl CrashPoints for ProcessStage {
    fn reach<'a>(&'a self, point: CrashPoint<'a>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let case = self.hall.find(point.namespace_id);
            if case.is_some_and(|case| case.ends_at(&point)) {
                self.held.fetch_add(1, Ordering::AcqRel);
                if point.name.starts_with("accept.") {
                    self.held_deliveries.fetch_add(1, Ordering::AcqRel);
                }
                std::future::pending::<()>().await;
            }
        })
    }
}

fn off_stage() -> Outcome {
    let message = "a request that belongs to no case of the rehearsal";
    Outcome::Failed(Fault::permanent("no-executor", message))
}

/// What makes two arrivals one effect.
fn counts_as(attempt: &Attempt<'_>, sequence: usize) -> String {
    let key = attempt.key;
    let honoured = attempt
        .route
        .to
        .is_some_and(|to| to.connection.idempotency_keys.window.is_some());
    match attempt.request {
        _ if honoured => format!("key {key}"),
        ExternalRequest::Http(request) if ["PUT", "DELETE"].contains(&request.method.as_str()) => {
            describe(attempt.request)
        }
        ExternalRequest::Db(_) => format!("key {key}"),
        ExternalRequest::Ssh(request) if request.marker => format!("key {key}"),
        ExternalRequest::Http(_)
        | ExternalRequest::Ssh(_)
        | ExternalRequest::Notify(_)
        | ExternalRequest::Llm(_) => format!("arrival {sequence}"),
    }
}

/// A request, for people and for comparing.
fn describe(request: &ExternalRequest) -> String {
    let summary = StepRequest::from(request.clone()).summary();
    match summary.body {
        Some(body) => format!("{} {body}", summary.what),
        None => summary.what,
    }
}
