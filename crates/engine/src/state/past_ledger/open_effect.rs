//! Effects of a run whose outcome has not been read yet.

use jiff::Timestamp;
use semel_model::event::Event;
use semel_model::request::StepRequest;
use semel_model::{EffectId, Guard, PastEffect, PastOutcome, SettledBy, Span};

use super::PastLedger;

/// An effect whose outcome has not been read yet.
#[derive(Debug)]
pub(super) struct OpenEffect {
    pub(super) effect: EffectId,
    pub(super) sent_as: Option<EffectId>,
    pub(super) generation: u32,
    pub(super) request: Box<StepRequest>,
    pub(super) guard: Guard,
    pub(super) attempt: u32,
    pub(super) window: Option<Span>,
    pub(super) since: Timestamp,
    pub(super) intended_at: Timestamp,
    /// Who settles its doubt, while nothing shows that the latest attempt did not happen.
    pub(super) doubt: Option<SettledBy>,
    /// Whether the latest attempt was seen to end in doubt.
    pub(super) is_doubted: bool,
    /// Whether an attempt ended in doubt that nothing has settled since.
    pub(super) was_doubted: bool,
}

impl PastLedger {
    pub(super) fn intended(&mut self, event: Event, at: Timestamp) {
        let Event::Intended {
            step,
            effect,
            attempt,
            request,
            guard,
            window,
            generation,
            ..
        } = event
        else {
            return;
        };
        if request.is_none() {
            self.reopen(&step);
        }
        match (self.open.get_mut(&step), request) {
            (Some(open), None) => {
                open.attempt = attempt;
                open.intended_at = at;
                open.doubt = Some(SettledBy::Guard);
                open.is_doubted = false;
            }
            (_, Some(request)) => {
                let sent_as = self.names.get(&step).and_then(|it| it.sent_as);
                let open = OpenEffect {
                    effect,
                    sent_as,
                    generation,
                    request,
                    guard: guard.unwrap_or(Guard::Review),
                    attempt,
                    window,
                    since: at,
                    intended_at: at,
                    doubt: Some(SettledBy::Guard),
                    is_doubted: false,
                    was_doubted: false,
                };
                self.open.insert(step, open);
            }
            (None, None) => {}
        }
    }

    /// The run was resumed, and comes back to an effect that had failed.
    pub(super) fn reopen(&mut self, step: &str) {
        if !self.open.contains_key(step)
            && let Some(failed) = self.closed.remove(step)
        {
            self.open.insert(step.to_owned(), failed);
        }
    }

    /// The run stands at an effect that the one before it left in doubt.
    pub(super) fn taken_over(&mut self, step: String) {
        let Some(past) = self.effects.remove(&step) else {
            return;
        };
        let PastEffect {
            effect,
            sent_as,
            generation,
            outcome:
                PastOutcome::InDoubt {
                    request,
                    guard,
                    attempt,
                    window,
                    since,
                    intended_at,
                    settled_by,
                    ..
                },
            ..
        } = past
        else {
            self.effects.insert(step, past);
            return;
        };
        let open = OpenEffect {
            effect,
            sent_as,
            generation,
            request,
            guard,
            attempt,
            window,
            since,
            intended_at,
            doubt: Some(settled_by),
            is_doubted: true,
            was_doubted: true,
        };
        self.open.insert(step, open);
    }

    pub(super) fn did_not_happen(&mut self, step: &str) {
        if let Some(open) = self.open.get_mut(step) {
            (open.doubt, open.is_doubted, open.was_doubted) = (None, false, false);
        }
    }

    /// The latest attempt did not happen; one before it may have.
    pub(super) fn is_tried_again(&mut self, step: &str) {
        if let Some(open) = self.open.get_mut(step) {
            open.doubt = open.was_doubted.then_some(SettledBy::Guard);
            open.is_doubted = open.was_doubted;
        }
    }
}
