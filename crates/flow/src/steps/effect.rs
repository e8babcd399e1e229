//! What a kind of step changes in the outside world, and how that is made safe.

use semel_model::Guard;
use serde::Serialize;

use crate::tree::Record;

/// What kind of change an effect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Something new comes into being; already handled means that it exists.
    Create,
    /// Something that exists changes; already handled means that it has the new value.
    Update,
    /// People or flows are notified; already handled means that the message was sent.
    Notify,
}

impl EffectKind {
    /// The words, in the order of the documentation.
    pub(crate) const WORDS: &[&str] = &["create", "update", "notify"];

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Notify => "notify",
        }
    }

    /// What a word means.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let all = [Self::Create, Self::Update, Self::Notify];
        all.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// The effects of a kind of step.
pub(crate) struct EffectRule {
    /// Whether a step as it is written changes anything; nothing if that cannot be determined.
    pub(crate) changes: fn(&Record) -> Option<bool>,
    /// What the author asks for, in one word, where the kind alone does not say it.
    pub(crate) verb: fn(&Record) -> Option<&'static str>,
    /// What kind of change it is, where the author does not say.
    pub(crate) effect_kind: fn(&Record) -> EffectKind,
    /// The guards that fit.
    pub(crate) guards: &'static [Guard],
    /// The guard that holds where the author names none.
    pub(crate) default_guard: fn(&Record) -> Guard,
    /// Whether a connection that honours keys makes that `key` instead of `review`.
    pub(crate) asks_connection: bool,
    /// Whether `review` goes without saying: a lost answer is no surprise to the author.
    pub(crate) review_is_usual: bool,
    /// Whether it is made in Semel's own database, in the commit of its outcome.
    pub(crate) commits_here: bool,
}

/// Every step of the kind is an effect.
pub(super) const fn always(_: &Record) -> Option<bool> {
    Some(true)
}

/// The kind says it all.
pub(super) const fn no_verb(_: &Record) -> Option<&'static str> {
    None
}

/// The effect and its marker commit together.
pub(super) const fn transaction(_: &Record) -> Guard {
    Guard::Transaction
}

/// A person settles a doubt.
pub(super) const fn review(_: &Record) -> Guard {
    Guard::Review
}
