//! Cells: a point, a guard and a fault.

use std::fmt;

use super::fault::Fault;
use super::table::Approach;

/// Where in an effect's life the fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Point {
    AcceptBefore,
    AcceptUnanswered,
    AcceptAfter,
    OpeningBefore,
    OpeningUnanswered,
    OpeningAfter,
    IntentBefore,
    IntentUnanswered,
    IntentAfter,
    Connected,
    HalfSent,
    Sent,
    Answered,
    OutcomeBefore,
    OutcomeUnanswered,
    OutcomeAfter,
}

/// How the effect is made safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Guard {
    Transaction,
    Key,
    Natural,
    Probe,
    Review,
    Repeat,
}

pub(crate) const POINTS: [Point; 16] = [
    Point::AcceptBefore,
    Point::AcceptUnanswered,
    Point::AcceptAfter,
    Point::OpeningBefore,
    Point::OpeningUnanswered,
    Point::OpeningAfter,
    Point::IntentBefore,
    Point::IntentUnanswered,
    Point::IntentAfter,
    Point::Connected,
    Point::HalfSent,
    Point::Sent,
    Point::Answered,
    Point::OutcomeBefore,
    Point::OutcomeUnanswered,
    Point::OutcomeAfter,
];

pub(crate) const GUARDS: [Guard; 6] = [
    Guard::Transaction,
    Guard::Key,
    Guard::Natural,
    Guard::Probe,
    Guard::Review,
    Guard::Repeat,
];

pub(crate) const FAULTS: [Fault; 4] = [Fault::Kill, Fault::Pause, Fault::Cut, Fault::Postgres];

impl Point {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AcceptBefore => "accept-before",
            Self::AcceptUnanswered => "accept-unanswered",
            Self::AcceptAfter => "accept-after",
            Self::OpeningBefore => "opening-before",
            Self::OpeningUnanswered => "opening-unanswered",
            Self::OpeningAfter => "opening-after",
            Self::IntentBefore => "intent-before",
            Self::IntentUnanswered => "intent-unanswered",
            Self::IntentAfter => "intent-after",
            Self::Connected => "connected",
            Self::HalfSent => "half-sent",
            Self::Sent => "sent",
            Self::Answered => "answered",
            Self::OutcomeBefore => "outcome-before",
            Self::OutcomeUnanswered => "outcome-unanswered",
            Self::OutcomeAfter => "outcome-after",
        }
    }

    /// The words of the page.
    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::AcceptBefore => "before the accept commits",
            Self::AcceptUnanswered => "accept committed, its answer lost or late",
            Self::AcceptAfter => "accept committed, sender not answered",
            Self::OpeningBefore => "before accept and first intent commit together",
            Self::OpeningUnanswered => "accept and first intent committed, answer lost or late",
            Self::OpeningAfter => "accept and first intent committed, nothing done yet",
            Self::IntentBefore => "before the intent commits",
            Self::IntentUnanswered => "intent committed, its answer lost or late",
            Self::IntentAfter => "intent committed, nothing done yet",
            Self::Connected => "connected, nothing sent",
            Self::HalfSent => "half of the request sent",
            Self::Sent => "all sent, destination acted, no answer yet",
            Self::Answered => "answer read, not recorded",
            Self::OutcomeBefore => "before the outcome commits",
            Self::OutcomeUnanswered => "outcome committed, its answer lost or late",
            Self::OutcomeAfter => "outcome committed",
        }
    }

    /// Whether the database committed and the server has not heard of it.
    pub(crate) fn is_unanswered(self) -> bool {
        matches!(self.approach(), Approach::UnansweredCommit(..))
    }

    /// How a run is brought there.
    pub(crate) fn approach(self) -> Approach {
        match self {
            Self::AcceptBefore | Self::OpeningBefore => Approach::Point("accept.before"),
            Self::AcceptUnanswered => Approach::UnansweredCommit("accept.before", "accepted"),
            Self::OpeningUnanswered => Approach::UnansweredCommit("accept.before", "intended"),
            Self::AcceptAfter | Self::OpeningAfter => Approach::Point("accept.after"),
            Self::IntentBefore => Approach::Point("intent.before"),
            Self::IntentUnanswered => Approach::UnansweredCommit("intent.before", "intended"),
            Self::IntentAfter => Approach::Point("intent.after"),
            Self::Connected => Approach::Point("send.connected"),
            Self::HalfSent => Approach::Point("send.half"),
            Self::Sent => Approach::Destination,
            Self::Answered => Approach::Point("answer.read"),
            Self::OutcomeBefore => Approach::Point("outcome.before"),
            Self::OutcomeUnanswered => Approach::UnansweredCommit("outcome.before", "done"),
            Self::OutcomeAfter => Approach::Point("outcome.after"),
        }
    }

    /// Whether the run begins with its effect, so that the intent is accepted with the run.
    pub(crate) fn is_opening(self) -> bool {
        [
            Self::OpeningBefore,
            Self::OpeningUnanswered,
            Self::OpeningAfter,
        ]
        .contains(&self)
    }

    /// Whether the point lies on the wire to the destination.
    pub(crate) fn is_on_the_wire(self) -> bool {
        [Self::Connected, Self::HalfSent, Self::Sent, Self::Answered].contains(&self)
    }
}

