//! Undos of effects with business keys: the name learns of an undo before its intent.

use semel_flow::Step;
use semel_model::effect::LedgerEntry;
use semel_model::event::{DoubtPlan, Event, NameEvent, UndoneName};
use semel_model::run::StopReason;
use semel_model::{EffectId, Fault, PastEffect, RunId};

use super::{DecideContext, Next, NextAction};
use crate::state::{FoldedRun, NAMED, NameStanding, UNDO, UndoStanding};

/// An undo that a run is about to begin, of an effect with a business key.
#[derive(Clone, Debug)]
pub struct UndoRequest {
    /// The path of the step that undoes the effect.
    pub step: String,
    /// The path of the step that performed it.
    pub undone: String,
    /// The hold under which it was performed.
    pub hold: UndoneHold,
    /// Whether it is undone although other runs reused it.
    pub always: bool,
}

/// The hold under which an effect was performed that is to be undone.
#[derive(Clone, Copy, Debug)]
pub enum UndoneHold {
    /// This run's.
    Own(UndoneName),
    /// That of an earlier run of the run's own key.
    Earlier {
        /// The key that the destination was sent.
        key: EffectId,
        /// That run.
        run: RunId,
    },
}

/// What comes before an intent of the current step, where it undoes an effect with a business key. An
/// operator who asked for just this undo has decided about those who reused the effect.
pub(super) fn before_undo(
    state: &FoldedRun,
    context: &DecideContext<'_>,
    step: &Step,
) -> Option<Next> {
    let undone = step.id.as_str().strip_suffix(UNDO)?;
    match state.undos.get(undone).map(|known| known.standing) {
        Some(UndoStanding::Begun) => return None,
        Some(UndoStanding::Left) => return Some(leave(state, step)),
        Some(UndoStanding::Again | UndoStanding::Shared | UndoStanding::Over) | None => {}
    }
    let named = context.flow.find_step(undone)?.named.as_ref();
    Some(Next::Act(NextAction::BeginUndo(Box::new(UndoRequest {
        step: step.id.to_string(),
        undone: undone.to_owned(),
        hold: hold(state, undone)?,
        always: state.operator_step.is_some() || named.is_some_and(|it| it.undoes_shared),
    }))))
}

/// The effect stays as it is, unless an attempt may have undone it: that is settled first.
fn leave(state: &FoldedRun, step: &Step) -> Next {
    let step = step.id.to_string();
    match state.effect().map(|undo| (&undo.entry, undo.licence)) {
        Some((LedgerEntry::Retrying(effect), _)) if effect.doubted() => {
            let (doubt, plan) = (effect.state().fault.to_doubt(), DoubtPlan::Review);
            Next::Event(Event::Doubted { step, doubt, plan })
        }
        Some((LedgerEntry::InDoubt(effect), None)) => {
            let doubt = &effect.state().doubt;
            let fault = Fault::permanent(doubt.code.clone(), doubt.message.clone());
            Next::Act(NextAction::StopRun(StopReason::InDoubt, fault))
        }
        Some((
            LedgerEntry::Pending(_)
            | LedgerEntry::Retrying(_)
            | LedgerEntry::InDoubt(_)
            | LedgerEntry::Done(_)
            | LedgerEntry::Failed(_),
            _,
        ))
        | None => {
            let named = NameEvent::Left;
            Next::Event(Event::Named { step, named })
        }
    }
}

/// Nothing where the effect has no business key, or another holder of that performed it.
fn hold(state: &FoldedRun, undone: &str) -> Option<UndoneHold> {
    let own = state.names.get(undone);
    if let Some(named) = own.filter(|it| it.standing == NameStanding::Done) {
        let (name, token) = (named.name, named.hold?.token);
        return Some(UndoneHold::Own(UndoneName { name, token }));
    }
    let past: &PastEffect = state.past(undone)?;
    let is_own = past.is_done() && past.kind != NAMED;
    let (key, run) = (past.sent_as.filter(|_| is_own)?, past.run);
    Some(UndoneHold::Earlier { key, run })
}
