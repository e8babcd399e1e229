//! What a run was answered: waits, approvals, reads and functions, and results that were corrected.

use semel_model::approval::ApprovalDecision;
use semel_model::{EffectId, Fingerprint, PastEffect, PastOutcome, PastResult};
use serde_json::Value;

use super::super::approving::approved;
use super::super::fingerprint::shown;
use super::{APPROVAL, PastLedger, WAIT};

impl PastLedger {
    /// A callback or an event came, or a called run succeeded.
    pub(super) fn answered(&mut self, step: String, result: Value) {
        if self.open.contains_key(&step) {
            return self.done(&step, None, None, result);
        }
        self.answer(step, WAIT, Fingerprint::of(&Value::Null), result);
    }

    /// A step that changes nothing has a result.
    pub(super) fn gave(&mut self, step: String, result: Value, status: Option<u16>) {
        let given = PastResult {
            step: step.clone(),
            result,
            status,
        };
        self.results.insert(step, given);
    }

    /// A person said yes to what was shown. A no is not reused: people are asked again.
    pub(super) fn decided(&mut self, step: String, decision: &ApprovalDecision) {
        let Some(asked) = self.asked.remove(&step).filter(|_| decision.approved) else {
            return;
        };
        let result = approved(decision);
        self.answer(step, APPROVAL, shown(&asked), result);
    }

    fn answer(&mut self, step: String, kind: &str, fingerprint: Fingerprint, result: Value) {
        let past = PastEffect {
            effect: EffectId::derive(self.run, &step, "", 0),
            sent_as: None,
            generation: 0,
            run: self.run,
            kind: kind.to_owned(),
            connection: None,
            fingerprint,
            outcome: PastOutcome::Done {
                external_id: None,
                status: None,
                result,
            },
            step: step.clone(),
        };
        self.effects.insert(step, past);
    }

    pub(super) fn amended(&mut self, step: &str, id: Option<String>, amended: Value) {
        if let Some(past) = self.effects.get_mut(step)
            && let PastOutcome::Done {
                external_id,
                result,
                ..
            } = &mut past.outcome
        {
            *result = amended;
            if id.is_some() {
                *external_id = id;
            }
        }
    }
}
