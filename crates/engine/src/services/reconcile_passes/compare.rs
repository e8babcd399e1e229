//! Comparing one page with the runs of a flow, and starting what has none.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use jiff::Timestamp;
use semel_flow::release::Reconcile;
use semel_model::run::RunState;
use semel_model::storable::without_zero;
use semel_model::{ClaimId, Fault, Key, RunId, Span};
use semel_store::claims::{self, KnownKey};
use semel_store::reconcile_passes::{ComparedPage, ItemVerdict, ReconcileItem, ReconcilePass};
use serde_json::{Value, json};

use crate::catalogue::Release;
use crate::ingest::{Intake, IntakeError, ListedItem, item_scope};
use crate::runtime::Runtime;

/// How many keys are looked up together.
const LOOK_TOGETHER: usize = 200;

/// How many items are accepted together.
const ACCEPT_TOGETHER: usize = 64;

/// The most characters of a note about an item.
const NOTE_CHARS_MAX: usize = 300;

/// How long before a key may be forgotten its item no longer starts a run, at most.
const KEEP_MARGIN_SECS: u64 = 60;

/// How far the clock of a server may be behind the database's.
const CLOCK_SLACK: Duration = Duration::from_secs(1);

/// One page's comparison.
pub(super) struct Comparison<'a> {
    pub(super) runtime: &'a Arc<Runtime>,
    pub(super) release: &'a Arc<Release>,
    pub(super) reconcile: &'a Reconcile,
    pub(super) pass: &'a ReconcilePass,
    /// Whether another turn may have begun the page before: it failed, or its server died.
    pub(super) again: bool,
}

/// An item with its position in the page.
struct Candidate {
    index: i32,
    item: Value,
    listed: ListedItem,
}

/// What became of an item.
enum Judged {
    LeftOut,
    Unreadable(i32, Option<String>, String),
    Candidate(Candidate),
}

