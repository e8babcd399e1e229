//! Payloads: what senders, destinations and workers sent. A token with the right `read` sees that
//! something exists, its state, its keys and its times; what was sent is left out unless the token
//! has the right `payload` too.

use semel_api::types::{
    Act, Alerts, Approval, ChildRun, Delivery, Duplicate, Effect, FoundKey, KeyInfo, OnceEffect,
    Page, PlannedRun, ReconcilePass, ReconcilePassDetail, RefusedDelivery, ReplayPlan, Run,
    RunDetail, RunJob, Task, Wait,
};
use semel_model::Right;
use semel_model::replay::{Forecast, ReplayPreview};
use serde::Serialize;
use serde_json::Value;

use crate::answer::{self, Answered};
use crate::auth::Holder;
use crate::error::ApiError;
use crate::links::without_links;
use crate::list_memory::{ListMemory, OneByOne};

/// What shows payloads beside other things.
pub(crate) trait HasPayload {
    /// Leaves out what a token may not see.
    fn limit(&mut self, holder: &Holder) {
        if !holder.may(Right::Payload) {
            self.leave_out();
        }
    }

    /// Leaves payloads out.
    fn leave_out(&mut self);
}

/// Answers 200 with what a token may see.
pub(crate) fn ok<T: HasPayload + Serialize>(holder: &Holder, mut body: T) -> Answered {
    body.limit(holder);
    answer::ok(&body)
}

/// Answers 200 with a page of a list, of which a token sees what it may. Each item is made when it is written.
pub(crate) fn page<V, T: HasPayload + Serialize>(
    holder: &Holder,
    memory: ListMemory,
    found: impl IntoIterator<Item = V>,
    view: impl Fn(V) -> T,
    next: Option<String>,
) -> Answered {
    #[derive(Serialize)]
    #[serde(bound = "")]
    struct Written<I: Iterator<Item: Serialize>> {
        items: OneByOne<I>,
        #[serde(rename = "cursor", skip_serializing_if = "Option::is_none")]
        next: Option<String>,
    }
    let items = found.into_iter().map(|found| {
        let mut item = view(found);
        item.limit(holder);
        item
    });
    let page = Written {
        items: OneByOne::new(items),
        next,
    };
    let text = serde_json::to_string(&page).map(without_links);
    let text = text.map_err(|_| ApiError::internal("an answer that is not JSON"))?;
    Ok(memory.answer(text))
}

/// What a token may see of a named effect: a script's token also sees what scripts reported. Which hold it
/// is concerns its holder, who knows, and those who may settle or redo it.
pub(crate) fn of_once(holder: &Holder, mut effect: OnceEffect) -> OnceEffect {
    if !(holder.may(Right::Settle) || holder.may(Right::Redo)) {
        effect.token = None;
    }
    let is_of_script = effect.run.is_none();
    if !(holder.may(Right::Payload) || is_of_script && holder.may(Right::Once)) {
        effect.result = None;
        effect.fault = effect.fault.take().map(code_of);
        effect.note = None;
    }
    effect
}

impl<T: HasPayload> HasPayload for Page<T> {
    fn limit(&mut self, holder: &Holder) {
        self.items.iter_mut().for_each(|item| item.limit(holder));
    }

    fn leave_out(&mut self) {
        self.items.iter_mut().for_each(T::leave_out);
    }
}

impl HasPayload for Run {
    fn leave_out(&mut self) {
        self.result = None;
        self.fault = self.fault.take().map(code_of);
    }
}

impl HasPayload for RunDetail {
    fn leave_out(&mut self) {
        self.run.leave_out();
        self.effects.iter_mut().for_each(Effect::leave_out);
        self.waits.iter_mut().for_each(Wait::leave_out);
        for line in &mut self.journal {
            line.events.clear();
        }
        leave_reasons_out(&mut self.acts);
    }
}

impl HasPayload for ChildRun {
    fn leave_out(&mut self) {
        self.result = None;
        self.fault = self.fault.take().map(code_of);
    }
}

impl HasPayload for Effect {
    fn leave_out(&mut self) {
        self.sent = None;
        self.note = None;
        self.find_url = None;
        if let Some(attended) = &mut self.attended {
            attended.note = None;
        }
        leave_reasons_out(&mut self.acts);
    }
}

impl HasPayload for RefusedDelivery {
    fn leave_out(&mut self) {
        self.message = None;
    }
}

