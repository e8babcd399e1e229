//! Looking at a cell after everything has come to rest: record, journal, ledger and destination.

use std::time::Duration;

use anyhow::{Context, Result};
use semel_testkit::Connection;
use tokio::time::{Instant, sleep};

use super::super::inspect::{Journal, Objections, check_journal};
use super::kind::{Cell, Kind};
use super::oracle::expect;
use super::play::{Lane, Placed};

/// How long an event may take to be dispatched by a server that looks once a second.
const SPREAD_PATIENCE: Duration = Duration::from_secs(15);

/// How often something outside is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The outcome of a cell.
pub(super) struct Finding {
    pub(super) cell: Cell,
    pub(super) state: String,
    pub(super) effects: u64,
    /// Everything that is not as it must be.
    pub(super) objections: Vec<String>,
}

impl Lane<'_> {
    /// Looks at one cell.
    pub(super) async fn inspect(&self, placed: &Placed) -> Result<Finding> {
        let Placed { cell, id, .. } = placed;
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
        let record = records.first().context("the run is lost")?;
        let (run, state): (String, String) = (record.get(0), record.get(1));
        objections.expect(state == expected.end.as_str(), || {
            format!("{state} instead of {}", expected.end.as_str())
        });
        let journal = Journal::read(&client, &run).await?;
        check_journal(&journal, expected.by, &mut objections);
        check_ledger(&client, &run, &state, &mut objections).await?;
        if cell.kind == Kind::Emit {
            until_spread(&client).await?;
        }
        let effects = self.places.count(&client, cell.kind, id).await?;
        objections.expect(effects == expected.effects, || {
            format!("{effects} effects instead of {}", expected.effects)
        });
        if cell.kind == Kind::Http {
            self.check_key(id, &journal, &mut objections).await?;
        }
        if !objections.0.is_empty() {
            println!("{cell}: {:#?}", journal.events);
        }
        Ok(Finding {
            cell: *cell,
            state,
            effects,
            objections: objections.0,
        })
    }

    /// Every request carried the effect's one key.
    async fn check_key(
        &self,
        id: &str,
        journal: &Journal,
        objections: &mut Objections,
    ) -> Result<()> {
        let intended = journal.named("intended").next();
        let key = intended.and_then(|event| event["effect"].as_str());
        let keyed = self
            .places
            .peer
            .count_of_key(key.unwrap_or_default())
            .await?;
        let count = self.places.peer.count(&format!("/keyed/{id}")).await?;
        objections.expect(keyed.calls == count.calls, || {
            format!("{} of {} calls carried the key", keyed.calls, count.calls)
        });
        Ok(())
    }
}

/// The ledger has one entry, and it says what the record says.
async fn check_ledger(
    client: &Connection,
    run: &str,
    state: &str,
    objections: &mut Objections,
) -> Result<()> {
    let entries = "SELECT state::text FROM effects WHERE run_id = $1::text::uuid";
    let rows = client.query(entries, &[&run]).await?;
    let entries: Vec<&str> = rows.iter().map(|row| row.get(0)).collect();
    let matching = matches!(
        (state, entries.as_slice()),
        ("succeeded", ["done"]) | ("in_doubt", ["in_doubt"])
    );
    objections.expect(matching, || {
        format!("the run is {state}, the ledger says {entries:?}")
    });
    Ok(())
}

/// Waits until every event is with its receivers, and those have ended.
async fn until_spread(client: &Connection) -> Result<()> {
    let deadline = Instant::now() + SPREAD_PATIENCE;
    loop {
        let under_way = "SELECT (SELECT count(*) FROM outbox)
                              + (SELECT count(*) FROM runs WHERE state = 'active')";
        let row = client.query_one(under_way, &[]).await?;
        if row.get::<_, i64>(0) == 0 || Instant::now() > deadline {
            return Ok(());
        }
        sleep(LOOK_EVERY).await;
    }
}
