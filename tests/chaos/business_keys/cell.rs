//! Cells: what the struck run meets under its key, where it stands, how its effect is guarded, and
//! the fault.

use std::fmt;

/// What the struck run meets under its key, or comes to there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meeting {
    /// Nothing: it is the first.
    First,
    /// Nothing, and another run waits behind it.
    Awaited,
    /// Another run has failed under the key.
    Failed,
    /// Nothing, and the destination refuses it.
    Refused,
    /// Nothing, and an operator cancels it before it has sent anything. Another run waits behind it if
    /// it holds the key.
    Cancelled,
    /// Another run has done it.
    Done,
    /// Another run holds it; the same fault strikes that run, whose request was carried out.
    Held,
    /// Another run is in doubt about it.
    InDoubt,
}

/// Where the struck run stands: before and after each of the commits around a business key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Point {
    AskBefore,
    AskAfter,
    BeginBefore,
    BeginAfter,
    MeetBefore,
    MeetAfter,
    IntentBefore,
    IntentAfter,
    Sent,
    OutcomeBefore,
    OutcomeAfter,
    NoticeBefore,
    NoticeAfter,
}

/// How the effect is guarded at its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    Key,
    Probe,
    Review,
}

/// What strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// SIGKILL; another server takes over.
    Kill,
    /// SIGSTOP; another server takes over; SIGCONT.
    Pause,
    /// PostgreSQL commits what follows the point, and its answer is lost.
    LostAnswer,
}

/// One place of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) fault: Fault,
    pub(super) guard: Guard,
    pub(super) meeting: Meeting,
    pub(super) point: Point,
}

pub(super) const GUARDS: [Guard; 3] = [Guard::Key, Guard::Probe, Guard::Review];

pub(super) const FAULTS: [Fault; 3] = [Fault::Kill, Fault::Pause, Fault::LostAnswer];

pub(super) const MEETINGS: [Meeting; 8] = [
    Meeting::First,
    Meeting::Awaited,
    Meeting::Failed,
    Meeting::Refused,
    Meeting::Cancelled,
    Meeting::Done,
    Meeting::Held,
    Meeting::InDoubt,
];

/// In the order in which cells are placed: what name repair would deliver comes last.
pub(super) const POINTS: [Point; 13] = [
    Point::AskBefore,
    Point::AskAfter,
    Point::BeginBefore,
    Point::BeginAfter,
    Point::MeetBefore,
    Point::MeetAfter,
    Point::IntentBefore,
    Point::IntentAfter,
    Point::Sent,
    Point::OutcomeBefore,
    Point::OutcomeAfter,
    Point::NoticeBefore,
    Point::NoticeAfter,
];

impl Cell {
    /// Every place of a fault that exists.
    pub(super) fn all(fault: Fault) -> Vec<Self> {
        let cells = POINTS.into_iter().flat_map(|point| {
            MEETINGS.into_iter().flat_map(move |meeting| {
                GUARDS.into_iter().map(move |guard| Self {
                    fault,
                    guard,
                    meeting,
                    point,
                })
            })
        });
        cells.filter(|cell| cell.exists()).collect()
    }

    fn exists(self) -> bool {
        let unguarded = self.guard == Guard::Review;
        let reached = match self.meeting {
            Meeting::First | Meeting::Failed => !self.is_met(),
            Meeting::Awaited => self.point >= Point::BeginAfter && !self.is_met(),
            Meeting::Refused => self.point >= Point::OutcomeBefore,
            // A server that keeps its lease may have sent by the time that it is asked.
            Meeting::Cancelled => {
                let early = self.point <= Point::IntentBefore && !self.is_met();
                early && self.fault != Fault::LostAnswer
            }
            Meeting::Done | Meeting::Held => self.point <= Point::MeetAfter,
            // Any other guard settles its doubt by itself.
            Meeting::InDoubt => self.point <= Point::MeetAfter && unguarded,
        };
        // A begin that finds the effect done writes nothing.
        let written = self.meeting != Meeting::Done || self.point != Point::BeginBefore;
        let commits = self.point.is_before_commit() && written;
        reached && (self.fault != Fault::LostAnswer || commits)
    }

