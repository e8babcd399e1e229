//! What a report about a named effect is, how it is written, and what is noted of one that comes too late.

use deadpool_postgres::Transaction;
use semel_model::storable::excerpt;
use semel_model::{NamedEffectId, SeededBug, TokenId};
use serde_json::Value;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::waiters::{self, NamedEffectWaiter, Waking};
use super::{HolderView, NamedEffectView, views};
use crate::cell::{ReadError, SlotCell};
use crate::column_text::ColumnText;

/// A token that was never given out is no holder's.
const NOTE_OF_RUN: &str = "
    UPDATE named_effects n
       SET note = $4
     WHERE n.id = $1 AND n.namespace_id = $2 AND n.token >= $3
       AND n.state IN ('pending', 'in_doubt', 'failed')";

/// Only a process that held the name under this token is a former holder.
const NOTE_OF_SCRIPT: &str = "
    UPDATE named_effects n
       SET note = $4
     WHERE n.id = $1 AND n.namespace_id = $2
       AND ((n.token = $3 AND n.holder_token = $5)
            OR n.former_holders @> jsonb_build_array(jsonb_build_array($3::int8, $5::uuid)))
       AND n.state IN ('pending', 'in_doubt', 'failed')";

pub(crate) const STATEMENTS: &[&str] = &[NOTE_OF_RUN, NOTE_OF_SCRIPT];

/// The most characters of a note.
const NOTE_CHARS_MAX: usize = 2_000;

/// What a holder has to show for a done effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NamedResult {
    /// Its result.
    pub result: Option<Value>,
    /// What the destination calls the thing that it made.
    pub external_id: Option<String>,
}

impl NamedResult {
    /// The external id as the tables have it: a destination may answer one that no column takes.
    pub(super) fn stored_external_id(&self) -> Option<ColumnText<'_>> {
        self.external_id.as_deref().map(ColumnText::name)
    }

    /// Whether an effect has this result by now.
    pub(super) fn is_that_of(&self, view: &NamedEffectView) -> bool {
        let stored = self.stored_external_id();
        view.result == self.result
            && view.external_id.as_deref() == stored.as_ref().map(ColumnText::as_str)
    }
}

/// What reports: each on its own holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporter {
    /// A process outside, by its API token.
    Script(TokenId),
    /// A run.
    Run,
}

impl Reporter {
    /// What the row of its holds has as `holder_token`.
    pub(super) fn token(&self) -> Option<&Uuid> {
        match self {
            Self::Script(caller) => Some(caller.as_uuid()),
            Self::Run => None,
        }
    }
}

/// The hold that a report is about.
#[derive(Clone, Copy, Debug)]
pub struct ReportedHold {
    /// The namespace that owns the effect.
    pub namespace_id: i32,
    /// The effect.
    pub id: NamedEffectId,
    /// The token of the hold.
    pub token: i64,
    /// What reports.
    pub by: Reporter,
}

/// What a report of a holder, or an operator's settlement, came to.
#[derive(Clone, Debug)]
pub enum NamedReport {
    /// It is recorded. Wake these runs, then say so with [`woken`](super::woken).
    Recorded(Vec<NamedEffectWaiter>),
    /// The same was recorded before. Its waiters may still be asleep.
    Repeated(Vec<NamedEffectWaiter>),
    /// It changes nothing: this is what stands.
    Late(Box<NamedEffectView>),
    /// There is no such effect.
    Unknown,
}

/// A report on its way in.
pub(super) struct Report<'a> {
    pub(super) hold: ReportedHold,
    /// Whether what stands under its token is what it says.
    pub(super) same: &'a (dyn Fn(&NamedEffectView) -> bool + Sync),
    /// What is noted where it comes too late; nothing where it is empty.
    pub(super) late: String,
    /// Which waiters it is of interest to.
    pub(super) waking: Waking,
}

impl Report<'_> {
    /// Writes it: the values are those after the four that say which hold.
    pub(super) async fn write(
        &self,
        cell: SlotCell<'_>,
        text: &'static str,
        more: &[&(dyn ToSql + Sync)],
    ) -> Result<NamedReport, ReadError> {
        let hold = &self.hold;
        let caller = hold.by.token();
        let mut values: Vec<&(dyn ToSql + Sync)> =
            vec![hold.id.as_uuid(), &hold.namespace_id, &hold.token, &caller];
        values.extend_from_slice(more);
        let bug = SeededBug::NameTokenNotCompared;
        let text = bug.in_text(text, "n.token = $3", "n.token >= $3");
        self.execute(cell, of_anybody(text), &values).await
    }

    pub(super) async fn execute(
        &self,
        cell: SlotCell<'_>,
        text: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<NamedReport, ReadError> {
        let mut client = cell.reader().await?;
        let tx = client.transaction().await?;
        let recorded = tx.execute(text, values).await? > 0;
        let report = match recorded {
            true => NamedReport::Recorded(self.waiters(&tx).await?),
            false => self.explain(&tx).await?,
        };
        tx.commit().await?;
        Ok(report)
    }

    async fn waiters(&self, tx: &Transaction<'_>) -> Result<Vec<NamedEffectWaiter>, ReadError> {
        waiters::of_effect(tx, self.hold.id, self.waking).await
    }

    async fn explain(&self, tx: &Transaction<'_>) -> Result<NamedReport, ReadError> {
        let hold = &self.hold;
        let Some(view) = views::read(tx, hold.namespace_id, hold.id).await? else {
            return Ok(NamedReport::Unknown);
        };
        let latest = view.token == hold.token;
        let stolen = latest && reporter_of(&view) != hold.by;
        if latest && !stolen && (self.same)(&view) {
            return Ok(NamedReport::Repeated(self.waiters(tx).await?));
        }
        if !self.late.is_empty() && !stolen {
            let note = excerpt(&self.late, NOTE_CHARS_MAX);
            let caller = hold.by.token();
            let mut values: Vec<&(dyn ToSql + Sync)> =
                vec![hold.id.as_uuid(), &hold.namespace_id, &hold.token, &note];
            let text = match &caller {
                Some(caller) => {
                    values.push(caller);
                    NOTE_OF_SCRIPT
                }
                None => NOTE_OF_RUN,
            };
            tx.execute(text, &values).await?;
        }
        Ok(NamedReport::Late(Box::new(view)))
    }
}

/// The statement, which a seeded bug lets any process use.
pub(super) fn of_anybody(text: &'static str) -> &'static str {
    let right = "n.holder_token IS NOT DISTINCT FROM $4";
    let wrong = "(n.holder_token IS NULL) = ($4::uuid IS NULL)";
    SeededBug::NamedCallerIgnored.in_text(text, right, wrong)
}

const fn reporter_of(view: &NamedEffectView) -> Reporter {
    match &view.holder {
        HolderView::Run { .. } => Reporter::Run,
        HolderView::Script { caller, .. } => Reporter::Script(*caller),
    }
}
