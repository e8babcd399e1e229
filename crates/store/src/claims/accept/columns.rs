//! What a batch of deliveries writes, one array per column, and what its runs follow.

use std::collections::HashSet;

use jiff::Timestamp;
use semel_model::event::FollowedRun;
use semel_model::{ClaimId, Event, RunId};
use uuid::Uuid;

use super::super::{Delivery, FirstEffect};

/// A key that is free, and what its last run left.
pub(super) struct FreeKey {
    /// The number of its last run.
    pub(super) number: i32,
    /// How many times it came back as a new intent.
    pub(super) intent: i32,
    /// Whether an operator freed it, and it did not expire.
    pub(super) dropped: bool,
}

impl FreeKey {
    /// The run that follows: its number, and how many times the key was a new intent by then.
    pub(super) fn next(&self, delivery: &Delivery) -> (i32, i32) {
        let is_new = delivery.expires_as_new && !self.dropped;
        (self.number + 1, self.intent + i32::from(is_new))
    }
}

/// What the next runs of keys follow; nothing where they are the first.
pub(super) fn follows(
    firsts: &[&Delivery],
    numbers: &[i32],
    intents: &[i32],
) -> Vec<Option<Event>> {
    let numbered = firsts.iter().zip(numbers.iter().zip(intents));
    let event = |(first, (number, intent)): (&&Delivery, (&i32, &i32))| {
        let last = number.unsigned_abs().checked_sub(1)?;
        Some(Event::Follows(FollowedRun {
            first: RunId::derive(first.claim, 0),
            last: RunId::derive(first.claim, last),
            intent: intent.unsigned_abs(),
            accepts: Vec::new(),
            kept: Vec::new(),
        }))
    };
    numbered.map(event).collect()
}

/// The first rows of runs that follow others: what came, and what they follow.
pub(super) fn continued(firsts: &[&Delivery], follows: &[Option<Event>]) -> Vec<String> {
    let row = |(first, follows): (&&Delivery, &Option<Event>)| {
        let came = first.events.strip_suffix(']')?;
        let follows = serde_json::to_string(follows.as_ref()?).ok()?;
        Some(format!("{came},{follows}]"))
    };
    firsts.iter().zip(follows).filter_map(row).collect()
}

/// What runs do first, one array per column.
#[derive(Default)]
pub(super) struct FirstEffectRows<'a> {
    pub(super) events: Vec<&'a str>,
    pub(super) effects: Vec<Option<Uuid>>,
    pub(super) steps: Vec<Option<&'a str>>,
    pub(super) kinds: Vec<Option<&'static str>>,
    pub(super) guards: Vec<Option<&'static str>>,
    pub(super) pause_versions: Vec<Option<i64>>,
}

impl<'a> FirstEffectRows<'a> {
    /// `continued` has the first rows of runs that follow others, in the order of `firsts`; it is
    /// empty where these are the first runs of their keys. What is `undecided` begins without its
    /// first effect.
    pub(super) fn of(
        firsts: &[&'a Delivery],
        continued: &'a [String],
        undecided: &HashSet<ClaimId>,
    ) -> Self {
        let mut moves = Self::default();
        for (index, first) in firsts.iter().enumerate() {
            let opens = |it: &&FirstEffect| {
                continued.is_empty() && !it.is_stale && !undecided.contains(&first.claim)
            };
            let first_move = first.first_effect.as_ref().filter(opens);
            let effect = first_move.and_then(|it| it.effect.as_ref());
            let events = first_move.map_or(&first.events, |it| &it.events);
            let events = continued.get(index).unwrap_or(events);
            moves.events.push(events);
            moves.effects.push(effect.map(|it| *it.effect.as_uuid()));
            moves.steps.push(effect.map(|it| it.step.as_str()));
            moves.kinds.push(effect.map(|it| it.kind));
            moves.guards.push(effect.map(|it| it.guard.as_str()));
            let version = first_move.map(|it| it.pause_version);
            moves.pause_versions.push(version);
        }
        moves
    }
}

/// The leases under which instants of schedules are accepted, one array per column. Empty where a batch has none.
pub(super) struct LeaseRows {
    pub(super) schedules: Vec<Uuid>,
    pub(super) holders: Vec<Uuid>,
    pub(super) until: Vec<Timestamp>,
}

impl LeaseRows {
    pub(super) fn of(firsts: &[&Delivery]) -> Self {
        let leases = || firsts.iter().filter_map(|first| first.lease);
        Self {
            schedules: leases().map(|it| *it.schedule.as_uuid()).collect(),
            holders: leases().map(|it| *it.holder.as_uuid()).collect(),
            until: leases().map(|it| it.until).collect(),
        }
    }
}
