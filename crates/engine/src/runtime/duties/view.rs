//! Background services as operators see them: whether each is done in time, and what to do if not.

use std::time::Duration;

use jiff::Timestamp;
use semel_store::duties::DutyDone;

use super::record::ServiceRecord;
use super::{Marks, before, between};
use crate::runtime::Roster;

/// Whether a background service is done in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeliness {
    /// It is.
    OnTime,
    /// Its holders finish nothing, and another server does it.
    Covered,
    /// Nobody has finished a pass for too long.
    Late,
}

/// The last pass of a service that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassFailure {
    /// When it failed.
    pub at: Timestamp,
    /// Host and process number of the server.
    pub by: String,
    /// Why.
    pub error: String,
}

/// A background service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceView {
    /// Its name in logs and metrics.
    pub name: &'static str,
    /// Whether it is a duty, which one server or a few do for all; else each server does it for itself.
    pub is_duty: bool,
    /// Whether this server does it now.
    pub is_held_here: bool,
    /// Whether it is done in time.
    pub timeliness: Timeliness,
    /// How long ago a pass was finished: of a duty by any server, of any other service by this one. Where none is known,
    /// for how long this server has watched.
    pub silent: Duration,
    /// How long that may be.
    pub late_after: Duration,
    /// The process that last finished a pass as a holder; none before the first.
    pub finished_by: Option<String>,
    /// The process that last finished a pass because the duty was late; none if it never was.
    pub covered_by: Option<String>,
    /// The last pass that failed; none if none did.
    pub failure: Option<PassFailure>,
    /// Whether that was after the last pass that was finished.
    pub is_failing: bool,
}

impl ServiceView {
    /// A duty, by what all servers say.
    pub(super) fn of_duty(
        record: &ServiceRecord,
        marks: &Marks,
        now: Timestamp,
        roster: &Roster,
    ) -> Self {
        let silence = marks.silence_of(record.name, now);
        let timeliness = if silence.of_all > record.late_after {
            Timeliness::Late
        } else if silence.of_holders > record.late_after {
            Timeliness::Covered
        } else {
            Timeliness::OnTime
        };
        let (finished, covered) = marks.last_passes(record.name);
        let last = finished.max(covered);
        let mark = marks.by_duty.get(record.name);
        let by = |done: &DutyDone| done.by.clone();
        let failure = mark.and_then(|mark| mark.failed.as_ref());
        let failure = failure.map(|(done, error)| PassFailure {
            at: done.at,
            by: by(done),
            error: error.clone(),
        });
        let is_after_last = |failure: &PassFailure| last.is_none_or(|last| failure.at > last);
        let since = last.or(marks.watched_since);
        Self {
            name: record.name,
            is_duty: true,
            is_held_here: record.is_held(roster),
            timeliness,
            silent: since.map_or(Duration::ZERO, |since| between(since, now)),
            late_after: record.late_after,
            finished_by: mark.and_then(|mark| mark.finished.as_ref()).map(by),
            covered_by: mark.and_then(|mark| mark.covered.as_ref()).map(by),
            is_failing: failure.as_ref().is_some_and(is_after_last),
            failure,
        }
    }

    /// A service that every server does for itself, of the process that looks.
    pub(super) fn of_own(record: &ServiceRecord, now: Timestamp, process: &str) -> Self {
        let silent = record.own_silence();
        record.read(|said| {
            let is_after_last = |at| said.finished.is_none_or(|finished| at > finished);
            let failed = said.failed.as_ref();
            Self {
                name: record.name,
                is_duty: false,
                is_held_here: true,
                timeliness: match silent > record.late_after {
                    true => Timeliness::Late,
                    false => Timeliness::OnTime,
                },
                silent,
                late_after: record.late_after,
                finished_by: said.finished.map(|_| process.to_owned()),
                covered_by: None,
                is_failing: failed.is_some_and(|(at, _)| is_after_last(*at)),
                failure: failed.map(|(at, error)| PassFailure {
                    at: before(now, *at),
                    by: process.to_owned(),
                    error: error.clone(),
                }),
            }
        })
    }

    /// Advice for operators: the work that stays undone, the cause, and the remedy. Nothing while the service is in time.
    pub fn what_to_do(&self) -> Option<String> {
        let name = self.name;
        let holder = self.finished_by.as_deref().unwrap_or("its server");
        let failure = self.failure.as_ref().filter(|_| self.is_failing);
        match (self.timeliness, failure) {
            (Timeliness::OnTime, _) => None,
            (Timeliness::Covered, _) => {
                let other = self.covered_by.as_deref().unwrap_or("another server");
                Some(format!(
                    "{other} does it meanwhile. On {holder} a pass hangs or fails: read its log for {name}, \
                     and restart it"
                ))
            }
            (Timeliness::Late, Some(PassFailure { by, error, .. })) => Some(format!(
                "{}. Passes fail on {by}: {error}. Mend that, and the service goes on by itself",
                undone(name)
            )),
            (Timeliness::Late, None) => Some(format!(
                "{}. A pass hangs, or no live server does it: read the log of {holder} for {name}, and \
                 restart it",
                undone(name)
            )),
        }
    }
}

/// The work that stays undone while a service is late.
pub(super) fn undone(service: &str) -> &'static str {
    match service {
        "alerts" => "People are not told of doubts and stopped runs",
        "audit_seal" => "New acts of the audit record are not sealed",
        "cache_refresh" => {
            "This server follows changes of flows, secrets and pauses late or not at all"
        }
        "duty_marks" => "This server does not say what it does, and takes no duty that is late",
        "broadcasts" => "Runs that wait for events are not woken",
        "gate_exits" | "gate_repair" => {
            "Runs that wait for others of their object may wait too long"
        }
        "lease_renewal" => "This server loses its lease, and others take over its runs",
        "name_repair" => "Runs that wait for a business key may wait too long",
        "once_lapse" => "Scripts that were lost are not put in doubt",
        "outbound_webhooks" => "Events are not delivered to subscribed webhooks",
        "outbox_dispatch" => "Events and calls reach no flow",
        "partition_upkeep" => "Months to come have no partitions",
        "pause_drain" => "Runs do not continue after a pause",
        "poller" => "This server takes no runs",
        "reconcile_passes" => "Sources are not compared with runs",
        "reconciliation" | "recovery" => "Runs that a server lost are not continued",
        "replay_plans" => "Replay plans stand still",
        "resource_cleanup" | "resource_scan" => "Large outputs whose time is over stay",
        "retention" => "Deliveries, answers and records whose time is over stay",
        "retention_archive" => "Files of the archive whose time is over stay",
        "retention_audit" => "Acts of the audit record whose time is over stay",
        "retention_keys" => "Keys whose time is over are not freed",
        "retention_runs" => "Runs whose history is over stay, and the database grows",
        "run_jobs" => "Jobs stand still",
        "scheduler" => "Schedules start no runs",
        "tallies" => "Counts of this server are not in the overview",
        "wake_repair" => "Runs that slept through their answer are not woken",
        _ => "Its work is not done",
    }
}
