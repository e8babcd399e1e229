//! The rate of a destination on one server, and the times that are given to those who wait.
//!
//! An exchange takes its turn in the rate as it leaves, so that exchanges are never closer than the
//! rate says. Before its intent a caller is promised a turn, if one comes within [`ROOM_PATIENCE`].
//! Every other caller is given a time of its own to come back at. There are two lines of times, both
//! as dense as the rate: a caller that comes back and finds no turn does not go behind those who
//! have not waited yet. So a run that waits is taken about once, and twice where servers take each
//! other's runs or stood still.

use std::time::Duration;

use semel_model::connection::ConnectionLimits;
use tokio::time::Instant;

use super::ROOM_PATIENCE;

/// How far ahead times are given by a rate: after that the line begins anew. Those who were given times may be gone
/// since, and nobody waits for longer behind them.
const RATE_LINE_MAX: Duration = Duration::from_secs(3_600);

/// How long no turn is taken until a line counts as left, beyond the time between two turns: its runs were cancelled,
/// or other servers have them.
const LEFT_AFTER: Duration = Duration::from_secs(5);

/// Who asks for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A run that is being accepted. It is given no time, because it asks again before it sleeps.
    Accepted,
    /// A run that has not waited yet: it goes behind those that have.
    First,
    /// A run that comes back, or a request that is no step's effect.
    Again,
}

/// The rate of one destination on this server.
pub(super) struct Pace {
    interval: Duration,
    /// How much sooner than evenly spread an exchange may leave.
    early: Duration,
    /// When the next exchange would leave, evenly spread.
    next: Instant,
    /// How many callers were promised a turn and have not taken it.
    promised: u32,
    waiting: Line,
    overdue: Line,
}

impl Pace {
    /// A server's part of the rate, evenly spread: no second sees more than a tenth beyond it.
    pub(super) fn of(limits: &ConnectionLimits, servers: u32) -> Option<Self> {
        let (interval, early) = spread(limits, servers)?;
        Some(Self {
            interval,
            early,
            next: Instant::now(),
            promised: 0,
            waiting: Line::default(),
            overdue: Line::default(),
        })
    }

    /// Adapts to a number of servers. Times that were given stay.
    pub(super) fn divide_by(&mut self, limits: &ConnectionLimits, servers: u32) {
        if let Some((interval, early)) = spread(limits, servers) {
            (self.interval, self.early) = (interval, early);
            self.next = self.next.min(Instant::now() + interval);
        }
    }

    /// Promises a turn that comes soon; otherwise how long to stay away.
    pub(super) fn promise(&mut self, asker: Asker, now: Instant) -> Result<(), Duration> {
        if now > self.next + self.interval + LEFT_AFTER {
            (self.waiting, self.overdue) = (Line::default(), Line::default());
        }
        // Turns that nobody took are no credit.
        let next = self.next.max(now) + self.interval * self.promised;
        let wait = next.saturating_duration_since(now + self.early);
        let is_behind = asker != Asker::Again && self.waiting.is_ahead(now);
        if !is_behind && wait <= ROOM_PATIENCE {
            self.promised += 1;
            return Ok(());
        }
        Err(match asker {
            Asker::Accepted => wait,
            Asker::First => self.waiting.give(now, wait, self.interval, RATE_LINE_MAX),
            Asker::Again => self.overdue.give(now, wait, self.interval, RATE_LINE_MAX),
        })
    }

    /// A turn that was promised is taken, or not needed any more.
    pub(super) fn end_promise(&mut self) {
        self.promised = self.promised.saturating_sub(1);
    }

    /// Takes the next turn, if it has come; otherwise how long until then.
    pub(super) fn leave(&mut self, now: Instant) -> Result<(), Duration> {
        let wait = self.next.saturating_duration_since(now + self.early);
        if !wait.is_zero() {
            return Err(wait);
        }
        self.next = self.next.max(now) + self.interval;
        Ok(())
    }
}

/// The time between two exchanges, and how much sooner one of a burst may leave.
fn spread(limits: &ConnectionLimits, servers: u32) -> Option<(Duration, Duration)> {
    let (per_second, servers) = (limits.per_second?.max(1), servers.max(1));
    let interval = Duration::from_secs(1) * servers / per_second;
    let burst = (per_second / servers / 10).max(1);
    Some((interval, interval * (burst - 1)))
}

/// Times that are given, one after the other.
#[derive(Debug, Default)]
pub(super) struct Line {
    last: Option<Instant>,
}

impl Line {
    /// Whether a time was given that has not come yet.
    fn is_ahead(&self, now: Instant) -> bool {
        self.last.is_some_and(|last| last > now)
    }