impl Comparison<'_> {
    /// Compares every item of a page; starts a run for each that has none, unless this is a dry run.
    pub(super) async fn make(&self, items: Vec<Value>) -> Result<ComparedPage, Fault> {
        let mut page = ComparedPage::default();
        page.counts.listed = i64::try_from(items.len()).unwrap_or(i64::MAX);
        let mut candidates = Vec::with_capacity(items.len());
        for (index, item) in (0_i32..).zip(items) {
            match self.judge(index, item) {
                Judged::LeftOut => page.counts.left_out += 1,
                Judged::Unreadable(index, key, note) => {
                    add_unreadable(&mut page, index, key, &note)
                }
                Judged::Candidate(candidate) => candidates.push(candidate),
            }
        }
        let mut missing = Vec::new();
        while !candidates.is_empty() {
            let rest = candidates.split_off(candidates.len().min(LOOK_TOGETHER));
            missing.extend(self.look_up(candidates, &mut page).await?);
            candidates = rest;
        }
        self.start_all(missing, &mut page).await?;
        page.items.sort_by_key(|item| item.index);
        Ok(page)
    }

    /// Whether an item belongs to the pass, and under which key.
    fn judge(&self, index: i32, item: Value) -> Judged {
        let scope = item_scope(self.release, &item);
        let wanted = self.reconcile.when.as_ref();
        match wanted.map(|when| when.eval_bool(&scope)) {
            Some(Ok(false)) => return Judged::LeftOut,
            Some(Err(error)) => return Judged::Unreadable(index, None, format!("`when`: {error}")),
            Some(Ok(true)) | None => {}
        }
        let at = match self.reconcile.at.eval(&scope) {
            Ok(at) => read_time(&at),
            Err(error) => return Judged::Unreadable(index, None, format!("`at`: {error}")),
        };
        let listed = ListedItem::read(self.release, self.reconcile, &item);
        match (at, listed) {
            (Some(at), Ok(_)) if !self.is_in_window(at) => Judged::LeftOut,
            (Some(_), Ok(listed)) => Judged::Candidate(Candidate {
                index,
                item,
                listed,
            }),
            (None, listed) => {
                let key = listed.ok().map(|listed| key_text(&listed.key));
                Judged::Unreadable(index, key, "`at` is not a time".to_owned())
            }
            (Some(_), Err(problem)) => Judged::Unreadable(index, None, problem),
        }
    }

    /// Not older than the window, nor than keys are remembered by now; and not so young that its
    /// delivery may still come.
    fn is_in_window(&self, at: Timestamp) -> bool {
        let (now, keep) = (self.runtime.clock.now(), self.release.flow.keep);
        let margin = (keep.as_millis() / 10).min(KEEP_MARGIN_SECS * 1_000);
        let kept = keep.as_millis().saturating_sub(margin);
        let before = |millis: u64| {
            let span = Span::from_millis(millis);
            now.checked_sub(span.to_duration())
                .unwrap_or(Timestamp::MIN)
        };
        let oldest = self.pass.new.window_start.max(before(kept));
        let youngest = before(self.reconcile.grace.as_millis());
        oldest <= at && at <= youngest
    }

    /// Counts those that have a run, and gives the others.
    async fn look_up(
        &self,
        candidates: Vec<Candidate>,
        page: &mut ComparedPage,
    ) -> Result<Vec<Candidate>, Fault> {
        let asked: Vec<ClaimId> = candidates.iter().map(|one| one.listed.claim).collect();
        let with_results = self.reconcile.same.is_some();
        let known = claims::list_known(self.runtime.cell.every(), &asked, with_results);
        let known = known.await.map_err(unavailable)?;
        let known: HashMap<ClaimId, KnownKey> =
            known.into_iter().map(|one| (one.claim, one)).collect();
        let mut missing = Vec::new();
        for candidate in candidates {
            match known.get(&candidate.listed.claim) {
                None => missing.push(candidate),
                Some(found) if self.is_started_here(found).await? => {
                    add_started(page, &candidate, ItemVerdict::Started, Some(found.run));
                }
                Some(found) => {
                    page.counts.known += 1;
                    if let Some(note) = self.difference(&candidate, found) {
                        page.counts.differing += 1;
                        page.items.push(ReconcileItem {
                            index: candidate.index,
                            verdict: ItemVerdict::Differing,
                            key: Some(key_text(&candidate.listed.key)),
                            run: Some(found.run),
                            note,
                        });
                    }
                }
            }
        }
        Ok(missing)
    }

    /// Whether this very page started a run, and its turn ended before it recorded that.
    async fn is_started_here(&self, known: &KnownKey) -> Result<bool, Fault> {
        let Some(record) = &known.record else {
            return Ok(false);
        };
        if !self.again || record.accepted_at + CLOCK_SLACK < self.pass.page_at {
            return Ok(false);
        }
        let by = self.runtime.reconciled_at(known.run, record.accepted_at);
        Ok(by.await.map_err(unavailable)? == Some(self.pass.new.nominal))
    }

    /// How an item differs from the result of its run, where both are known; with what could not be
    /// compared.
    #[expect(
        clippy::option_option,
        reason = "it agrees, it differs, or it differs by an error"
    )]
    fn difference(&self, candidate: &Candidate, known: &KnownKey) -> Option<Option<String>> {
        let same = self.reconcile.same.as_ref()?;
        let record = known.record.as_ref()?;
        if record.state != RunState::Succeeded {
            return None;
        }
        let result: Value = serde_json::from_str(record.result.as_deref()?).ok()?;
        let run = json!({
            "id": known.run.to_string(),
            "key": candidate.listed.key.text(),
            "state": record.state.as_str(),
            "result": result,
        });
        let scope = item_scope(self.release, &candidate.item).with("run", &run);
        match same.eval_bool(&scope) {
            Ok(true) => None,
            Ok(false) => Some(None),
            Err(error) => Some(Some(note(&format!("`same`: {error}")))),
        }
    }

    async fn start_all(
        &self,
        missing: Vec<Candidate>,
        page: &mut ComparedPage,
    ) -> Result<(), Fault> {
        for together in missing.chunks(ACCEPT_TOGETHER) {
            if self.pass.new.dry_run {
                for candidate in together {
                    add_started(page, candidate, ItemVerdict::WouldStart, None);
                }
                continue;
            }
            let started = join_all(together.iter().map(|one| self.start(one))).await;
            for (candidate, started) in together.iter().zip(started) {
                self.count(candidate, started, page)?;
            }
        }
        Ok(())
    }

    async fn start(&self, candidate: &Candidate) -> Result<Intake, IntakeError> {
        let (release, nominal) = (self.release.clone(), self.pass.new.nominal);
        let item = candidate.listed.clone();
        self.runtime.receive_item(release, item, nominal).await
    }

    fn count(
        &self,
        candidate: &Candidate,
        started: Result<Intake, IntakeError>,
        page: &mut ComparedPage,
    ) -> Result<(), Fault> {
        match started {
            Ok(Intake::Accepted(accepted) | Intake::Held(accepted)) => match accepted.replayed {
                // Its delivery came in this very moment, or the page lists it twice.
                true => page.counts.known += 1,
                false => add_started(page, candidate, ItemVerdict::Started, Some(accepted.run)),
            },
            Ok(Intake::Ignored | Intake::Stale(_)) => page.counts.left_out += 1,
            Err(IntakeError::Unavailable(error)) => return Err(unavailable(error)),
            Err(error) => {
                let key = Some(key_text(&candidate.listed.key));
                add_unreadable(page, candidate.index, key, &error.to_string());
            }
        }
        Ok(())
    }
}

