//! Cells: a kind of step, a point of its life and a fault.

use std::fmt;

use super::super::fault::Fault;
use super::super::table::Approach;

/// The faults that are played. A PostgreSQL that dies is like a cut wire to every executor.
pub(super) const FAULTS: [Fault; 3] = [Fault::Kill, Fault::Pause, Fault::Cut];

/// What the step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Db,
    SshMarked,
    Ssh,
    Mail,
    Emit,
    Sets,
    Persist,
    Http,
}

pub(super) const KINDS: [Kind; 8] = [
    Kind::Db,
    Kind::SshMarked,
    Kind::Ssh,
    Kind::Mail,
    Kind::Emit,
    Kind::Sets,
    Kind::Persist,
    Kind::Http,
];

/// Where in an effect's life the fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Point {
    IntentBefore,
    IntentAfter,
    Connected,
    HalfSent,
    Sent,
    Answered,
    DbMarked,
    DbCommit,
    DbCommitted,
    SshConnected,
    SshEnded,
    MailAnnounced,
    MailAnswered,
    OutcomeBefore,
    OutcomeAfter,
    SpreadBefore,
    SpreadAfter,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Db => "db",
            Self::SshMarked => "ssh-marked",
            Self::Ssh => "ssh",
            Self::Mail => "mail",
            Self::Emit => "emit",
            Self::Sets => "sets",
            Self::Persist => "persist",
            Self::Http => "http",
        }
    }

    /// The points of its life, in order.
    pub(super) fn points(self) -> Vec<Point> {
        let own: &[Point] = match self {
            Self::Db => &[Point::DbMarked, Point::DbCommit, Point::DbCommitted],
            Self::SshMarked | Self::Ssh => &[Point::SshConnected, Point::SshEnded],
            Self::Mail => &[Point::MailAnnounced, Point::MailAnswered],
            Self::Emit | Self::Sets | Self::Persist => &[],
            Self::Http => &[
                Point::Connected,
                Point::HalfSent,
                Point::Sent,
                Point::Answered,
            ],
        };
        let after: &[Point] = match self {
            Self::Emit => &[Point::SpreadBefore, Point::SpreadAfter],
            Self::Db
            | Self::SshMarked
            | Self::Ssh
            | Self::Mail
            | Self::Sets
            | Self::Persist
            | Self::Http => &[],
        };
        let before: &[Point] = match self {
            // They commit together with their intents.
            Self::Emit | Self::Sets => &[],
            Self::Db | Self::SshMarked | Self::Ssh | Self::Mail | Self::Persist | Self::Http => {
                &[Point::IntentBefore, Point::IntentAfter]
            }
        };
        let mut points = before.to_vec();
        points.extend(own);
        points.extend([Point::OutcomeBefore, Point::OutcomeAfter]);
        points.extend(after);
        points
    }

    /// The step, with `COUNT` for the folder that commands write to.
    pub(super) fn step(self) -> &'static str {
        match self {
            Self::Db => {
                "db: { connection: rows, execute: 'INSERT INTO acts VALUES ($1)', \
                 values: ['${{ input.id }}'], timeout: 3s }"
            }
            Self::SshMarked => {
                "ssh: { connection: box, marker: true, timeout: 20s, \
                 command: [sh, -c, 'echo acted >> \"$1\"', sh, 'COUNT-${{ input.id }}'] }"
            }
            Self::Ssh => {
                "ssh: { connection: box, timeout: 20s, \
                 command: [sh, -c, 'echo acted >> \"$1\"', sh, 'COUNT-${{ input.id }}'] }\n    \
                 guard: review"
            }
            Self::Mail => {
                "notify: { connection: post, to: someone@books.example, \
                 subject: '${{ input.id }}', text: Done. }"
            }
            Self::Emit => "emit: { event: thing.done, data: { id: '${{ input.id }}' } }",
            Self::Sets => {
                "kv: { set: 'set/${{ input.id }}', value: 1 }\n  - id: told\n    \
                 emit: { event: thing.set, data: {} }\n  - id: other\n    \
                 kv: { set: 'other/${{ input.id }}', value: 2 }"
            }
            Self::Persist => "persist: { value: { kept: '${{ input.id }}' } }",
            Self::Http => {
                "http: { connection: bank, post: '/keyed/${{ input.id }}', \
                 json: { id: '${{ input.id }}' }, timeout: 60s }"
            }
        }
    }

    /// The flow that has one such step, behind a look at an entry.
    pub(super) fn flow(self, count: &str) -> String {
        format!(
            "flow: {}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
             retry: {{ attempts: 8, delay: 100ms, max_delay: 1s, within: 1h }}\n\
             steps:\n  - id: look\n    kv: {{ get: 'looked/${{{{ input.id }}}}' }}\n  - id: act\n    {}\n",
            self.name(),
            self.step().replace("COUNT", count)
        )
    }
}

