//! One flight of statements: sent together, answered together, ended by `COMMIT`.
//!
//! The server works through them in order. When one fails, the transaction is aborted, all that
//! follow are refused, and the `COMMIT` at the end rolls back.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;

use futures_util::future::join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};
use uuid::Uuid;

use super::columns::{Columns, Fence, Fences, OpenedWaits, Records};
#[cfg(feature = "faults")]
use super::mistaken::mistaken;
use super::{APPEND, EXAMINE, FENCE, FENCE_END};
use crate::link::Ready;
use crate::{effects, evidence, kv, runs, waits};

/// What the journal writer prepares.
pub(super) const STATEMENTS: &[&str] = &[
    FENCE,
    FENCE_END,
    APPEND,
    EXAMINE,
    effects::INSERT,
    effects::UPDATE,
    waits::OPEN,
    waits::WAKE_EARLY,
    waits::ELAPSE,
    waits::CANCEL,
    evidence::HEAR,
    runs::UPDATE,
    kv::SET,
    kv::DELETE,
    kv::ADD,
    kv::SET_IF_ABSENT,
    kv::READ,
    #[cfg(feature = "faults")]
    super::mistaken::NO_FENCE,
    #[cfg(feature = "faults")]
    super::mistaken::NO_FENCE_END,
    #[cfg(feature = "faults")]
    super::mistaken::APPEND_ANYWHERE,
];

#[cfg(not(feature = "faults"))]
fn mistaken(text: &'static str) -> &'static str {
    text
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;

/// Statements that travel together.
pub(super) struct Flight<'a> {
    ready: Ready<'a>,
    sent: Vec<Answer<'a>>,
    /// Where the answer stands that tells which runs a person wants to end.
    fence: Option<usize>,
}

impl<'a> Flight<'a> {
    /// Opens the transaction.
    pub(super) fn begin(ready: Ready<'a>) -> Self {
        let mut flight = Self::go_on(ready);
        flight.simple("BEGIN");
        flight
    }

    /// Goes on in a transaction that is open.
    pub(super) fn go_on(ready: Ready<'a>) -> Self {
        Self {
            ready,
            sent: Vec::with_capacity(12),
            fence: None,
        }
    }

    fn simple(&mut self, text: &'static str) {
        let client = self.ready.client;
        self.sent.push(Box::pin(async move {
            client.batch_execute(text).await.map(|()| Vec::new())
        }));
    }

    fn send(&mut self, text: &'static str, values: Vec<&'a (dyn ToSql + Sync)>) {
        let Ready { client, .. } = self.ready;
        let statement = self.ready.statement(mistaken(text));
        self.sent.push(Box::pin(
            async move { client.query(statement, &values).await },
        ));
    }

    /// Lets through only transitions whose lease still holds.
    pub(super) fn fence(&mut self, fences: &'a Fences) {
        let Fence {
            runs,
            epochs,
            seqs,
            holders,
            count,
        } = &fences.going_on;
        if *count > 0 {
            self.fence = Some(self.sent.len());
            self.send(
                FENCE,
                vec![
                    runs,
                    epochs,
                    seqs,
                    holders,
                    &fences.holds,
                    &fences.dues,
                    &fences.stages,
                    count,
                    &fences.saw_cancels,
                ],
            );
        }
        let Fence {
            runs,
            epochs,
            seqs,
            holders,
            count,
        } = &fences.ending;
        if *count > 0 {
            self.send(FENCE_END, vec![runs, epochs, seqs, holders, count]);
        }
    }

    fn write(&mut self, fences: &'a Fences, columns: &'a Columns<'a>) {
        let Fence {
            runs, epochs, seqs, ..
        } = &columns.all;
        self.send(
            APPEND,
            vec![&columns.born, runs, seqs, epochs, &columns.events],
        );
        if let Some(values) = columns.new_effects.insert_values() {
            self.send(effects::INSERT, values);
        }
        if let Some(values) = columns.old_effects.update_values() {
            self.send(effects::UPDATE, values);
        }
        self.write_waits(fences, columns);
        if !fences.parked.is_empty() {
            self.send(evidence::HEAR, vec![&fences.parked]);
        }
        if let Some(values) = columns.sets.set_values() {
            self.send(kv::SET, values);
        }
        if let Some(values) = columns.deletes.delete_values() {
            self.send(kv::DELETE, values);
        }
        let Records {
            runs,
            states,
            results,
            faults,
            ended,
        } = &columns.records;
        if !runs.is_empty() {
            self.send(runs::UPDATE, vec![runs, states, results, faults, ended]);
        }
        self.simple("COMMIT");
    }

    fn write_waits(&mut self, fences: &'a Fences, columns: &'a Columns<'a>) {
        let OpenedWaits {
            ids,
            runs,
            steps,
            untils,
        } = &columns.opened;
        if !ids.is_empty() {
            self.send(waits::OPEN, vec![ids, runs, steps, untils]);
            self.send(waits::WAKE_EARLY, vec![ids]);
        }
        if columns.elapsed_count > 0 {
            self.send(
                waits::ELAPSE,
                vec![&columns.elapsed, &columns.elapsed_count],
            );
        }
        if fences.ending.count > 0 {
            let Fences {
                ending,
                ending_lows,
                ending_highs,
                ..
            } = fences;
            self.send(waits::CANCEL, vec![&ending.runs, ending_lows, ending_highs]);
        }
    }

    /// Writes everything that stands behind the fence, commits, and waits for every answer.
    pub(super) async fn land_with<'b>(
        self,
        fences: &'b Fences,
        columns: &'b Columns<'b>,
    ) -> Result<HashSet<Uuid>, Error>
    where
        'a: 'b,
    {
        let mut flight: Flight<'b> = self;
        flight.write(fences, columns);
        flight.land().await
    }

    /// Waits for every answer; says which runs a person wants to end.
    pub(super) async fn land(self) -> Result<HashSet<Uuid>, Error> {
        let mut cancelled = HashSet::new();
        for (index, answer) in join_all(self.sent).await.into_iter().enumerate() {
            let rows = answer?;
            if self.fence == Some(index)
                && let Some(row) = rows.first()
            {
                let asked: Option<Vec<Uuid>> = row.get(1);
                cancelled.extend(asked.unwrap_or_default());
            }
        }
        Ok(cancelled)
    }
}