    /// Whether another run waits behind the struck one when the fault strikes.
    pub(super) fn is_awaited(self) -> bool {
        match self.meeting {
            Meeting::Awaited => true,
            Meeting::Cancelled => self.point >= Point::BeginAfter,
            Meeting::First
            | Meeting::Failed
            | Meeting::Refused
            | Meeting::Done
            | Meeting::Held
            | Meeting::InDoubt => false,
        }
    }

    fn is_met(self) -> bool {
        [Point::MeetBefore, Point::MeetAfter].contains(&self.point)
    }

    /// What the key and the paths of the cell are made of.
    pub(super) fn object(self) -> String {
        self.to_string().replace(' ', "-")
    }

    /// Where the destination counts.
    pub(super) fn path(self) -> String {
        format!("/{}/{}", self.guard.mode(), self.object())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = match self.fault {
            Fault::Kill => "kill",
            Fault::Pause => "pause",
            Fault::LostAnswer => "lost",
        };
        let meeting = match self.meeting {
            Meeting::First => "first",
            Meeting::Awaited => "awaited",
            Meeting::Failed => "failed",
            Meeting::Refused => "refused",
            Meeting::Cancelled => "cancelled",
            Meeting::Done => "done",
            Meeting::Held => "held",
            Meeting::InDoubt => "doubt",
        };
        let point = match self.point {
            Point::Sent => "sent".to_owned(),
            _ => self.point.failpoint().unwrap_or_default().replace('.', "-"),
        };
        write!(f, "{fault} {} {meeting} {point}", self.guard.name())
    }
}

impl Point {
    /// The failpoint; nothing where the destination holds the run.
    pub(super) fn failpoint(self) -> Option<&'static str> {
        match self {
            Self::AskBefore => Some("ask.before"),
            Self::AskAfter => Some("ask.after"),
            Self::BeginBefore => Some("name.before"),
            Self::BeginAfter => Some("name.after"),
            Self::MeetBefore => Some("meet.before"),
            Self::MeetAfter => Some("meet.after"),
            Self::IntentBefore => Some("intent.before"),
            Self::IntentAfter => Some("intent.after"),
            Self::Sent => None,
            Self::OutcomeBefore => Some("outcome.before"),
            Self::OutcomeAfter => Some("outcome.after"),
            Self::NoticeBefore => Some("notice.before"),
            Self::NoticeAfter => Some("notice.after"),
        }
    }

    fn is_before_commit(self) -> bool {
        self.failpoint()
            .is_some_and(|name| name.ends_with("before"))
    }
}

impl Guard {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Probe => "probe",
            Self::Review => "review",
        }
    }

    /// How the destination behaves: it honours keys where that is the guard, and nowhere else.
    fn mode(self) -> &'static str {
        match self {
            Self::Key => "keyed",
            Self::Probe | Self::Review => "plain",
        }
    }

    /// The flow whose effect is guarded so.
    pub(super) fn flow(self, peer: &str) -> String {
        let probe = match self {
            Self::Probe => {
                "\n    probe: { http: { get: 'PEER/items?object=${{ input.object }}' }, \
                 found: 'probe.json.items.size() > 0', after: 300ms, \
                 because: the peer acts at once or never }"
            }
            Self::Key | Self::Review => "",
        };
        let (name, mode) = (self.name(), self.mode());
        format!(
            "flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
             retry: {{ attempts: 100, delay: 100ms, max_delay: 1s, within: 1d }}\n\
             steps:\n  - id: charge\n    key: '\"charge:\" + input.object'\n    scope: namespace\n    \
             http: {{ post: 'PEER/{mode}/${{{{ input.object }}}}', \
             json: {{ object: '${{{{ input.object }}}}' }}, timeout: 5m }}\n    \
             guard: {name}{probe}\nresult: steps.charge.result\n"
        )
        .replace("PEER", peer)
    }
}
