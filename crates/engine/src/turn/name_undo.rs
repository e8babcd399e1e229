//! How a turn begins to undo an effect with a business key.
//!
//! ```text
//! done ══▶ undoing     in the name: whoever asks for it waits
//! undoing              in the run's journal, with the intent of the undo
//! ```
//!
//! `══▶` is a commit. A turn that begins again after a crash finds the name `undoing`. What the undo came
//! to is told with its outcome ([`crate::event`]), and with the end of a run that did not come to one.

use semel_model::event::{Event, NameEvent, UndoneName};
use semel_model::run::StopReason;
use semel_model::{EffectId, Fault, RunId};
use semel_store::named_effects::{self as names, HolderView, UndoBegin, UndoBegun};

use super::{Turn, TurnError, notice, unsure};
use crate::decide::{UndoRequest, UndoneHold};
use crate::state::UndoStanding;

/// The most runs that a message names.
const NAMED_MAX: usize = 5;

impl Turn {
    /// Tells the name of an effect that the current step undoes it. False where the run is stopped,
    /// because other runs reused the effect.
    pub(super) async fn begin_undo(&mut self, asked: UndoRequest) -> Result<bool, TurnError> {
        self.commit_what_matters().await?;
        let (held, by) = match asked.hold {
            UndoneHold::Own(held) => (Some(held), self.run),
            UndoneHold::Earlier { key, run } => (self.find_undone(key).await?, run),
        };
        let Some(held) = held else {
            return self.undo_from_here(asked.step, None);
        };
        // The name may not know yet that the effect is done.
        let told = notice::deliver(&self.runtime, by, held.name, "").await;
        told.map_err(unsure)?;
        let begin = UndoBegin {
            namespace_id: self.release.namespace_id,
            id: held.name,
            token: held.token,
            run: self.run,
            seq: self.seq,
            always: asked.always,
        };
        self.reach("undo.before").await;
        let begun = names::begin_undo(self.runtime.cell.of(held.name), begin).await;
        let begun = begun.map_err(unsure)?;
        self.reach("undo.after").await;
        match begun {
            UndoBegun::Begun => self.undo_from_here(asked.step, Some(held)),
            UndoBegun::Gone => self.undo_from_here(asked.step, None),
            UndoBegun::Shared { count, by } => self.leave_shared(asked, count, by).await,
        }
    }

    fn undo_from_here(
        &mut self,
        step: String,
        held: Option<UndoneName>,
    ) -> Result<bool, TurnError> {
        let named = NameEvent::Undoing { held };
        self.record(Event::Named { step, named })?;
        Ok(true)
    }

    /// The name of an effect that an earlier run of the run's own key performed; nothing where it is
    /// another effect's by now.
    async fn find_undone(&self, key: EffectId) -> Result<Option<UndoneName>, TurnError> {
        let (cell, namespace_id) = (self.runtime.cell.of(key), self.release.namespace_id);
        let found = names::find_by_key(cell, namespace_id, key).await;
        let found = found
            .map_err(unsure)?
            .filter(|view| view.key() == key && matches!(view.holder, HolderView::Run { .. }));
        Ok(found.map(|view| UndoneName {
            name: view.id,
            token: view.token,
        }))
    }

    /// Leaves it to an operator whether an effect is undone that others reused.
    async fn leave_shared(
        &mut self,
        asked: UndoRequest,
        count: u32,
        by: Vec<RunId>,
    ) -> Result<bool, TurnError> {
        let named: Vec<String> = by.iter().take(NAMED_MAX).map(RunId::to_string).collect();
        let others = match usize::try_from(count).is_ok_and(|count| count > named.len()) {
            true => " and others",
            false => "",
        };
        let message = format!(
            "`{}` was reused under its business key by {}{others}: undoing it would take it from them. \
             To leave it as it is, semel run resume {}; to undo it all the same, after that, semel effect \
             undo EFFECT",
            asked.undone,
            named.join(", "),
            self.run,
        );
        let known = self.state.undos.get(&asked.undone);
        if known.is_none_or(|known| known.standing != UndoStanding::Shared) {
            let (step, named) = (asked.step, NameEvent::Shared { count, by });
            self.record(Event::Named { step, named })?;
        }
        let fault = Fault::permanent("key-reused", message);
        self.stop_run(StopReason::NeedsReview, fault).await?;
        Ok(false)
    }
}