impl HasPayload for KeyInfo {
    fn leave_out(&mut self) {
        self.fingerprint = None;
    }
}

/// What a webhook said may be what it was sent.
impl HasPayload for Delivery {
    fn leave_out(&mut self) {
        self.note = None;
    }
}

impl HasPayload for Alerts {
    fn leave_out(&mut self) {
        let messages = self.groups.iter_mut().filter_map(|it| it.message.as_mut());
        messages.for_each(|message| message.note = None);
    }
}

/// Its id stays, half of which is a digest of the fingerprint: a held delivery is decided by it.
impl HasPayload for Duplicate {
    fn leave_out(&mut self) {
        self.payload = None;
        self.fingerprint = None;
    }
}

impl HasPayload for Wait {
    fn leave_out(&mut self) {
        self.payload = None;
    }
}

impl HasPayload for Task {
    fn leave_out(&mut self) {
        self.input = Value::Null;
        self.answer = None;
    }
}

impl HasPayload for Approval {
    /// Approvers see what they are asked about, and what others are asked about only with `payload`.
    fn limit(&mut self, holder: &Holder) {
        let approver = holder.approver();
        let is_asked = approver.is_among(&self.from) || approver.is_among(&self.escalate);
        if !(holder.may(Right::Payload) || holder.may(Right::Approve) && is_asked) {
            self.leave_out();
        }
    }

    fn leave_out(&mut self) {
        self.shown = Value::Null;
        self.digest = None;
        if let Some(decision) = &mut self.decision {
            decision.comment = None;
        }
    }
}

/// Named effects were left out before: what a token may see of them depends on their holder.
impl HasPayload for FoundKey {
    fn limit(&mut self, holder: &Holder) {
        let approvals = std::mem::take(&mut self.approvals);
        if !holder.may(Right::Payload) {
            self.leave_out();
        }
        self.approvals = approvals;
        self.approvals.iter_mut().for_each(|it| it.limit(holder));
    }

    fn leave_out(&mut self) {
        self.runs.iter_mut().for_each(Run::leave_out);
        for found in &mut self.items {
            found.item.leave_out();
        }
        self.effects.iter_mut().for_each(Effect::leave_out);
        self.waits.iter_mut().for_each(Wait::leave_out);
        self.approvals.iter_mut().for_each(Approval::leave_out);
        self.duplicates.iter_mut().for_each(Duplicate::leave_out);
        if let Some(entry) = &mut self.entry {
            entry.value = None;
        }
    }
}

/// Its digest stays, although it is made of fingerprints too: a replay is asked for by it.
impl HasPayload for ReplayPreview {
    fn leave_out(&mut self) {
        self.input = None;
        for step in &mut self.steps {
            if let Forecast::Performed { request, .. } = &mut step.forecast {
                *request = None;
            }
            if let Forecast::Changed { fields, .. } = &mut step.forecast {
                fields
                    .iter_mut()
                    .for_each(|it| (it.old, it.new) = (None, None));
            }
            if let Forecast::Fails { message, .. } = &mut step.forecast {
                message.clear();
            }
        }
    }
}

/// Reasons are what operators wrote, and notes may be faults.
impl HasPayload for ReplayPlan {
    fn leave_out(&mut self) {
        self.reason = None;
    }
}

impl HasPayload for PlannedRun {
    fn leave_out(&mut self) {
        self.note = None;
    }
}

impl HasPayload for RunJob {
    fn leave_out(&mut self) {
        self.reason.clear();
        self.refusals.iter_mut().for_each(|it| it.note.clear());
    }
}

impl HasPayload for ReconcilePass {
    /// The fault reads `CODE: message`.
    fn leave_out(&mut self) {
        if let Some(fault) = &mut self.fault {
            fault.truncate(fault.find(':').unwrap_or(0));
        }
    }
}

impl HasPayload for ReconcilePassDetail {
    fn leave_out(&mut self) {
        self.pass.leave_out();
        self.items.iter_mut().for_each(|item| item.note = None);
    }
}

/// The reason of an act may be the note on a doubt or the comment on an approval.
fn leave_reasons_out(acts: &mut [Act]) {
    acts.iter_mut().for_each(|act| act.reason = None);
}

/// A fault's code, without its message.
fn code_of(fault: Value) -> Value {
    serde_json::json!({ "code": fault["code"] })
}
