//! The roster: which servers are live, and which of them does each background duty.
//!
//! Servers do not agree on holders: each works them out from the sessions that the database lists as
//! live, and all come to the same result (rendezvous hashing). A server that starts or stops moves only the duties that
//! it takes over or leaves. For a moment two servers may hold a duty, or none: every duty is safe to do
//! twice, and is done again before long. For the same reason a duty that is late has more holders: the next in rank.

use std::collections::BTreeMap;

use semel_model::SessionId;

/// The live sessions, as this server saw them last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roster {
    me: Option<SessionId>,
    live: Vec<SessionId>,
    /// The duties that are late, each with how many servers hold it besides its holders.
    more: BTreeMap<&'static str, usize>,
}

impl Roster {
    /// The roster of a server that has this session.
    pub(crate) fn new(me: SessionId, mut live: Vec<SessionId>) -> Self {
        live.sort_unstable_by_key(|session| *session.as_uuid());
        Self {
            me: Some(me),
            live,
            more: BTreeMap::new(),
        }
    }

    /// Takes over who is live. Says whether anything changed.
    pub(crate) fn follow(&mut self, me: SessionId, live: Vec<SessionId>) -> bool {
        let seen = Self::new(me, live);
        let changed = (self.me, &self.live) != (seen.me, &seen.live);
        (self.me, self.live) = (seen.me, seen.live);
        changed
    }

    /// Takes over which duties are late. Says whether anything changed.
    pub(crate) fn follow_late(&mut self, more: BTreeMap<&'static str, usize>) -> bool {
        let changed = self.more != more;
        self.more = more;
        changed
    }

    /// Whether this server holds a duty, as one of its holders or because it is late.
    pub(crate) fn holds(&self, duty: &str, holders: usize) -> bool {
        let more = self.more.get(duty).copied().unwrap_or_default();
        self.is_among(duty, holders + more)
    }

    /// Whether this server is one of the first of a duty in rank.
    pub(crate) fn is_among(&self, duty: &str, holders: usize) -> bool {
        let Some(me) = self.me else {
            return false;
        };
        // A server that stops is not listed. Where it is the only one, it goes on to the end.
        if self.live.is_empty() {
            return true;
        }
        let mine = rank(duty, me);
        let before = self.live.iter().filter(|it| rank(duty, **it) < mine);
        self.live.contains(&me) && before.count() < holders
    }
}

/// The rank of a session for a duty, the same on every server and in every build: FNV-1a, its bits
/// mixed once more, because ranks are compared by their first bits.
fn rank(duty: &str, session: SessionId) -> (u64, u128) {
    let bytes = duty.bytes().chain(*session.as_uuid().as_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29), session.as_uuid().as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DUTIES: [&str; 6] = [
        "outbox",
        "retention",
        "alerts",
        "recovery",
        "tasks",
        "names",
    ];

    fn sessions(count: usize) -> Vec<SessionId> {
        (0..count).map(|_| SessionId::generate()).collect()
    }

    fn holders(live: &[SessionId], duty: &str, count: usize) -> Vec<SessionId> {
        let holds = |me: &SessionId| Roster::new(*me, live.to_vec()).holds(duty, count);
        live.iter().copied().filter(holds).collect()
    }

    #[test]
    fn each_duty_has_as_many_holders_as_it_asks_for() {
        let live = sessions(10);

        for duty in DUTIES {
            assert_eq!(holders(&live, duty, 1).len(), 1);
            assert_eq!(holders(&live, duty, 3).len(), 3);
            assert_eq!(holders(&live[..2], duty, 3).len(), 2, "of two servers");
        }
    }

    #[test]
    fn a_server_that_is_gone_leaves_only_its_own_duties() {
        let live = sessions(10);
        let (gone, left) = (live[3], [&live[..3], &live[4..]].concat());

        for duty in DUTIES {
            let (before, after) = (holders(&live, duty, 1), holders(&left, duty, 1));
            assert_eq!(after.len(), 1);
            assert!(before == after || before == [gone], "{duty}");
        }
    }

    #[test]
    fn duties_are_spread_over_the_servers() {
        let live = sessions(4);
        let names = (0..400).map(|number| format!("duty {number}"));
        let mut counts = [0; 4];

        for name in names {
            let holder = holders(&live, &name, 1)[0];
            let place = live.iter().position(|it| *it == holder).unwrap();
            counts[place] += 1;
        }

        assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    }

    #[test]
    fn a_duty_that_is_late_is_held_by_the_next_server_as_well() {
        let live = sessions(10);
        let holders = |more: usize| -> Vec<SessionId> {
            let holds = |me: &SessionId| {
                let mut roster = Roster::new(*me, live.clone());
                roster.follow_late(BTreeMap::from([("retention", more)]));
                assert!(!roster.follow(*me, live.clone()), "it stays late");
                roster.holds("retention", 1)
            };
            live.iter().copied().filter(holds).collect()
        };
        let (in_time, late, very_late) = (holders(0), holders(1), holders(3));

        assert_eq!((in_time.len(), late.len(), very_late.len()), (1, 2, 4));
        assert!(late.contains(&in_time[0]), "its holder keeps it");
        assert!(late.iter().all(|it| very_late.contains(it)));
    }

    #[test]
    fn a_server_holds_nothing_before_it_has_looked_and_everything_when_it_is_the_last() {
        let (me, other) = (SessionId::generate(), SessionId::generate());

        assert!(!Roster::default().holds("outbox", 1));
        assert!(!Roster::new(me, vec![other]).holds("outbox", 9), "it stops");
        assert!(Roster::new(me, vec![]).holds("outbox", 1));
    }
}
