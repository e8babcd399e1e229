//! Erasing runs within a file: what they did and under which keys stays, what was said in them goes.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use jiff::Timestamp;
use parquet::errors::ParquetError;
use semel_api::types::{Run, RunDetail, RunStatus};
use semel_engine::ArchiveError;
use semel_model::event::NameEvent;
use semel_model::{Event, NamedEffectId, RunId};
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::file::{ArchivedRow, FileWriter, FinishedFile, for_each};
use super::{broken, detail};

/// What stands where something was erased.
const ERASED: &str = "erased";

/// A file that is to be written.
pub(super) struct Rewritten {
    pub(super) file: FinishedFile,
    pub(super) said: Said,
}

/// What the erased runs named that is kept elsewhere.
#[derive(Default)]
pub(super) struct Said {
    pub(super) keys: BTreeSet<String>,
    pub(super) names: BTreeSet<(NamedEffectId, RunId)>,
    pub(super) started: BTreeSet<RunId>,
}

/// A file without what was said in some of its runs. Nothing where all of them are erased already.
pub(super) fn rewrite(
    object: &str,
    file: Bytes,
    runs: &HashSet<String>,
    at: Timestamp,
) -> Result<Option<Rewritten>, ArchiveError> {
    let wrong = |error: ParquetError| broken(object, error);
    let mut writer = FileWriter::new().map_err(wrong)?;
    let (mut said, mut has_erased) = (Said::default(), false);
    let copied = for_each(file, |row| {
        if !runs.contains(&row.run) {
            return writer.add(row);
        }
        let (row, is_new) = erase_row(row, at, &mut said)?;
        has_erased |= is_new;
        writer.add(row)
    });
    copied.map_err(wrong)?;
    if !has_erased {
        return Ok(None);
    }
    let file = writer.finish().map_err(wrong)?;
    Ok(Some(Rewritten { file, said }))
}

/// The row without what was said, and whether anything was left to erase.
fn erase_row(
    mut row: ArchivedRow,
    at: Timestamp,
    said: &mut Said,
) -> Result<(ArchivedRow, bool), ParquetError> {
    let unread = |why: &dyn std::error::Error| ParquetError::General(why.to_string());
    let id: RunId = row.run.parse().map_err(|error| unread(&error))?;
    said.keys.insert(row.key.clone());
    // One that another version wrote and this one cannot read keeps what the columns say.
    let read = serde_json::from_str(&row.detail);
    let mut detail = read.unwrap_or_else(|_| bare(id, &row));
    let items = detail::read_items(&row.detail);
    let mut items = items.map_or_else(|_| Vec::new(), |read| read.items);
    note(&detail, said);
    erase(&mut detail, at);
    let faults = items.iter_mut().filter_map(|item| item.fault.as_mut());
    faults.for_each(erase_fault);
    let erased = detail::write(&detail, &items).map_err(|error| unread(&error))?;
    let is_new = erased != row.detail;
    row.detail = erased;
    Ok((row, is_new))
}

/// What the columns say of a run.
fn bare(id: RunId, row: &ArchivedRow) -> RunDetail {
    RunDetail {
        run: Run {
            id,
            flow: row.flow.clone(),
            release: row.release,
            key: row.key.clone(),
            state: row.state.parse().unwrap_or(RunStatus::Failed),
            accepted_at: row.accepted_at,
            ended_at: Some(row.ended_at),
            due_at: None,
            result: None,
            fault: None,
            cancelling: false,
            parent: None,
            erased_at: None,
            archived_at: None,
        },
        gate: None,
        paused: None,
        waits_for_key: None,
        effects: Vec::new(),
        waits: Vec::new(),
        child_runs: Vec::new(),
        acts: Vec::new(),
        under_key: None,
        journal: Vec::new(),
    }
}

/// Notes what a run's journal names that is kept elsewhere.
fn note(detail: &RunDetail, said: &mut Said) {
    for event in detail.journal.iter().flat_map(|line| &line.events) {
        let Ok(event) = Event::deserialize(&event.event) else {
            continue;
        };
        if let Event::Named {
            named: NameEvent::Asked { name, .. },
            ..
        } = &event
        {
            said.names.insert((*name, detail.run.id));
        }
        if let Event::Started { run, .. } = &event {
            said.started.insert(*run);
        }
    }
}

/// Leaves states, names, keys, times and what destinations call what was made.
fn erase(detail: &mut RunDetail, at: Timestamp) {
    let run = &mut detail.run;
    run.erased_at = run.erased_at.or(Some(at));
    run.result.iter_mut().for_each(erase_value);
    run.fault.iter_mut().for_each(erase_fault);
    for effect in &mut detail.effects {
        effect.note = None;
        effect.sent = None;
        effect.find_url = None;
        effect.attended = None;
        effect.acts.clear();
    }
    let payloads = detail.waits.iter_mut().filter_map(|it| it.payload.as_mut());
    payloads.for_each(erase_value);
    // What people said goes with it; the audit record tells the rest for as long as it is kept.
    detail.acts.clear();
    for line in &mut detail.journal {
        line.events.clear();
    }
}

fn erase_fault(fault: &mut Value) {
    *fault = json!({"code": fault["code"], "message": ERASED, "retryable": false});
}

fn erase_value(value: &mut Value) {
    *value = Value::from(ERASED);
}

#[cfg(test)]
mod tests {
    use semel_api::types::{ChildRun, ChildRunState};
    use uuid::Uuid;

    use super::*;

    #[test]
    fn the_items_of_an_erased_run_stay_listed_and_their_faults_go() {
        let id = RunId::from_uuid(Uuid::from_u128(1 << 64));
        let item = ChildRun {
            step: "each".to_owned(),
            index: 0,
            key: "one".to_owned(),
            run: id,
            state: ChildRunState::Failed,
            run_state: Some(RunStatus::Failed),
            result: None,
            fault: Some(json!({"code": "no", "message": "planted", "retryable": true})),
        };
        let mut row = ArchivedRow {
            run: id.to_string(),
            namespace: "main".to_owned(),
            flow: "orders".to_owned(),
            release: 1,
            key: "o-1".to_owned(),
            state: "failed".to_owned(),
            accepted_at: Timestamp::UNIX_EPOCH,
            ended_at: Timestamp::UNIX_EPOCH,
            detail: String::new(),
        };
        row.detail = detail::write(&bare(id, &row), std::slice::from_ref(&item)).unwrap();
        assert!(row.detail.contains("planted"));

        let mut said = Said::default();
        let (row, is_new) = erase_row(row, Timestamp::UNIX_EPOCH, &mut said).unwrap();
        let (row, is_new_again) = erase_row(row, Timestamp::UNIX_EPOCH, &mut said).unwrap();

        let items = detail::read_items(&row.detail).unwrap().items;
        assert_eq!((items.len(), items[0].key.as_str()), (1, "one"));
        assert!(!row.detail.contains("planted"), "{}", row.detail);
        assert_eq!((is_new, is_new_again), (true, false));
    }
}