impl Point {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::IntentBefore => "intent-before",
            Self::IntentAfter => "intent-after",
            Self::Connected => "connected",
            Self::HalfSent => "half-sent",
            Self::Sent => "sent",
            Self::Answered => "answered",
            Self::DbMarked => "marked",
            Self::DbCommit => "commit",
            Self::DbCommitted => "committed",
            Self::SshConnected => "signed-in",
            Self::SshEnded => "ended",
            Self::MailAnnounced => "announced",
            Self::MailAnswered => "taken",
            Self::OutcomeBefore => "outcome-before",
            Self::OutcomeAfter => "outcome-after",
            Self::SpreadBefore => "spread-before",
            Self::SpreadAfter => "spread-after",
        }
    }

    /// The words of the page.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::IntentBefore => "before the intent commits",
            Self::IntentAfter => "intent committed, nothing done yet",
            Self::Connected => "connected, nothing sent",
            Self::HalfSent => "half of the request sent",
            Self::Sent => "all sent, destination acted, no answer yet",
            Self::Answered => "answer read, not recorded",
            Self::DbMarked => "marker written in the open transaction",
            Self::DbCommit => "statement run, `COMMIT` not sent",
            Self::DbCommitted => "committed there, not recorded here",
            Self::SshConnected => "signed in, command not sent",
            Self::SshEnded => "command ended, not recorded",
            Self::MailAnnounced => "sender and recipient named, no data sent",
            Self::MailAnswered => "mail taken, not recorded",
            Self::OutcomeBefore => "before the outcome commits",
            Self::OutcomeAfter => "outcome committed",
            Self::SpreadBefore => "event committed, before its receiver's run is",
            Self::SpreadAfter => "receiver's run committed, event still in the outbox",
        }
    }

    /// How a run is brought there.
    pub(super) fn approach(self) -> Approach {
        match self {
            Self::IntentBefore => Approach::Point("intent.before"),
            Self::IntentAfter => Approach::Point("intent.after"),
            Self::Connected => Approach::Point("send.connected"),
            Self::HalfSent => Approach::Point("send.half"),
            Self::Sent => Approach::Destination,
            Self::Answered => Approach::Point("answer.read"),
            Self::DbMarked => Approach::Point("db.marked"),
            Self::DbCommit => Approach::Point("db.commit"),
            Self::DbCommitted => Approach::Point("db.committed"),
            Self::SshConnected => Approach::Point("ssh.connected"),
            Self::SshEnded => Approach::Point("ssh.ended"),
            Self::MailAnnounced => Approach::Point("mail.announced"),
            Self::MailAnswered => Approach::Point("mail.answered"),
            Self::OutcomeBefore => Approach::Point("outcome.before"),
            Self::OutcomeAfter => Approach::Point("outcome.after"),
            // An event is dispatched once its outcome is recorded.
            Self::SpreadBefore => Approach::Dispatch("outcome.after", "accept.before"),
            Self::SpreadAfter => Approach::Dispatch("outcome.after", "accept.after"),
        }
    }

    /// Whether the point knows its run's key.
    pub(super) fn names_its_run(self) -> bool {
        self.approach()
            .first_point()
            .is_some_and(|point| point.starts_with("intent") || point.starts_with("outcome"))
    }
}

/// One place of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) point: Point,
    pub(super) fault: Fault,
}

impl Cell {
    /// Every place that exists.
    pub(super) fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for fault in FAULTS {
            for kind in KINDS {
                let at = |point| Self { kind, point, fault };
                cells.extend(kind.points().into_iter().map(at));
            }
        }
        cells
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, point, fault } = self;
        write!(f, "{} {} {}", fault.name(), kind.name(), point.name())
    }
}
