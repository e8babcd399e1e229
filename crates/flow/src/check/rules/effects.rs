//! Effects: what makes a retry safe.

use semel_model::{Guard, RetryPolicy, Span};

use super::super::Check;
use crate::diagnostic::Code;
use crate::effect::{Effect, connection, key_window};
use crate::grammar::DAY;
use crate::lower::{keep_of, retry};
use crate::outline::{StepIndex, StepInfo};
use crate::provider::Provider;

impl<'t> Check<'_, 't, '_> {
    pub(super) fn effect_rules(&mut self) {
        let base = retry(self.outline.flow, RetryPolicy::default());
        let outline = self.outline;
        for (index, step) in outline.steps.iter().enumerate() {
            let Some(effect) = self.effect(index) else {
                continue;
            };
            let unsafe_retry = self.retry_unsafe(step, effect);
            if !unsafe_retry {
                self.unstated(step, effect);
            }
            if effect.guard == Guard::Probe {
                self.probe_early(step);
            }
            if effect.guard == Guard::Key {
                self.unhonoured(index, step, effect);
                self.past_window(index, step, base);
            }
        }
    }

    /// Retries of an effect that nothing makes safe, without a word about doubt.
    fn retry_unsafe(&mut self, step: &StepInfo<'t>, effect: Effect) -> bool {
        let asked = step.record.map("retry");
        let tries = asked.is_some_and(|retry| retry.whole("attempts") != Some(1));
        if !tries || effect.stated || !effect.is_unguarded() {
            return false;
        }
        let action = step.name();
        let message = format!("this `{action}` is retried, and nothing makes a second call safe");
        let help = "add `guard: key`, `guard: probe`, or `guard: review` if an operator settles a lost response";
        self.add(
            Code::RetryUnsafe,
            step.record.name_span("retry"),
            &message,
            help,
        );
        true
    }

    /// A step that an operator settles after a lost answer, though the author did not ask for it.
    fn unstated(&mut self, step: &StepInfo<'t>, effect: Effect) {
        let Some(kind) = step.kind else {
            return;
        };
        if effect.stated || !effect.is_unguarded() || effect.review_is_usual {
            return;
        }
        let what = kind.verb(step.record.map(kind.name()));
        let message =
            format!("if the response to this `{what}` is lost, an operator has to settle it");
        let help = "add `guard: key` if the destination honours Idempotency-Key, \
                    `guard: probe` if a read can tell, or `guard: review` if this is meant";
        self.add(
            Code::GuardUnstated,
            step.record.name_span(kind.name()),
            &message,
            help,
        );
    }

    /// A probe that is believed while the request that it asks about may still be in flight.
    fn probe_early(&mut self, step: &StepInfo<'t>) {
        let Some(probe) = step
            .record
            .map("probe")
            .filter(|probe| probe.has("because"))
        else {
            return;
        };
        let body = step.kind.and_then(|kind| step.record.map(kind.name()));
        let timeout = body.and_then(|body| body.span_of("timeout"));
        let (Some(after), Some(timeout)) = (probe.span_of("after"), timeout) else {
            return;
        };
        if after >= timeout {
            return;
        }
        let message =
            format!("*absent* is trusted after {after}, and the request may take {timeout}");
        let help = format!(
            "write `after: {timeout}` or longer, or leave `because` out: then *absent* is trusted only once nothing can arrive any more"
        );
        let span = match probe.has("after") {
            true => probe.value_span("after"),
            false => probe.name_span("because"),
        };
        self.add(Code::ProbeEarly, span, &message, &help);
    }