impl Guard {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Transaction => "transaction",
            Self::Key => "key",
            Self::Natural => "natural",
            Self::Probe => "probe",
            Self::Review => "review",
            Self::Repeat => "repeat",
        }
    }

    /// The flow that has one effect under this guard, on a peer at `PEER`. One that does not open
    /// with it looks an entry up first.
    pub(crate) fn flow(self, peer: &str, opens: bool) -> String {
        let step = match self {
            Self::Transaction => "kv: { add: 'count/${{ input.id }}' }".to_owned(),
            Self::Key => format!("{}\n    guard: key", post("keyed")),
            Self::Natural => format!("{}\n    guard: natural", post("put").replace("post", "put")),
            Self::Probe => format!(
                "{}\n    guard: probe\n    probe: {{ http: {{ get: 'PEER/items?id=${{{{ input.id }}}}' }}, \
                 found: 'probe.json.items.size() > 0', after: 300ms, because: the peer acts at once or never }}",
                post("plain")
            ),
            Self::Review => format!("{}\n    guard: review", post("plain")),
            Self::Repeat => format!(
                "{}\n    guard: repeat\n    because: a second one does no harm here",
                post("plain")
            ),
        };
        let look = match opens {
            true => "",
            false => "  - id: look\n    kv: { get: 'looked/${{ input.id }}' }\n",
        };
        format!(
            "flow: {}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n\
             retry: {{ attempts: 5, delay: 100ms, max_delay: 200ms, within: 1h }}\n\
             steps:\n{look}  - id: act\n    {step}\n",
            self.flow_name(opens)
        )
        .replace("PEER", peer)
    }

    /// The name of that flow.
    pub(crate) fn flow_name(self, opens: bool) -> String {
        match opens {
            true => format!("{}-opening", self.name()),
            false => self.name().to_owned(),
        }
    }

    /// Where the destination counts this effect; the engine's own table has no path.
    pub(crate) fn path(self, id: &str) -> Option<String> {
        match self {
            Self::Transaction => None,
            Self::Key => Some(format!("/keyed/{id}")),
            Self::Natural => Some(format!("/put/{id}")),
            Self::Probe | Self::Review | Self::Repeat => Some(format!("/plain/{id}")),
        }
    }
}

fn post(mode: &str) -> String {
    format!(
        "http: {{ post: 'PEER/{mode}/${{{{ input.id }}}}', json: {{ id: '${{{{ input.id }}}}' }}, \
         timeout: 60s }}"
    )
}

/// One place of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cell {
    pub(crate) guard: Guard,
    pub(crate) point: Point,
    pub(crate) fault: Fault,
}

impl Cell {
    pub(crate) fn new(point: Point, guard: Guard, fault: Fault) -> Self {
        Self {
            guard,
            point,
            fault,
        }
    }

    /// Every place that exists: an effect that commits with its marker sends nothing.
    pub(crate) fn all() -> Vec<Self> {
        let places = FAULTS.into_iter().flat_map(|fault| {
            GUARDS.into_iter().flat_map(move |guard| {
                POINTS
                    .into_iter()
                    .map(move |point| Self::new(point, guard, fault))
            })
        });
        places
            .filter(|cell| cell.guard != Guard::Transaction || !cell.point.is_on_the_wire())
            .collect()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            guard,
            point,
            fault,
        } = self;
        write!(f, "{} {} {}", fault.name(), guard.name(), point.name())
    }
}
