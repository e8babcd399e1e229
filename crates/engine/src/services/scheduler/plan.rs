//! Which due instants start runs. Pure: the current time is an argument.
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
use semel_flow::release::ScheduleTrigger;

use crate::catalogue::Release;

/// How late an instant may be decided and still be in time: a restart is no reason to miss it.
pub(crate) const IN_TIME: Duration = Duration::from_secs(300);

/// How much is decided in one go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// How many runs are started.
    pub(crate) fires: usize,
    /// How many instants are skipped: each is looked for among the runs.
    pub(crate) skips: usize,
}

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TickAction {
    /// The instant has a run.
    Fire(Timestamp),
    /// These instants start nothing.
    Skip(Stretch),
}

/// Instants that are skipped together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    pub(crate) instants: i64,
    pub(crate) reason: &'static str,
}

impl Stretch {
    /// The same instants, of which some have runs.
    pub(crate) fn split(
        &self,
        instants: &[Timestamp],
        fired: &HashSet<Timestamp>,
    ) -> Vec<TickAction> {
        let mut calls = vec![];
        let mut skipped = None;
        for instant in instants {
            if fired.contains(instant) {
                calls.extend(skipped.take().map(TickAction::Skip));
                calls.push(TickAction::Fire(*instant));
            } else {
                add(&mut skipped, *instant, self.reason);
            }
        }
        calls.extend(skipped.map(TickAction::Skip));
        calls
    }
}

/// What a schedule rests on when it is decided.
pub(crate) struct Basis {
    /// The release whose recurrence was in force.
    pub(crate) former: Option<Arc<Release>>,
    /// The live release, if it has a schedule.
    pub(crate) live: Option<Arc<Release>>,
    /// Since when the live release is live, where that is kept.
    pub(crate) since: Option<Timestamp>,
    pub(crate) decided_to: Timestamp,
    pub(crate) paused_at: Option<Timestamp>,
    pub(crate) now: Timestamp,
}

/// What is decided about a schedule.
pub(crate) struct Plan {
    /// In the order of their instants, each with the release that names it.
    pub(crate) calls: Vec<(Arc<Release>, TickAction)>,
    /// The release in force from now on.
    pub(crate) release: Option<Arc<Release>>,
    pub(crate) decided_to: Timestamp,
    /// Whether everything up to now is decided.
    pub(crate) whole: bool,
    /// What is left for other schedules.
    pub(crate) room: Room,
}

impl Plan {
    /// Decides everything up to now: what the former release named until it was replaced, then
    /// what the live one names. What there is no room for is due at once.
    pub(crate) fn make(basis: &Basis, room: Room) -> Self {
        let mut plan = Self {
            calls: vec![],
            release: basis.former.clone(),
            decided_to: basis.decided_to,
            whole: false,
            room,
        };
        let id = |release: &Option<Arc<Release>>| release.as_ref().map(|release| release.id);
        if id(&basis.former) != id(&basis.live) {
            let until = basis.since.unwrap_or(basis.now).min(basis.now);
            if !plan.go_on(basis, until) {
                return plan;
            }
            plan.release = basis.live.clone();
        }
        plan.whole = plan.go_on(basis, basis.now);
        plan
    }

    /// Decides what the release in force names up to an instant; false where not all of it.
    fn go_on(&mut self, basis: &Basis, until: Timestamp) -> bool {
        if until <= self.decided_to {
            return true;
        }
        let release = self.release.clone();
        let named = release.as_ref().and_then(|release| {
            let schedule = release.flow.trigger.schedule.as_ref()?;
            Some((release, schedule))
        });
        let Some((release, schedule)) = named else {
            self.decided_to = until;
            return true;
        };
        let span = Span {
            after: self.decided_to,
            until,
            paused_at: basis.paused_at,
            now: basis.now,
        };
        let (calls, whole) = decide(schedule, span, self.room.skips);
        for call in calls {
            match &call {
                TickAction::Fire(_) if self.room.fires == 0 => return false,
                TickAction::Fire(_) => self.room.fires -= 1,
                TickAction::Skip(stretch) => {
                    let skipped = usize::try_from(stretch.instants).unwrap_or_default();
                    self.room.skips = self.room.skips.saturating_sub(skipped);
                }
            }
            self.decided_to = call.last();
            self.calls.push((release.clone(), call));
        }
        if whole {
            self.decided_to = until;
        }
        whole
    }
}

impl TickAction {
    fn last(&self) -> Timestamp {
        match self {
            Self::Fire(nominal) => *nominal,
            Self::Skip(stretch) => stretch.last,
        }
    }
}

/// The time whose instants are decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) after: Timestamp,
    pub(crate) until: Timestamp,
    pub(crate) paused_at: Option<Timestamp>,
    pub(crate) now: Timestamp,
}

/// What becomes of the instants of a time, and whether that is all of them: of a long one, the
/// first `skips` that are skipped.
pub(crate) fn decide(
    schedule: &ScheduleTrigger,
    span: Span,
    skips: usize,
) -> (Vec<TickAction>, bool) {
    let (keep, reason) = match schedule.missed {
        Missed::Skip | Missed::Once => (1, "missed"),
        Missed::All => (schedule.most as usize, "capped"),
    };
    let mut current = VecDeque::new();
    let mut overtaken = None;
    let mut paused = None;
    let mut whole = true;
    let instants = schedule.recurrence.after(span.after);
    let instants = instants.take_while(|instant| *instant <= span.until);
    for (seen, instant) in instants.enumerate() {
        if seen == keep + skips {
            whole = false;
            break;
        }
        if span.paused_at.is_some_and(|since| instant > since) {
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
    // Later ones, which were not looked at, may overtake these.
    if !whole && paused.is_none() {
        current.clear();
    }
    if schedule.missed == Missed::Skip
        && let Some(last) = current.back().copied()
        && span.now.duration_since(last).unsigned_abs() > IN_TIME
    {
        current.clear();
        add(&mut overtaken, last, reason);
    }
    let skipped = overtaken.map(TickAction::Skip).into_iter();
    let calls = skipped
        .chain(current.into_iter().map(TickAction::Fire))
        .chain(paused.map(TickAction::Skip));
    (calls.collect(), whole)
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
