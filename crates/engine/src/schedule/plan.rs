//! What becomes of instants that are due. Pure: the clock's reading is handed in.
//!
//! Of the instants that are not decided yet, the last is the current one; those before it were
//! overtaken. The policy says which of them start runs:
//!
//! ```text
//!           overtaken     the last, in time     the last, too late
//! skip      skipped       fired                 skipped
//! once      skipped       fired                 fired
//! all       fired, the latest `most` of all; older ones are skipped
//! ```

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use semel_flow::Missed;
use semel_flow::release::Schedule;

use crate::catalogue::Release;

/// How late an instant may be decided and still be in time: a restart is no reason to miss it.
pub(crate) const IN_TIME: Duration = Duration::from_secs(300);

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// The instant has a run.
    Fire(Timestamp),
    /// These instants start nothing.
    Skip(Stretch),
}

/// Instants that are skipped together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    pub(super) instants: i64,
    pub(super) reason: &'static str,
}

impl Stretch {
    /// The same instants, of which some have runs.
    pub(super) fn split(&self, instants: &[Timestamp], fired: &HashSet<Timestamp>) -> Vec<Call> {
        let mut calls = vec![];
        let mut skipped = None;
        for instant in instants {
            if fired.contains(instant) {
                calls.extend(skipped.take().map(Call::Skip));
                calls.push(Call::Fire(*instant));
            } else {
                add(&mut skipped, *instant, self.reason);
            }
        }
        calls.extend(skipped.map(Call::Skip));
        calls
    }
}

/// What a schedule rests on when it is decided.
pub(super) struct Basis {
    /// The release whose rhythm was in force.
    pub(super) former: Option<Arc<Release>>,
    /// The live release, if it has a schedule.
    pub(super) live: Option<Arc<Release>>,
    /// Since when the live release is live, where that is kept.
    pub(super) since: Option<Timestamp>,
    pub(super) decided_to: Timestamp,
    pub(super) paused_at: Option<Timestamp>,
    pub(super) now: Timestamp,
}

/// What is decided about a schedule.
pub(super) struct Plan {
    /// In the order of their instants, each with the release that names it.
    pub(super) calls: Vec<(Arc<Release>, Call)>,
    /// The release in force from now on.
    pub(super) release: Option<Arc<Release>>,
    pub(super) decided_to: Timestamp,
    /// Whether everything up to now is decided.
    pub(super) whole: bool,
}

impl Plan {
    /// Decides everything up to now: what the former release named until it was replaced, then
    /// what the live one names. At most `fires` runs; what is left is due at once.
    pub(super) fn make(basis: &Basis, fires: usize) -> Self {
        let mut plan = Self {
            calls: vec![],
            release: basis.former.clone(),
            decided_to: basis.decided_to,
            whole: false,
        };
        let id = |release: &Option<Arc<Release>>| release.as_ref().map(|release| release.id);
        if id(&basis.former) != id(&basis.live) {
            let until = basis.since.unwrap_or(basis.now).min(basis.now);
            if !plan.go_on(basis, until, fires) {
                return plan;
            }
            plan.release = basis.live.clone();
        }
        plan.whole = plan.go_on(basis, basis.now, fires);
        plan
    }

    /// Decides what the release in force names up to an instant; false where not all of it.
    fn go_on(&mut self, basis: &Basis, until: Timestamp, fires: usize) -> bool {
        if until <= self.decided_to {
            return true;
        }
        let release = self.release.clone();
        let calls = release.iter().flat_map(|release| {
            let schedule = release.flow.trigger.schedule.as_ref();
            let calls = schedule.map(|schedule| {
                decide(schedule, self.decided_to, until, basis.paused_at, basis.now)
            });
            let calls = calls.into_iter().flatten();
            calls.map(|call| (release.clone(), call))
        });
        for (release, call) in calls.collect::<Vec<_>>() {
            let fired = |(_, call): &&(Arc<Release>, Call)| matches!(call, Call::Fire(_));
            if matches!(call, Call::Fire(_)) && self.calls.iter().filter(fired).count() >= fires {
                return false;
            }
            self.decided_to = call.last();
            self.calls.push((release, call));
        }
        self.decided_to = until;
        true
    }
}

impl Call {
    fn last(&self) -> Timestamp {
        match self {
            Self::Fire(nominal) => *nominal,
            Self::Skip(stretch) => stretch.last,
        }
    }
}

/// What becomes of the instants after one, up to another.
pub(super) fn decide(
    schedule: &Schedule,
    after: Timestamp,
    until: Timestamp,
    paused_at: Option<Timestamp>,
    now: Timestamp,
) -> Vec<Call> {
    let (keep, reason) = match schedule.missed {
        Missed::Skip | Missed::Once => (1, "missed"),
        Missed::All => (schedule.most as usize, "capped"),
    };
    let mut current = VecDeque::new();
    let mut overtaken = None;
    let mut paused = None;
    let instants = schedule.rhythm.after(after);
    for instant in instants.take_while(|instant| *instant <= until) {
        if paused_at.is_some_and(|since| instant > since) {
            add(&mut paused, instant, "paused");
            continue;
        }
        current.push_back(instant);
        if current.len() > keep
            && let Some(oldest) = current.pop_front()
        {
            add(&mut overtaken, oldest, reason);
        }
    }
    if schedule.missed == Missed::Skip
        && let Some(last) = current.back().copied()
        && now.duration_since(last).unsigned_abs() > IN_TIME
    {
        current.clear();
        add(&mut overtaken, last, reason);
    }
    let skipped = overtaken.map(Call::Skip).into_iter();
    skipped
        .chain(current.into_iter().map(Call::Fire))
        .chain(paused.map(Call::Skip))
        .collect()
}

fn add(stretch: &mut Option<Stretch>, instant: Timestamp, reason: &'static str) {
    match stretch {
        Some(stretch) => {
            stretch.last = instant;
            stretch.instants += 1;
        }
        None => {
            *stretch = Some(Stretch {
                first: instant,
                last: instant,
                instants: 1,
                reason,
            });
        }
    }
}

#[cfg(test)]
mod tests;
