//! What an expression can name, by the place where it stands.

/// The kinds of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A trigger's `when`.
    Trigger,
    /// A trigger's `key`. `run` is known here only so that a diagnostic can say why it is wrong.
    Key,
    /// What is evaluated once, when a run starts: `overlap.key`, `order`.
    Start,
    /// A step.
    Step,
    /// The key of an item.
    ItemKey,
    /// A step's own `result`.
    Response,
    /// `external_id`.
    ExternalId,
    /// A probe's `found` and `result`.
    Probe,
    /// Which event a wait is for.
    Event,
    /// The flow's result.
    Result,
    /// The items in what `reconcile` read.
    Listed,
    /// What `reconcile` says of an item.
    Item,
    /// What `reconcile` compares an item with.
    ItemOfRun,
}

const STEP: [&str; 8] = [
    "input", "headers", "query", "trigger", "steps", "waits", "run", "env",
];

impl Place {
    /// The names that an expression can begin with, those of items aside.
    pub(crate) fn roots(self) -> Vec<&'static str> {
        let mut roots = match self {
            Self::Trigger => STEP[..4].to_vec(),
            Self::Key | Self::Start => vec!["input", "headers", "query", "trigger", "run"],
            Self::Step
            | Self::ItemKey
            | Self::Response
            | Self::ExternalId
            | Self::Probe
            | Self::Event
            | Self::Result => STEP.to_vec(),
            Self::Listed | Self::Item => vec!["env"],
            Self::ItemOfRun => vec!["env", "run"],
        };
        if matches!(self, Self::Step | Self::Probe) {
            // Elsewhere than in what an effect sends and probes, a diagnostic says why it is wrong.
            roots.push("effect");
        }
        roots.extend(self.own());
        roots
    }

    /// The name that only this place has.
    const fn own(self) -> Option<&'static str> {
        match self {
            Self::Response => Some("response"),
            Self::ExternalId => Some("result"),
            Self::Probe => Some("probe"),
            Self::Event => Some("event"),
            Self::Listed => Some("result"),
            Self::Item | Self::ItemOfRun => Some("item"),
            Self::Trigger | Self::Key | Self::Start | Self::Step | Self::ItemKey | Self::Result => {
                None
            }
        }
    }
}
