//! Named effects: effects whose key people choose.
//!
//! ```text
//! absent  ──begin──▶ Pending
//! Pending ──▶ Done | Failed    its holder says so
//!         ──▶ absent           nothing was sent: its holder frees it
//!         ──▶ InDoubt          its lease is over, or its holder cannot tell
//! InDoubt ──▶ Done | Failed    the run that holds it, or an operator; *done* also by a late report
//!         ──begin──▶ Pending   the run that holds it, or the next script, if both agreed to `retry`
//! Failed  ──begin──▶ Pending   the same request: the same generation; another one: the next
//!         ──▶ absent           it expires: one generation on
//! Done    ──▶ absent           it expires, or an operator redoes it: one generation on
//!         ──▶ Undoing          the run that performed it is about to undo it; whoever asks waits
//! Undoing ──▶ absent           it is undone: one generation on
//!         ──▶ Done             its run ended, and it is known that it was not undone
//!         ──▶ InDoubt          its run ended, and nobody can tell whether it was undone
//! ```
//!
//! A named effect is identified by namespace, scope and key, and belongs to no run. What performs it
//! holds it under a fencing token, which grows with each new holder. The key that the destination is
//! sent is derived from the name and its generation: see [`EffectId::named`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::id::{EffectId, NamedEffectId, digest};
use crate::key::{Key, KeyError};
use crate::name::{FlowName, Label, NamespaceName};
use crate::storable::check_name;

/// The most bytes of the key of a named effect.
pub const NAMED_KEY_BYTES_MAX: usize = 1024;

/// Where a key of a named effect counts: the same key in two scopes is two effects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum EffectScope {
    /// One step of a flow, whatever its release: `flow/NAME/STEP`.
    Step {
        /// The flow.
        flow: FlowName,
        /// The step's path.
        step: Box<str>,
    },
    /// All steps of a flow: `flow/NAME`.
    Flow(FlowName),
    /// The whole namespace, scripts included: `shared`.
    Shared,
    /// Scripts that agree on a name: `once/NAME`.
    Once(Label),
}

/// The text is no scope.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected shared, once/NAME, flow/NAME or flow/NAME/STEP")]
pub struct EffectScopeError;

impl EffectScope {
    /// The scope of a step, where its path can be stored.
    ///
    /// # Errors
    ///
    /// If the path is empty, too long, or has a zero.
    pub fn step(flow: FlowName, step: &str) -> Result<Self, EffectScopeError> {
        match step.is_empty() || check_name(step).is_err() {
            true => Err(EffectScopeError),
            false => Ok(Self::Step {
                flow,
                step: step.into(),
            }),
        }
    }
}

impl fmt::Display for EffectScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { flow, step } => write!(f, "flow/{flow}/{step}"),
            Self::Flow(flow) => write!(f, "flow/{flow}"),
            Self::Shared => f.write_str("shared"),
            Self::Once(name) => write!(f, "once/{name}"),
        }
    }
}

impl FromStr for EffectScope {
    type Err = EffectScopeError;

    fn from_str(text: &str) -> Result<Self, EffectScopeError> {
        if text == "shared" {
            return Ok(Self::Shared);
        }
        if let Some(name) = text.strip_prefix("once/") {
            return name.parse().map(Self::Once).map_err(|_| EffectScopeError);
        }
        let rest = text.strip_prefix("flow/").ok_or(EffectScopeError)?;
        let (flow, step) = match rest.split_once('/') {
            Some((flow, step)) => (flow, Some(step)),
            None => (rest, None),
        };
        let flow: FlowName = flow.parse().map_err(|_| EffectScopeError)?;
        match step {
            Some(step) => Self::step(flow, step),
            None => Ok(Self::Flow(flow)),
        }
    }
}

impl TryFrom<String> for EffectScope {
    type Error = EffectScopeError;

    fn try_from(text: String) -> Result<Self, EffectScopeError> {
        text.parse()
    }
}

impl From<EffectScope> for String {
    fn from(scope: EffectScope) -> Self {
        scope.to_string()
    }
}

/// What people call a named effect: a key in a scope.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectName {
    scope: EffectScope,
    key: Key,
}

/// Why some bytes are no key of a named effect.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum EffectNameError {
    /// An empty key would make all effects without one the same.
    #[error("the key is empty")]
    Empty,
    /// Longer than [`NAMED_KEY_BYTES_MAX`].
    #[error("the key has {bytes} bytes, more than {NAMED_KEY_BYTES_MAX}")]
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
}

impl From<KeyError> for EffectNameError {
    fn from(error: KeyError) -> Self {
        match error {
            KeyError::Empty => Self::Empty,
            KeyError::TooLong { bytes } => Self::TooLong { bytes },
        }
    }
}

impl EffectName {
    /// Names an effect. The key is taken just as it is.
    ///
    /// # Errors
    ///
    /// If the key is empty or too long.
    pub fn new(scope: EffectScope, key: impl Into<Box<[u8]>>) -> Result<Self, EffectNameError> {
        let key = Key::new(key)?;
        match key.as_bytes().len() {
            bytes if bytes > NAMED_KEY_BYTES_MAX => Err(EffectNameError::TooLong { bytes }),
            _ => Ok(Self { scope, key }),
        }
    }

    /// Where the key counts.
    #[must_use]
    pub const fn scope(&self) -> &EffectScope {
        &self.scope
    }

