//! What the language knows about a kind of step. Every field must be filled in: what a kind does not
//! have is said, not left out.

use semel_model::Guard;

use super::body::{BodyCheck, Lowering};
use super::effect::EffectRule;
use super::{Action, ActionKind};
use crate::context::KnownConnection;
use crate::grammar::FieldType;
use crate::shapes::ValueShape;
use crate::tree::Record;
use crate::types::Type;

/// Everything that the language knows about one kind of step.
pub struct StepKind {
    /// Which one it is.
    pub kind: ActionKind,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
    /// Where it is documented.
    pub docs: Docs,
    /// `a` or `an`, for messages.
    pub(crate) article: &'static str,
    /// What its field takes.
    pub(crate) takes: FieldType,
    /// What it changes; nothing if it never changes anything.
    pub(crate) effect: Option<EffectRule>,
    /// Whether it can stand under `undo`.
    pub(crate) undoable: bool,
    /// The kinds of destinations that its `connection` may lead to; empty if it has none.
    pub(crate) connection: &'static [&'static str],
    /// What no table can say about it: which fields go together.
    pub(crate) check: Option<fn(&mut BodyCheck<'_, '_>, &Record)>,
    /// From what was read to what a release holds.
    pub(crate) lower: fn(&Lowering<'_>) -> Option<Action>,
    /// What its result reads as `response`.
    pub(crate) response: fn(Option<&Record>) -> Type,
    /// What it gives where its author does not say `result`.
    pub(crate) result: fn(Option<&Record>) -> Type,
    /// Whether its author may say `result`, over `response`.
    pub(crate) takes_result: bool,
    /// Whether its author may say `external_id`: there is a destination that names what was made.
    pub(crate) takes_external_id: bool,
    /// Where its result comes from, as far as keys are concerned.
    pub(crate) origin: ResultOrigin,
    /// Which steps it holds, where it holds any.
    pub(crate) holds: Option<Holds>,
    /// Whether the run pauses at it, for a reason that the order of steps must respect.
    pub(crate) pauses: bool,
    /// The shapes of what it answers and gives, for the documentation.
    pub shapes: &'static [&'static ValueShape],
    /// Whether no step comes after it.
    pub(crate) ends_run: bool,
    /// Whether `waits.ID.url` is an address that ends it.
    pub(crate) has_link: fn(&Record) -> bool,
    /// What may never come, if the step waits for an answer, and a time for a fix.
    pub(crate) waits_for: fn(&Record) -> Option<(&'static str, &'static str)>,
}

/// Where a kind of step is documented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Docs {
    /// On a page of its own: its text.
    Page(&'static str),
    /// In a section of `docs/control.md` whose heading names it.
    Control,
}

/// Where the result of a step comes from, as far as keys are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultOrigin {
    /// From a destination, a person, a worker or a table.
    World,
    /// A model made it up.
    Model,
    /// From what the expression in its field reads.
    Expression,
    /// From the steps that were done for each item.
    Items,
}

/// How a step does the steps that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// One of its lists, in the run itself.
    OneList,
    /// Its list once for each item, each in a run of its own.
    Items,
    /// All of its lists, each in a run of its own.
    Branches,
}

impl Holds {
    /// Whether what it holds is done by runs of their own.
    pub(crate) const fn makes_runs(self) -> bool {
        match self {
            Self::Items | Self::Branches => true,
            Self::OneList => false,
        }
    }
}

impl StepKind {
    /// The word that a flow writes.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.kind.as_str()
    }

    /// The kind as it is spoken: an `http`, a `kv`.
    pub(crate) fn spoken(&self) -> String {
        format!("{} `{}`", self.article, self.name())
    }

    /// Whether a step as it is written changes anything; nothing if what could be read does not
    /// show it.
    pub(crate) fn changes(&self, body: Option<&Record>) -> Option<bool> {
        match &self.effect {
            Some(rule) => body.and_then(rule.changes),
            None => Some(false),
        }
    }

    /// What the author asks for, in one word: the kind, or the action that the kind performs.
    pub(crate) fn verb(&self, body: Option<&Record>) -> &'static str {
        let said = self.effect.as_ref().zip(body);
        said.and_then(|(rule, body)| (rule.verb)(body))
            .unwrap_or(self.name())
    }

    /// The guards that a step can have, the one that holds by itself first. None if it changes
    /// nothing.
    pub(crate) fn guards(
        &self,
        body: Option<&Record>,
        connection: Option<KnownConnection>,
    ) -> Vec<Guard> {
        let Some((rule, body)) = self.effect.as_ref().zip(body) else {
            return vec![];
        };
        if (rule.changes)(body) != Some(true) {
            return vec![];
        }
        let honoured = connection.is_some_and(|known| known.key_window.is_some());
        let own = (rule.default_guard)(body);
        let first = match own == Guard::Review && rule.asks_connection && honoured {
            true => Guard::Key,
            false => own,
        };
        let others = rule.guards.iter().copied();
        std::iter::once(first)
            .chain(others.filter(|guard| *guard != first))
            .collect()
    }

    /// Whether the connection says at run time how a step that names no guard is made safe.
    pub(crate) fn is_decided_by_connection(&self, body: Option<&Record>) -> bool {
        let asks = self
            .effect
            .as_ref()
            .is_some_and(|rule| rule.asks_connection);
        asks && body.is_some_and(|body| body.has("connection"))
    }
}

impl std::fmt::Debug for StepKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StepKind({})", self.name())
    }
}

/// No step of the kind has a link.
pub(super) const fn no_link(_: &Record) -> bool {
    false
}

/// No step of the kind waits for an answer.
pub(super) const fn waits_for_nobody(_: &Record) -> Option<(&'static str, &'static str)> {
    None
}

/// A value that others decide, or that has no fields which could be mistaken.
pub(super) const fn anything(_: Option<&Record>) -> Type {
    Type::Any
}