    /// Gives the next time, as the span until then: `apart` after the last one, and not before
    /// `soonest`. Beyond `span` the line begins anew.
    pub(super) fn give(
        &mut self,
        now: Instant,
        soonest: Duration,
        apart: Duration,
        span: Duration,
    ) -> Duration {
        let first = now + soonest;
        let next = self.last.map_or(first, |last| (last + apart).max(first));
        let next = if next > first + span { first } else { next };
        self.last = Some(next);
        next - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(per_second: u32) -> Pace {
        let limits = ConnectionLimits {
            per_second: Some(per_second),
            ..ConnectionLimits::default()
        };
        Pace::of(&limits, 1).unwrap()
    }

    /// Plays runs that wait for a rate of one a second, each of which comes back when it was told
    /// to, so much later. Returns how often all of them asked, and the seconds in which they left.
    fn play(runs: usize, late: Duration) -> (usize, Vec<u64>) {
        let (mut pace, begun) = (pace(1), Instant::now());
        pace.next = begun;
        let mut asking: Vec<(Instant, Asker)> = vec![(begun, Asker::First); runs];
        let (mut asked, mut left) = (0, Vec::new());
        let mut leaving: Option<Instant> = None;
        while let Some(at) = asking.iter().map(|(at, _)| *at).min() {
            if let Some(leaves) = leaving.filter(|leaves| *leaves <= at) {
                assert_eq!(pace.leave(leaves), Ok(()));
                pace.end_promise();
                left.push((leaves - begun).as_secs());
                leaving = None;
            }
            let first = asking.iter().position(|it| it.0 == at).unwrap();
            let (_, asker) = asking.remove(first);
            asked += 1;
            match (pace.promise(asker, at), leaving) {
                (Ok(()), None) => match pace.leave(at) {
                    Ok(()) => {
                        pace.end_promise();
                        left.push((at - begun).as_secs());
                    }
                    Err(wait) => leaving = Some(at + wait),
                },
                (Ok(()), Some(_)) => panic!("two turns promised within a second"),
                (Err(wait), _) => asking.push((at + wait + late, Asker::Again)),
            }
        }
        left.extend(leaving.map(|leaves| (leaves - begun).as_secs()));
        (asked, left)
    }

    #[test]
    fn a_thousand_runs_that_wait_for_one_turn_a_second_ask_about_once() {
        let (asked, left) = play(1_000, Duration::ZERO);

        assert_eq!(asked, 1_000 + 998, "each once, and once more at its time");
        assert_eq!(left, (0..1_000).collect::<Vec<u64>>(), "no turn is lost");
    }

    #[test]
    fn runs_that_come_back_somewhat_late_ask_no_more_often() {
        let (asked, left) = play(100, Duration::from_millis(300));

        assert_eq!(asked, 100 + 98);
        assert_eq!(left.len(), 100);
    }

    #[test]
    fn a_run_that_has_not_waited_goes_behind_those_that_have() {
        let (mut pace, now) = (pace(1), Instant::now());
        pace.next = now;
        let told: Vec<_> = (0..4).map(|_| pace.promise(Asker::First, now)).collect();
        let after = |secs| Err(Duration::from_secs(secs));
        assert_eq!(told, [Ok(()), Ok(()), after(2), after(3)]);

        for secs in [0, 1] {
            assert_eq!(pace.leave(now + Duration::from_secs(secs)), Ok(()));
            pace.end_promise();
        }
        let later = now + Duration::from_secs(2);
        assert_eq!(pace.promise(Asker::First, later), after(2));
        assert_eq!(pace.promise(Asker::Again, later), Ok(()));
    }

    #[test]
    fn a_line_that_nobody_stands_in_any_more_holds_nobody_back() {
        let (mut pace, now) = (pace(1), Instant::now());
        pace.next = now;
        let told: Vec<_> = (0..1_000)
            .map(|_| pace.promise(Asker::First, now))
            .collect();
        assert_eq!(told[999], Err(Duration::from_secs(999)));
        for secs in [0, 1] {
            assert_eq!(pace.leave(now + Duration::from_secs(secs)), Ok(()));
            pace.end_promise();
        }

        let soon = pace.promise(Asker::First, now + Duration::from_secs(4));
        let later = pace.promise(Asker::First, now + Duration::from_secs(60));

        assert!(soon.is_err(), "they may still come");
        assert_eq!(later, Ok(()));
    }

    #[test]
    fn after_a_rest_no_more_turns_are_promised_than_come_soon() {
        let (mut pace, now) = (pace(1), Instant::now());
        pace.next = now;

        let later = now + Duration::from_secs(600);
        let told = (0..100).map(|_| pace.promise(Asker::Accepted, later));
        let promised = told.filter(Result::is_ok).count();

        assert_eq!(promised, 2);
    }

    #[test]
    fn a_promise_that_is_not_needed_goes_to_the_next() {
        let (mut pace, now) = (pace(1), Instant::now());
        pace.next = now;
        for _ in 0..2 {
            assert_eq!(pace.promise(Asker::Accepted, now), Ok(()));
        }
        assert!(pace.promise(Asker::Accepted, now).is_err());

        pace.end_promise();

        assert_eq!(pace.promise(Asker::Accepted, now), Ok(()));
    }
}
