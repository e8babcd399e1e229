//! A case: one example with one fault, in a namespace of its own.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use semel_engine::{Accepted, Engine, Intake, IntakeError, StagedDelivery};
use semel_flow::{Example, Flow};
use semel_model::{Key, NamespaceName, RunId, TriggerKind};
use serde_json::Value;

use crate::fault::{FaultClass, RehearsedFault};
use crate::process::Process;
use crate::stage::CaseStage;
use crate::vary;

/// One example with one fault.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) example: Arc<Example>,
    pub(crate) fault: RehearsedFault,
    pub(crate) namespace_id: i32,
    pub(crate) namespace: NamespaceName,
    pub(crate) stage: Arc<CaseStage>,
    pub(crate) flow: Arc<Flow>,
    /// How its deliveries went, and how many are on their way.
    pub(crate) arrived: Arc<Arrived>,
    /// Whether what comes after the end was done.
    pub(crate) epilogue_done: bool,
}

/// How the deliveries of a case went.
#[derive(Default)]
pub(crate) struct Arrived {
    on_their_way: AtomicUsize,
    ended: Mutex<Vec<Result<Intake, IntakeError>>>,
}

impl Arrived {
    pub(crate) fn count_on_their_way(&self) -> usize {
        self.on_their_way.load(Ordering::Acquire)
    }

    pub(crate) fn ended(&self) -> MutexGuard<'_, Vec<Result<Intake, IntakeError>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run that answers for the delivery, once it was accepted.
    pub(crate) fn run(&self) -> Option<RunId> {
        let ended = self.ended();
        let mut accepted = ended.iter().filter_map(|intake| match intake {
            Ok(Intake::Accepted(Accepted { run, .. })) => Some(*run),
            Ok(Intake::Ignored | Intake::Stale(_) | Intake::Held(_)) | Err(_) => None,
        });
        accepted.next()
    }
}

impl Case {
    /// Sends what opens the case.
    pub(crate) fn open(&self, process: &Process) {
        match self.fault.class {
            FaultClass::DeliveryAtOnce => {
                self.deliver(process, vec![self.delivery()]);
                self.deliver(process, vec![self.delivery()]);
            }
            FaultClass::DeliveryInARow => {
                self.deliver(process, vec![self.delivery(), self.delivery()]);
            }
            FaultClass::DeliveryOtherPayload => {
                let input = vary::other_payload(&self.example.input);
                self.deliver(process, vec![self.delivery(), self.delivery_of(&input)]);
            }
            FaultClass::ItemTwice => {
                self.stage.log().used = true;
                self.deliver(process, vec![self.delivery()]);
            }
            FaultClass::None
            | FaultClass::DeliveryAfterEnd
            | FaultClass::Crash
            | FaultClass::AnswerLostBefore
            | FaultClass::AnswerLostAfter
            | FaultClass::AnswerLate
            | FaultClass::AnswerVeryLate
            | FaultClass::CallbackEarly
            | FaultClass::CallbackTwice
            | FaultClass::CallbackContradicted
            | FaultClass::CallbackLate
            | FaultClass::ApprovalTwice
            | FaultClass::ApprovalContradicted
            | FaultClass::EffectRefused
            | FaultClass::SecondIntent => self.deliver(process, vec![self.delivery()]),
        }
    }

    /// Sends the delivery again.
    pub(crate) fn deliver_again(&self, process: &Process) {
        self.deliver(process, vec![self.delivery()]);
    }

    /// Sends deliveries one after the other.
    fn deliver(&self, process: &Process, deliveries: Vec<StagedDelivery>) {
        let (arrived, case) = (self.arrived.clone(), self.clone());
        arrived.on_their_way.fetch_add(1, Ordering::AcqRel);
        process.begin(|engine| async move {
            for delivery in deliveries {
                let intake = engine.deliver_staged(delivery).await;
                arrived.ended().push(intake);
                case.call_back_early(&engine).await;
            }
            arrived.on_their_way.fetch_sub(1, Ordering::AcqRel);
        });
    }

