//! The `kept_generations` table: effects that were undone, or performed again under another key.
//!
//! The key of an effect derives from its generation. A destination may remember a key for longer than
//! Semel keeps the history of its run: a run that began again at generation 0 would have its new effect
//! taken for the one that was undone. So a row commits with what sets a step's generation apart, and
//! stays with the claim. It is read only where the journals that say the same are gone.

use std::collections::HashSet;

use semel_model::{RunId, SeededBug, Span};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::cell::{ReadError, SlotCell};

/// Of several rows of one write about a step, that of the latest generation counts: a row is changed once.
pub(crate) const KEEP: &str = "
    INSERT INTO kept_generations AS k (first_run, step, generation, intent, undone, kept_until)
    SELECT DISTINCT ON (t.first_run, t.step) t.first_run, t.step, t.generation, t.intent, t.undone,
           coalesce(p.now + make_interval(secs => t.memory_secs), 'infinity')
      FROM unnest($1::uuid[], $2::text[], $3::int4[], $4::int4[], $5::bool[], $6::float8[])
        AS t (first_run, step, generation, intent, undone, memory_secs)
     CROSS JOIN (SELECT moment() AS now) p
     ORDER BY t.first_run, t.step, t.generation DESC, t.undone DESC
        ON CONFLICT (first_run, step) DO UPDATE
       SET generation = greatest(k.generation, EXCLUDED.generation),
           intent = greatest(k.intent, EXCLUDED.intent),
           undone = CASE WHEN EXCLUDED.generation > k.generation THEN EXCLUDED.undone
                         ELSE k.undone OR EXCLUDED.undone END,
           kept_until = greatest(k.kept_until, EXCLUDED.kept_until)";

const LIST: &str = "
    SELECT step, generation, intent, undone
      FROM kept_generations
     WHERE first_run = $1
     ORDER BY step";

const KNOWN: &str = "
    SELECT DISTINCT first_run FROM kept_generations WHERE first_run = ANY ($1)";

pub(crate) const STATEMENTS: &[&str] = &[KEEP, LIST, KNOWN];

/// How long a destination remembers the key of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyMemory {
    /// For so long after the effect.
    For(Span),
    /// Without end, as the marker of a `db` step stays.
    Forever,
}

impl KeyMemory {
    /// In seconds; nothing where it has no end.
    pub(crate) fn secs(self) -> Option<f64> {
        match self {
            Self::For(span) => Some(span.as_secs_f64()),
            Self::Forever => None,
        }
    }
}

/// What sets the generation of a step's effect apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GenerationChange {
    /// The first run of the key, or the child run at the same place of it.
    pub first: RunId,
    /// The step's path.
    pub step: String,
    /// The generation of its effect.
    pub generation: u32,
    /// How many times the key came back as a new intent.
    pub intent: u32,
    /// Whether the effect was undone.
    pub undone: bool,
    /// How long its destination remembers its key.
    pub memory: KeyMemory,
}

/// What is kept of a step's effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptGeneration {
    /// The step's path.
    pub step: String,
    /// The latest generation of its effect.
    pub generation: u32,
    /// How many times the key had come back as a new intent by then.
    pub intent: u32,
    /// Whether the effect was undone.
    pub undone: bool,
}

impl KeptGeneration {
    /// The generation of the step's effect in the next run, under an intent of the key: the same where
    /// the effect counts as done, and another where it was undone or the intent is a later one.
    pub fn next(&self, intent: u32) -> u32 {
        match self.undone || intent > self.intent {
            true => intent.max(self.generation.saturating_add(1)),
            false => self.generation,
        }
    }
}

/// Changes of a batch, by column.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    firsts: Vec<Uuid>,
    steps: Vec<&'a str>,
    generations: Vec<i32>,
    intents: Vec<i32>,
    undone: Vec<bool>,
    memories: Vec<Option<f64>>,
}

impl<'a> Rows<'a> {
    pub(crate) fn push(&mut self, change: &'a GenerationChange) {
        if SeededBug::GenerationNotKept.is_seeded() {
            return;
        }
        let column = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        self.firsts.push(*change.first.as_uuid());
        self.steps.push(&change.step);
        self.generations.push(column(change.generation));
        self.intents.push(column(change.intent));
        self.undone.push(change.undone);
        self.memories.push(change.memory.secs());
    }

    pub(crate) fn values(&self) -> Option<Vec<&(dyn ToSql + Sync)>> {
        (!self.firsts.is_empty()).then(|| {
            vec![
                &self.firsts as &(dyn ToSql + Sync),
                &self.steps,
                &self.generations,
                &self.intents,
                &self.undone,
                &self.memories,
            ]
        })
    }
}

/// What is kept of the effects of a first run of a key, or of the child runs at one place.
pub async fn list(cell: SlotCell<'_>, first: RunId) -> Result<Vec<KeptGeneration>, ReadError> {
    let rows = cell.reader().await?.query(LIST, &[first.as_uuid()]).await?;
    let read = |row: &tokio_postgres::Row| KeptGeneration {
        step: row.get(0),
        generation: row.get::<_, i32>(1).unsigned_abs(),
        intent: row.get::<_, i32>(2).unsigned_abs(),
        undone: row.get(3),
    };
    Ok(rows.iter().map(read).collect())
}

/// Of which of some first runs anything is kept. All are of one slot.
pub async fn list_known(cell: SlotCell<'_>, firsts: &[RunId]) -> Result<HashSet<RunId>, ReadError> {
    let ids: Vec<Uuid> = firsts.iter().map(|first| *first.as_uuid()).collect();
    let rows = cell.reader().await?.query(KNOWN, &[&ids]).await?;
    let known = rows.iter().map(|row| RunId::from_uuid(row.get(0)));
    Ok(known.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(generation: u32, intent: u32, undone: bool) -> KeptGeneration {
        KeptGeneration {
            step: "row".to_owned(),
            generation,
            intent,
            undone,
        }
    }

    #[test]
    fn an_undone_effect_is_followed_by_another_and_a_done_one_by_itself() {
        assert_eq!(kept(0, 0, true).next(0), 1);
        assert_eq!(kept(1, 0, false).next(0), 1);
        assert_eq!(kept(2, 0, true).next(0), 3);
    }

    #[test]
    fn a_later_intent_has_a_generation_that_no_effect_had() {
        assert_eq!(
            kept(1, 0, false).next(1),
            2,
            "what was done again is not done once more"
        );
        assert_eq!(kept(0, 0, true).next(3), 3, "intents give generations too");
        assert_eq!(kept(3, 1, true).next(2), 4);
    }
}