fn add_started(
    page: &mut ComparedPage,
    candidate: &Candidate,
    verdict: ItemVerdict,
    run: Option<RunId>,
) {
    page.counts.started += 1;
    page.items.push(ReconcileItem {
        index: candidate.index,
        verdict,
        key: Some(key_text(&candidate.listed.key)),
        run,
        note: None,
    });
}

fn add_unreadable(page: &mut ComparedPage, index: i32, key: Option<String>, problem: &str) {
    page.counts.unreadable += 1;
    page.items.push(ReconcileItem {
        index,
        verdict: ItemVerdict::Unreadable,
        key,
        run: None,
        note: Some(note(problem)),
    });
}

/// The database did not answer: the page is compared again.
fn unavailable(error: impl std::fmt::Display) -> Fault {
    Fault::passing("database-unavailable", error.to_string())
}

/// A key as its item shows it. A key may hold a zero, which a column of text cannot.
fn key_text(key: &Key) -> String {
    without_zero(&key.text()).into_owned()
}

fn note(text: &str) -> String {
    let short: String = text.chars().take(NOTE_CHARS_MAX).collect();
    without_zero(&short).into_owned()
}

/// A time as sources write it: as text with a zone, or in seconds since 1970.
fn read_time(at: &Value) -> Option<Timestamp> {
    match at {
        Value::String(text) => text.trim().parse().ok(),
        Value::Number(number) => {
            let seconds = number.as_f64()?;
            Timestamp::from_millisecond((seconds * 1e3) as i64).ok()
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_text_with_a_zone_or_as_seconds() {
        let at = |value: Value| read_time(&value).map(|at| at.as_second());

        assert_eq!(at(json!("2026-01-02T03:04:05Z")), Some(1_767_323_045));
        assert_eq!(at(json!("2026-01-02T04:04:05+01:00")), Some(1_767_323_045));
        assert_eq!(at(json!(1_767_323_045)), Some(1_767_323_045));
        assert_eq!(at(json!("yesterday")), None);
        assert_eq!(at(json!(1e300)), None);
        assert_eq!(at(json!(null)), None);
    }
}
