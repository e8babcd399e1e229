//! Looking at a cell after everything has come to rest: record, journal, ledger and destination.

use anyhow::Result;
use semel_testkit::Connection;

use super::journal::{BESIDE, Journal, Objections};
use super::lane::Lane;
use super::placed::Placed;
use super::table::{CrashCell as _, End, Finding, Table};

impl<T: Table> Lane<T> {
    /// Looks at one cell.
    pub(crate) async fn inspect(&self, placed: Placed<T::Cell>) -> Result<Finding<T::Cell>> {
        let Placed { cell, id, runs, .. } = &placed;
        let expected = cell.expect();
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
        journal.check(expected.by, &mut objections);
        check_ledger(&client, &run, &state, &journal, &mut objections).await?;
        check_queue(&client, &run, expected.end, &mut objections).await?;
        let counted = self
            .table
            .count(&client, *cell, id, &journal, &mut objections)
            .await?;
        objections.expect(counted == expected.counted, || {
            format!("{counted:?} instead of {:?}", expected.counted)
        });
        // A seeded bug that is not noticed is told by its journal.
        if !objections.0.is_empty() || self.mistake.is_some() {
            println!("{cell}: {:#?}", journal.events);
        }
        Ok(Finding {
            cell: *cell,
            state,
            counted,
            objections: objections.0,
        })
    }
}

/// The ledger has one entry, and it says what the journal and the record say.
async fn check_ledger(
    client: &Connection,
    run: &str,
    state: &str,
    journal: &Journal,
    objections: &mut Objections,
) -> Result<()> {
    let rows = client
        .query(
            "SELECT state::text, attempt FROM effects
              WHERE run_id = $1::text::uuid AND step <> ALL ($2)",
            &[&run, &BESIDE.as_slice()],
        )
        .await?;
    objections.expect(rows.len() == 1, || format!("{} ledger entries", rows.len()));
    let Some(row) = rows.first() else {
        return Ok(());
    };
    let (entry, attempt): (&str, i32) = (row.get(0), row.get(1));
    let listed = client
        .query_one(
            "SELECT count(*) FROM attention WHERE run_id = $1::text::uuid AND kind = 'doubt'",
            &[&run],
        )
        .await?;
    let listed: i64 = listed.get(0);
    objections.expect(listed == i64::from(entry == "in_doubt"), || {
        format!("the ledger says {entry}, and {listed} doubts are listed")
    });
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

/// A run that has ended is in no queue; one in doubt rests there, held by no server.
async fn check_queue(
    client: &Connection,
    run: &str,
    end: End,
    objections: &mut Objections,
) -> Result<()> {
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
        format!("parked in the queue: {rests:?}")
    });
    Ok(())
}
