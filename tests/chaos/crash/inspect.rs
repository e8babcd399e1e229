//! Looking at a cell after everything has come to rest: record, journal, ledger and destination.

use anyhow::Result;
use semel_testkit::Connection;
use serde_json::Value;

use super::cell::{Cell, Guard};
use super::lane::Lane;
use super::oracle::{End, expect};
use super::round::Placed;

/// The outcome of a cell.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) cell: Cell,
    pub(crate) state: String,
    pub(crate) effects: u64,
    pub(crate) calls: u64,
    /// Everything that is not as it must be.
    pub(crate) objections: Vec<String>,
}

/// Collects what is not as it must be.
#[derive(Default)]
pub(crate) struct Objections(pub(crate) Vec<String>);

impl Objections {
    pub(crate) fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.0.push(what());
        }
    }
}

/// A run's journal.
pub(crate) struct Journal {
    rows: Vec<(i32, i64)>,
    pub(crate) events: Vec<Value>,
}

impl Journal {
    /// Reads the journal of a run.
    pub(crate) async fn read(client: &Connection, run: &str) -> Result<Self> {
        let rows = client
            .query(
                "SELECT seq, epoch, events::text FROM journal
                  WHERE run_id = $1::text::uuid ORDER BY seq",
                &[&run],
            )
            .await?;
        let mut journal = Self {
            rows: Vec::new(),
            events: Vec::new(),
        };
        for row in &rows {
            journal.rows.push((row.get(0), row.get(1)));
            let events: Vec<Value> = serde_json::from_str(row.get(2))?;
            journal.events.extend(events);
        }
        Ok(journal)
    }

    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events
            .iter()
            .filter(move |event| event["event"] == name)
    }
}

impl Lane {
    /// Looks at one cell.
    pub(crate) async fn inspect(&self, placed: Placed) -> Result<Finding> {
        let Placed { cell, id, runs, .. } = &placed;
        let expected = expect(*cell);
        let mut objections = Objections::default();
        let client = self.home.connect().await?;
        let records = client
            .query(
                "SELECT id::text, state::text FROM runs WHERE key = convert_to($1, 'UTF8')",
                &[id],
            )
            .await?;
        objections.expect(records.len() == 1, || format!("{} runs", records.len()));
        let Some(record) = records.first() else {
            anyhow::bail!("{cell}: the run is lost");
        };
        let (run, state): (String, String) = (record.get(0), record.get(1));
        let name = format!("run_{}", run.replace('-', ""));
        objections.expect(runs.iter().all(|answer| *answer == name), || {
            format!("answers name {runs:?}, the record {name}")
        });
        objections.expect(state == expected.end.as_str(), || {
            format!("{state} instead of {}", expected.end.as_str())
        });

        let journal = Journal::read(&client, &run).await?;
        check_journal(&journal, expected.by, &mut objections);
        self.check_ledger(&run, &state, &journal, &mut objections)
            .await?;
        self.check_queue(&run, expected.end, &mut objections)
            .await?;
        let (effects, calls) = self.count(*cell, id, &journal, &mut objections).await?;
        objections.expect(effects == expected.effects, || {
            format!("{effects} effects instead of {}", expected.effects)
        });
        objections.expect(calls == expected.calls, || {
            format!("{calls} calls instead of {}", expected.calls)
        });
        if !objections.0.is_empty() {
            println!("{cell}: {:#?}", journal.events);
        }
        Ok(Finding {
            cell: *cell,
            state,
            effects,
            calls,
            objections: objections.0,
        })
    }