    /// The key.
    #[must_use]
    pub const fn key(&self) -> &Key {
        &self.key
    }
}

impl fmt::Display for EffectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.scope, self.key)
    }
}

impl NamedEffectId {
    /// Derives the identity of a named effect.
    pub fn derive(namespace: &NamespaceName, name: &EffectName) -> Self {
        let scope = name.scope.to_string();
        let parts = [
            namespace.as_str().as_bytes(),
            scope.as_bytes(),
            name.key.as_bytes(),
        ];
        Self::from_uuid(Uuid::from_bytes(digest("semel.named.1", &parts)))
    }

    /// Whether a key is that of a generation of this effect.
    pub fn owns(&self, key: EffectId) -> bool {
        let (low, high) = self.owned_range();
        (low..=high).contains(key.as_uuid())
    }

    /// The lowest and the highest key that a generation of this effect can have.
    pub fn owned_range(&self) -> (Uuid, Uuid) {
        let mut low = *self.as_uuid().as_bytes();
        let mut high = low;
        low[8..].fill(0x00);
        high[8..].fill(0xff);
        (Uuid::from_bytes(low), Uuid::from_bytes(high))
    }
}

impl EffectId {
    /// Derives the key that the destination of a named effect is sent: no run, no attempt and no
    /// holder enter into it. It begins with the name's eight bytes, so that a pasted key finds its
    /// row by range.
    pub fn named(id: NamedEffectId, generation: u32) -> Self {
        let head = id.as_uuid().as_bytes();
        let parts: [&[u8]; 2] = [head, &generation.to_be_bytes()];
        let mut bytes = digest("semel.named.effect.1", &parts);
        bytes.copy_within(0..8, 8);
        bytes[..8].copy_from_slice(&head[..8]);
        Self::from_uuid(Uuid::from_bytes(bytes))
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident $error:ident $all:literal $message:literal
     $($(#[$variant_doc:meta])* $variant:ident $word:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// All of them.
            pub const ALL: [Self; $all] = [$(Self::$variant,)*];

            /// The word for it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        /// The text is none of the words.
        #[derive(Debug, PartialEq, Eq, thiserror::Error)]
        #[error($message)]
        pub struct $error;

        impl FromStr for $name {
            type Err = $error;

            fn from_str(text: &str) -> Result<Self, $error> {
                let mut all = Self::ALL.into_iter();
                all.find(|it| it.as_str() == text).ok_or($error)
            }
        }
    };
}

words! {
    /// The state of a named effect. One that is absent has none.
    NamedEffectState NamedEffectStateError 5 "expected pending, done, failed, in_doubt or undoing"
    /// Its holder performs it.
    Pending "pending";
    /// It happened.
    Done "done";
    /// It did not happen, and may be begun again.
    Failed "failed";
    /// Whether it happened is unknown.
    InDoubt "in_doubt";
    /// It happened, and the run that performed it is undoing it.
    Undoing "undoing";
}

words! {
    /// What a repeat does when a script's effect is in doubt.
    OnDoubt OnDoubtError 3 "expected ask, fail or retry"
    /// An operator settles it.
    Ask "ask";
    /// The repeat fails; an operator may settle it.
    Fail "fail";
    /// The repeat performs it again, once the first holder cannot be running any more.
    Retry "retry";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::InSlot as _;

    #[test]
    fn a_scope_reads_as_it_is_written() {
        for text in ["shared", "once/billing", "flow/orders", "flow/orders/a.b/c"] {
            assert_eq!(text.parse::<EffectScope>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "once",
            "once/",
            "once/a b",
            "flow/",
            "flow/Orders",
            "flow/a/",
            "step/x",
        ] {
            assert_eq!(text.parse::<EffectScope>(), Err(EffectScopeError), "{text}");
        }
    }

    #[test]
    fn a_key_has_something_and_an_end() {
        let long = vec![b'x'; NAMED_KEY_BYTES_MAX + 1];
        assert!(EffectName::new(EffectScope::Shared, &long[1..]).is_ok());
        assert_eq!(
            EffectName::new(EffectScope::Shared, long),
            Err(EffectNameError::TooLong { bytes: 1025 })
        );
        assert_eq!(
            EffectName::new(EffectScope::Shared, *b""),
            Err(EffectNameError::Empty)
        );
    }

    #[test]
    fn a_name_has_one_identity_and_each_generation_a_key_in_its_range() {
        let namespace: NamespaceName = "default".parse().unwrap();
        let name = |scope: &str, key: &str| {
            let name = EffectName::new(scope.parse().unwrap(), key.as_bytes()).unwrap();
            NamedEffectId::derive(&namespace, &name)
        };
        let id = name("shared", "charge:o-1");

        assert_eq!(id, name("shared", "charge:o-1"));
        assert_ne!(id, name("once/billing", "charge:o-1"));
        assert_ne!(id, name("shared", "charge:o-2"));
        assert_eq!(id.to_string().parse(), Ok(id));
        let (low, high) = id.owned_range();
        let keys = [0, 1, u32::MAX].map(|generation| EffectId::named(id, generation));
        for key in keys {
            assert!((low..=high).contains(key.as_uuid()) && key.slot() == id.slot());
        }
        assert!(keys[0] != keys[1] && keys[1] != keys[2]);
    }
}
