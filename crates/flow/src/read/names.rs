//! What an expression can name, by the place where it stands.

/// The kinds of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A trigger's `when`.
    Trigger,
    /// A trigger's `key`. It may name `run` only to be told why not.
    Key,
    /// A step, and the flow's result.
    Step,
    /// An http step's own `result`.
    Response,
    /// `external_id`.
    ExternalId,
    /// A probe's `found` and `result`.
    Probe,
}

const TRIGGER: [&str; 4] = ["input", "headers", "query", "trigger"];
const KEY: [&str; 5] = ["input", "headers", "query", "trigger", "run"];
const STEP: [&str; 8] = [
    "input", "headers", "query", "trigger", "steps", "waits", "run", "env",
];
const RESPONSE: [&str; 9] = [
    "input", "headers", "query", "trigger", "steps", "waits", "run", "env", "response",
];
const EXTERNAL_ID: [&str; 9] = [
    "input", "headers", "query", "trigger", "steps", "waits", "run", "env", "result",
];
const PROBE: [&str; 9] = [
    "input", "headers", "query", "trigger", "steps", "waits", "run", "env", "probe",
];

impl Place {
    /// The names that an expression can begin with.
    pub(crate) const fn roots(self) -> &'static [&'static str] {
        match self {
            Self::Trigger => &TRIGGER,
            Self::Key => &KEY,
            Self::Step => &STEP,
            Self::Response => &RESPONSE,
            Self::ExternalId => &EXTERNAL_ID,
            Self::Probe => &PROBE,
        }
    }
}

/// The steps of a flow, as far as names are concerned.
#[derive(Debug, Default)]
pub(crate) struct StepNames {
    pub(crate) ids: Vec<String>,
    /// Those that wait for a callback, and so have an address.
    pub(crate) callbacks: Vec<String>,
}

/// What can be named in one place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Names<'f> {
    pub(crate) place: Place,
    pub(crate) steps: &'f StepNames,
    /// How many steps, from the first, are behind this place.
    pub(crate) behind: usize,
}

impl<'f> Names<'f> {
    /// The same point of the flow, seen from another field.
    pub(crate) const fn at(self, place: Place) -> Self {
        Self { place, ..self }
    }

    /// The steps whose results are known here.
    pub(crate) fn visible(&self) -> &'f [String] {
        &self.steps.ids[..self.behind.min(self.steps.ids.len())]
    }
}
