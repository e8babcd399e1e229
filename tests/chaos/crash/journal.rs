//! A run's journal, and what is not as it must be.

use anyhow::Result;
use semel_testkit::{Connection, Peer};
use serde_json::Value;

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

/// Steps that commit together with the one that is looked at.
pub(crate) const BESIDE: [&str; 2] = ["told", "other"];

/// A run's journal.
pub(crate) struct Journal {
    rows: Vec<(i32, i64)>,
    pub(crate) events: Vec<Value>,
    /// Those of steps that commit together with the one that is looked at.
    beside: Vec<Value>,
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
            beside: Vec::new(),
        };
        for row in &rows {
            journal.rows.push((row.get(0), row.get(1)));
            let events: Vec<Value> = serde_json::from_str(row.get(2))?;
            journal.events.extend(events);
        }
        let beside = |event: &Value| BESIDE.iter().any(|step| event["step"] == *step);
        (journal.beside, journal.events) = journal.events.into_iter().partition(beside);
        Ok(journal)
    }

    pub(crate) fn named<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Value> {
        self.events
            .iter()
            .filter(move |event| event["event"] == name)
    }

    /// Rows follow on each other without a gap, under leases that only grow; the effect is done
    /// once, on the word of whom it must be.
    pub(crate) fn check(&self, by: Option<&str>, objections: &mut Objections) {
        let gapless = self
            .rows
            .iter()
            .zip(1..)
            .all(|((seq, _), wanted)| *seq == wanted);
        objections.expect(gapless, || format!("rows are numbered {:?}", self.rows));
        let growing = self.rows.windows(2).all(|pair| pair[0].1 <= pair[1].1);
        objections.expect(growing, || format!("leases go back: {:?}", self.rows));
        let done: Vec<&str> = self
            .named("done")
            .filter_map(|event| event["by"].as_str())
            .collect();
        objections.expect(done == by.into_iter().collect::<Vec<_>>(), || {
            format!("done by {done:?} instead of {by:?}")
        });
        for step in BESIDE {
            let is_done = |event: &&Value| event["step"] == step && event["event"] == "done";
            let times = self.beside.iter().filter(is_done).count();
            objections.expect(times <= 1, || format!("{step} is done {times} times"));
        }
        let ended = self.named("ended").count();
        objections.expect(ended == usize::from(by.is_some()), || {
            format!("ended {ended} times")
        });
    }

    /// The journal has one effect, and every request to its destination carried that one's key.
    pub(crate) async fn check_key(
        &self,
        peer: &Peer,
        calls: u64,
        objections: &mut Objections,
    ) -> Result<()> {
        let keys: Vec<&str> = self
            .named("intended")
            .filter_map(|event| event["effect"].as_str())
            .collect();
        let same = keys.windows(2).all(|pair| pair[0] == pair[1]);
        objections.expect(same, || format!("several effects: {keys:?}"));
        let key = keys.first().copied().unwrap_or_default();
        let keyed = peer.count_of_key(key).await?;
        objections.expect(keyed.calls == calls, || {
            format!("{} of {calls} calls carried the effect's key", keyed.calls)
        });
        Ok(())
    }
}