    /// The ledger has one entry, and it says what the journal says.
    async fn check_ledger(
        &self,
        run: &str,
        state: &str,
        journal: &Journal,
        objections: &mut Objections,
    ) -> Result<()> {
        let client = self.home.connect().await?;
        let rows = client
            .query(
                "SELECT state::text, attempt FROM effects WHERE run_id = $1::text::uuid",
                &[&run],
            )
            .await?;
        objections.expect(rows.len() == 1, || format!("{} ledger entries", rows.len()));
        let Some(row) = rows.first() else {
            return Ok(());
        };
        let (entry, attempt): (&str, i32) = (row.get(0), row.get(1));
        let done = journal.named("done").count();
        objections.expect((entry == "done") == (done == 1), || {
            format!("the ledger says {entry}, the journal has {done} done")
        });
        let matching = matches!(
            (state, entry),
            ("succeeded", "done") | ("in_doubt", "in_doubt")
        );
        objections.expect(matching, || {
            format!("the run is {state}, the ledger says {entry}")
        });
        let intents = journal.named("intended").count();
        objections.expect(i64::from(attempt) == intents as i64, || {
            format!("attempt {attempt} in the ledger, {intents} intents in the journal")
        });
        Ok(())
    }

    /// A run that has ended is not in the queue; one in doubt is there, and no session holds it.
    async fn check_queue(&self, run: &str, end: End, objections: &mut Objections) -> Result<()> {
        let client = self.home.connect().await?;
        let row = client
            .query_opt(
                "SELECT holder IS NULL AND stage = 'stopped' AND due_at = 'infinity' FROM queue
                  WHERE run_id = $1::text::uuid",
                &[&run],
            )
            .await?;
        let rests = row.map(|row| row.get::<_, bool>(0));
        let wanted = match end {
            End::Succeeded => None,
            End::InDoubt => Some(true),
        };
        objections.expect(rests == wanted, || {
            format!("stopped in the queue: {rests:?}")
        });
        Ok(())
    }

    /// What the destination counted. Every call must have carried the effect's one key.
    async fn count(
        &self,
        cell: Cell,
        id: &str,
        journal: &Journal,
        objections: &mut Objections,
    ) -> Result<(u64, u64)> {
        let Some(path) = cell.guard.path(id) else {
            assert_eq!(cell.guard, Guard::Transaction, "all others have a path");
            let client = self.home.connect().await?;
            let entry = format!("count/{id}");
            let row = client
                .query_opt(
                    "SELECT value::text::int8 FROM kv WHERE entry = $1",
                    &[&entry],
                )
                .await?;
            let count = row.map_or(0, |row| row.get::<_, i64>(0));
            return Ok((count.unsigned_abs(), 0));
        };
        let count = self.peer.count(&path).await?;
        let keys: Vec<&str> = journal
            .named("intended")
            .filter_map(|event| event["effect"].as_str())
            .collect();
        let same = keys.windows(2).all(|pair| pair[0] == pair[1]);
        objections.expect(same, || format!("several effects: {keys:?}"));
        let key = keys.first().copied().unwrap_or_default();
        let keyed = self.peer.count_of_key(key).await?;
        objections.expect(keyed.calls == count.calls, || {
            format!(
                "{} of {} calls carried the effect's key",
                keyed.calls, count.calls
            )
        });
        Ok((count.effects, count.calls))
    }
}

/// Rows follow each other without a gap, under epochs that only grow; the effect is done once, and
/// confirmed by what it must be.
pub(crate) fn check_journal(journal: &Journal, by: Option<&str>, objections: &mut Objections) {
    let gapless = journal
        .rows
        .iter()
        .zip(1..)
        .all(|((seq, _), wanted)| *seq == wanted);
    objections.expect(gapless, || format!("rows are numbered {:?}", journal.rows));
    let growing = journal.rows.windows(2).all(|pair| pair[0].1 <= pair[1].1);
    objections.expect(growing, || format!("leases go back: {:?}", journal.rows));
    let done: Vec<&str> = journal
        .named("done")
        .filter_map(|event| event["by"].as_str())
        .collect();
    objections.expect(done == by.into_iter().collect::<Vec<_>>(), || {
        format!("done by {done:?} instead of {by:?}")
    });
    let ended = journal.named("ended").count();
    objections.expect(ended == usize::from(by.is_some()), || {
        format!("ended {ended} times")
    });
}