    /// A guard that rests on keys which the destination does not look at.
    fn unhonoured(&mut self, index: StepIndex, step: &StepInfo<'t>, effect: Effect) {
        let body = self.outline.body(index);
        let Some(known) = connection(body, self.context) else {
            return;
        };
        let name = body
            .and_then(|body| body.text("connection"))
            .unwrap_or_default();
        let said = step.record.span_of("window");
        match (known.key_window, said) {
            (None, _) if effect.stated => {
                let message = format!(
                    "the connection `{name}` does not honour keys, so a repeat is a second effect"
                );
                let help = format!(
                    "choose `guard: probe` or `guard: review`, or declare on the connection how long it honours keys: `semel connection create {name} … --set idempotency_keys.window=1d --replace`"
                );
                self.add(
                    Code::GuardUnhonoured,
                    step.record.value_span("guard"),
                    &message,
                    &help,
                );
            }
            (Some(window), Some(said)) if said > window => {
                let message =
                    format!("the connection `{name}` remembers keys for {window}, not for {said}");
                let help = format!("write `window: {window}`, or leave it out");
                self.add(
                    Code::GuardUnhonoured,
                    step.record.value_span("window"),
                    &message,
                    &help,
                );
            }
            (Some(_) | None, _) => {}
        }
    }

    /// Retries that continue after the destination has forgotten the key.
    fn past_window(&mut self, index: StepIndex, step: &StepInfo<'t>, base: RetryPolicy) {
        let policy = retry(step.record, base);
        let window = key_window(self.outline, self.context, index);
        if policy.attempts == 1 || policy.within <= window {
            return;
        }
        let message = format!(
            "retries continue for {}, and the destination forgets the key after {window}",
            policy.within
        );
        let help = format!(
            "write `retry: {{ within: {window} }}`: an operator settles what is older anyway"
        );
        let own = step.record.map("retry").filter(|retry| retry.has("within"));
        let span = match (own, step.record.has("window")) {
            (Some(own), _) => own.value_span("within"),
            (None, true) => step.record.value_span("window"),
            (None, false) => step.record.name_span("guard"),
        };
        self.add(Code::RetryPastWindow, span, &message, &help);
    }

    /// Keys that are forgotten while the source may still repeat.
    pub(super) fn keep_rule(&mut self) {
        let redelivery = self
            .provider()
            .and_then(|provider: &Provider| provider.redelivery);
        let flow = self.outline.flow;
        let Some(keep) = keep_of(flow) else {
            return;
        };
        let Some(redelivery) = redelivery.filter(|redelivery| keep < *redelivery) else {
            return self.keep_unsaid_rule(keep);
        };
        let title = self
            .provider()
            .map_or("the source", |provider| provider.title);
        let message = format!(
            "{title} may repeat a delivery for {redelivery}, and its key expires after {keep}"
        );
        let help = format!("write `keep: {redelivery}` or longer; the default is `30d`");
        self.add(Code::KeepShort, flow.value_span("keep"), &message, &help);
    }

    /// Runs that are deleted while their keys must still answer for them.
    pub(super) fn history_rule(&mut self) {
        let flow = self.outline.flow;
        let (history, keep) = (flow.span_of("history"), keep_of(flow));
        let (Some(history), Some(keep)) = (history, keep) else {
            return;
        };
        if history < keep {
            let message = format!("runs are deleted after {history}, and keys are kept for {keep}");
            let help = format!("write `history: {keep}` or longer, or a shorter `keep`");
            let span = flow.value_span("history");
            self.add(Code::HistoryShort, span, &message, &help);
        }
    }

    /// Keys that are forgotten soon, where nothing says what they mean when they come back.
    fn keep_unsaid_rule(&mut self, keep: Span) {
        let flow = self.outline.flow;
        let says = flow.map("keep").is_some_and(|keep| keep.has("then"));
        if says || keep.as_millis() >= DAY {
            return;
        }
        let message = format!(
            "after {keep} the key starts a new run, in which done effects are not repeated"
        );
        let help = format!(
            "write `keep: {{ for: {keep}, then: new }}` where the key is meant to come back as a \
             new intent, or `then: same`"
        );
        self.add(Code::KeepUnsaid, flow.value_span("keep"), &message, &help);
    }
}