    async fn call_back_early(&self, engine: &Engine) {
        let (FaultClass::CallbackEarly, Some(spot)) = (self.fault.class, &self.fault.at) else {
            return;
        };
        if let (Some(run), Some(body)) = (self.arrived.run(), self.callback_body(&spot.step)) {
            // A wait that has ended already is none of an early callback's.
            let _ = engine.call_back_staged(run, &spot.step, &body).await;
            self.stage.log().used = true;
        }
    }

    /// What a callback to a step brings, where the example says so.
    pub(crate) fn callback_body(&self, step: &str) -> Option<Vec<u8>> {
        let answer = self.example.answers.get(step)?;
        Some(crate::answer::payload(answer).to_string().into_bytes())
    }

    fn delivery(&self) -> StagedDelivery {
        self.delivery_of(&self.example.input)
    }

    fn delivery_of(&self, input: &Value) -> StagedDelivery {
        let text = |value: &Value| {
            value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned)
        };
        let pairs = |named: &std::collections::BTreeMap<String, Value>| {
            let pairs = named.iter();
            pairs
                .map(|(name, value)| (name.to_ascii_lowercase(), text(value)))
                .collect()
        };
        let intent = match self.fault.class == FaultClass::SecondIntent {
            true => 2,
            false => 1,
        };
        StagedDelivery {
            namespace_id: self.namespace_id,
            namespace: self.namespace.clone(),
            flow: self.flow.name.clone(),
            trigger: trigger_of(&self.flow),
            input: input.to_string().into_bytes(),
            headers: pairs(&self.example.headers),
            query: pairs(&self.example.query),
            caller_key: caller_key(intent),
            nominal: nominal(intent),
        }
    }
}

/// What starts the runs of a rehearsal: the first of the flow's triggers.
pub(crate) fn trigger_of(flow: &Flow) -> TriggerKind {
    let triggers = &flow.trigger;
    match triggers {
        _ if triggers.webhook.is_some() => TriggerKind::Webhook,
        _ if triggers.api.is_some() => TriggerKind::Api,
        _ if triggers.manual.is_some() => TriggerKind::Manual,
        _ if triggers.event.is_some() => TriggerKind::Event,
        _ if triggers.schedule.is_some() => TriggerKind::Schedule,
        _ => TriggerKind::Call,
    }
}

/// What starts runs besides what the examples are delivered by.
pub(crate) fn other_triggers(flow: &Flow) -> Option<String> {
    let triggers = &flow.trigger;
    let all = [
        (triggers.webhook.is_some(), TriggerKind::Webhook),
        (triggers.api.is_some(), TriggerKind::Api),
        (triggers.manual.is_some(), TriggerKind::Manual),
        (triggers.event.is_some(), TriggerKind::Event),
        (triggers.schedule.is_some(), TriggerKind::Schedule),
    ];
    let played = trigger_of(flow);
    let others = all
        .into_iter()
        .filter(|(has, kind)| *has && *kind != played);
    let others: Vec<&str> = others.map(|(_, kind)| kind.as_str()).collect();
    (!others.is_empty()).then(|| {
        format!(
            "the examples are delivered by `{}`: repeats by {} are not played",
            played.as_str(),
            others.join(", ")
        )
    })
}

fn caller_key(intent: i64) -> Key {
    match Key::new(format!("rehearsal-{intent}").into_bytes()) {
        Ok(key) => key,
        Err(error) => unreachable!("a short text is a key: {error}"),
    }
}

/// An instant of a schedule, long ago. Those of two intents are of another year, month, day of the month, day of the
/// week and hour: a key that names a month has one intent in each.
fn nominal(intent: i64) -> Timestamp {
    let secs = (20_001 + (intent - 1) * 400) * 86_400 + intent * 3_660;
    Timestamp::from_second(secs).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::nominal;

    #[test]
    fn two_intents_of_a_schedule_have_nothing_of_their_times_in_common() {
        let [one, other] = [1, 2].map(|intent| nominal(intent).to_zoned(TimeZone::UTC));

        assert_ne!(one.year(), other.year());
        assert_ne!(one.month(), other.month());
        assert_ne!(one.day(), other.day());
        assert_ne!(one.weekday(), other.weekday());
        assert_ne!(one.hour(), other.hour());
        assert_ne!(one.minute(), other.minute());
    }
}
