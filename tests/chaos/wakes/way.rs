//! The ways in which a run is taken or put back, and what can answer it there.

use semel_testkit::Peer;

/// Why a run is taken, or given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    PauseEnd,
    ItemEnd,
    Cancel,
    Timer,
    Gate,
    Name,
    Resume,
    Recovery,
    PutBack,
    /// A server that was stopped hands its response in after its runs were taken back.
    LateResponse,
}

/// The kind of answer to a run's first wait. The second is always a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Callback,
    Task,
    Approval,
}

impl Answer {
    /// The name of the flow whose runs are answered like that.
    pub(super) fn flow(self) -> &'static str {
        match self {
            Self::Callback => "callback",
            Self::Task => "task",
            Self::Approval => "approval",
        }
    }

    fn step(self) -> &'static str {
        match self {
            Self::Callback => "wait: { callback: true, within: 1d }",
            Self::Task => "task: { queue: work, within: 1d, lease: 30s }\n    guard: key",
            Self::Approval => {
                "approval: { from: [finance], show: { id: '${{ input.id }}' }, within: 1d, login: false }"
            }
        }
    }

    /// The expression that a run stores about its first wait: its address, where it has one.
    fn told(self) -> &'static str {
        match self {
            Self::Callback | Self::Approval => "'${{ waits.first.url }}'",
            Self::Task => "'a worker'",
        }
    }
}

/// Both answers are told of before the run comes to where it is taken.
const FLOW: &str = "flow: NAME
trigger:
  webhook: { auth: none, key: input.id }
HEADsteps:
  - { id: tell_first, kv: { set: 'first/${{ input.id }}', value: TOLD } }
  - { id: tell_later, kv: { set: 'later/${{ input.id }}', value: '${{ waits.later.url }}' } }
BEFORE  - id: first
    FIRST
  - { id: later, wait: { callback: true, within: 1d } }
  - { id: note, kv: { add: 'done/${{ input.id }}' } }
";

const QUEUED: &str = "overlap: { key: input.object, policy: queue }\n";

/// A step that is refused for now waits for an operator.
const TRIED_ONCE: &str = "retry: { attempts: 1, delay: 100ms, max_delay: 1s, within: 1h }\n";

const ITEM: &str = "  - id: each
    foreach:
      in: '[\"a\"]'
      key: item
      steps:
        - { id: rest, wait: { until: input.at } }
";

const NAMED: &str = "  - id: charge
    key: '\"charge:\" + input.object'
    http: { post: 'PEER/hold/keyed/charge', json: { object: '${{ input.object }}' } }
    guard: key
";

const REFUSED_ONCE: &str = "  - id: act
    http: { post: 'PEER/keyed/act', json: {} }
    guard: key
";

const HELD: &str = "  - id: act
    http: { post: 'PEER/hold/plain/act', json: {} }
    guard: review
";

impl Way {
    /// A word for figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PauseEnd => "pause-end",
            Self::ItemEnd => "item-end",
            Self::Cancel => "cancel",
            Self::Timer => "timer",
            Self::Gate => "gate",
            Self::Name => "name",
            Self::Resume => "resume",
            Self::Recovery => "recovery",
            Self::PutBack => "put-back",
            Self::LateResponse => "late-response",
        }
    }

    /// The kinds of answer to a run that is taken like this. A run that stands before its waits has opened no task
    /// and asked nobody yet, and a callback alone can be large.
    pub(super) fn answers(self) -> &'static [Answer] {
        match self {
            Self::PauseEnd | Self::Cancel | Self::Timer | Self::Recovery => {
                &[Answer::Callback, Answer::Task, Answer::Approval]
            }
            Self::ItemEnd
            | Self::Gate
            | Self::Name
            | Self::Resume
            | Self::PutBack
            | Self::LateResponse => &[Answer::Callback],
        }
    }

    /// Whether two runs share an object, so that the second is taken when the first lets it.
    pub(super) fn is_shared(self) -> bool {
        matches!(self, Self::Gate | Self::Name)
    }

    /// The flow of the runs that are answered in one way.
    pub(super) fn flow(self, answer: Answer, peer: &Peer) -> String {
        let (head, before) = match self {
            Self::Gate => (QUEUED, ""),
            Self::ItemEnd => ("", ITEM),
            Self::Name => ("", NAMED),
            Self::Resume => (TRIED_ONCE, REFUSED_ONCE),
            Self::LateResponse => ("", HELD),
            Self::PauseEnd | Self::Cancel | Self::Timer | Self::Recovery | Self::PutBack => {
                ("", "")
            }
        };
        FLOW.replace("NAME", answer.flow())
            .replace("HEAD", head)
            .replace("BEFORE", before)
            .replace("TOLD", answer.told())
            .replace("FIRST", answer.step())
            .replace("PEER", &peer.url(""))
    }

    /// The statements whose answers are lost. A lease that is lost for nothing would leave a doubt that nobody can
    /// settle where the response itself is what ends it.
    pub(super) fn lost(self) -> &'static [&'static str] {
        if self == Self::LateResponse {
            &LOST[1..]
        } else {
            LOST
        }
    }
}

/// Statements that commit alone and that move, free or wake runs, renewals first.
const LOST: &[&str] = &[
    "renew",
    "accept",
    "record",
    "take",
    "take one",
    "take early",
    "return",
    "put back",
    "recover",
    "sleep on",
    "sleep for a pause",
    "begin children",
    "late response",
    "cancel",
    "named effect notice",
    "named effect wake",
];
