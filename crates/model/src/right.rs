//! Rights: what a token may do.
//!
//! Rights are independent of each other: none includes another. A token has a set of them, which its
//! maker chooses; every route of the API names the one that it needs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! rights {
    ($($(#[$doc:meta])* $variant:ident $name:literal $means:literal;)*) => {
        /// One thing that a token may be allowed to do.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Right { $($(#[$doc])* $variant,)* }

        impl Right {
            /// Every right, in the order in which they are listed everywhere.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it allows, for people.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $means,)* }
            }
        }
    };
}

rights! {
    /// To see that something exists, and its state.
    Read "read" "see states, keys and times, and how flows, connections and schedules are set up";
    /// To see what senders and destinations sent.
    Payload "payload" "see inputs, results, journals, requests and resources as well";
    /// To start runs.
    Start "start" "start runs, and upload resources";
    /// To intervene in runs.
    Operate "operate" "cancel and resume runs, complete waits, drop keys, pause flows, connections and schedules, fire schedules, retry deliveries, decide held deliveries, ask for reconcile passes, share searches";
    /// To record what an effect in doubt came to.
    Settle "settle" "settle effects in doubt, assign, note and snooze them, and correct a result that an operator recorded";
    /// To replay runs.
    Replay "replay" "replay runs";
    /// To decide approvals.
    Approve "approve" "decide the approvals that name the token or one of its groups";
    /// To change flows.
    Write "write" "push, rehearse and publish flows";
    /// To make a release live.
    Promote "promote" "make a release live";
    /// To change where Semel sends to.
    Connect "connect" "create, change, test and delete connections and subscriptions, and set where alerts go";
    /// To set secrets.
    Secret "secret" "set, delete and rotate secrets";
    /// To pass over a safeguard.
    Override "override" "pass over a safeguard, with a reason";
    /// To perform or take back a done effect once more.
    Redo "redo" "undo or redo one done effect, or settle a doubt by undoing it";
    /// To use named effects.
    Once "once" "begin named effects, for scripts, and end those that this token began";
    /// To do the work of tasks.
    Work "work" "claim tasks, and renew and answer those that this token claimed";
    /// To manage access.
    Admin "admin" "create, list and revoke tokens, say what groups may do, keep people out, and erase payloads of runs";
    /// To read the audit record.
    Audit "audit" "read the audit record";
    /// To manage the installation.
    Instance "instance" "create, change and list namespaces, and see servers and metrics";
}

impl Right {
    /// The words of all rights, for a message.
    #[must_use]
    pub fn list() -> String {
        Rights::ALL.to_string()
    }

    const fn bit(self) -> u32 {
        1 << self as u32
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is no right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a right is one of {}", Right::list())]
pub struct RightError;

impl FromStr for Right {
    type Err = RightError;

    fn from_str(text: &str) -> Result<Self, RightError> {
        let named = Self::ALL.iter().find(|right| right.as_str() == text);
        named.copied().ok_or(RightError)
    }
}

impl Serialize for Right {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Right {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A set of rights.
///
/// Its words are read leniently: a word that a newer version wrote is no right here, and allows
/// nothing. What asks for rights names them as [`Right`]s, which are read strictly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(u32);

impl Rights {
    /// All of them.
    pub const ALL: Self = Self((1 << Right::ALL.len()) - 1);

    /// Takes words as the store keeps them.
    pub fn of_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let known = words.into_iter().filter_map(|word| word.parse().ok());
        known.collect()
    }

    /// The words, as the store keeps them.
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        self.iter().map(Right::as_str).collect()
    }

    /// Whether a right is among them.
    #[must_use]
    pub const fn contains(self, right: Right) -> bool {
        self.0 & right.bit() != 0
    }

    /// These, except those.
    #[must_use]
    pub const fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them, in their order.
    pub fn iter(self) -> impl Iterator<Item = Right> {
        let all = Right::ALL.iter().copied();
        all.filter(move |right| self.contains(*right))
    }
}

impl FromIterator<Right> for Rights {
    fn from_iter<I: IntoIterator<Item = Right>>(rights: I) -> Self {
        let bits = rights.into_iter().map(Right::bit);
        Self(bits.fold(0, |all, bit| all | bit))
    }
}

impl From<Right> for Rights {
    fn from(right: Right) -> Self {
        Self(right.bit())
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words().join(", "))
    }
}

impl Serialize for Rights {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Rights {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(deserializer)?;
        Ok(Self::of_words(words.iter().map(String::as_str)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_right_has_a_word_of_its_own_that_reads_back() {
        for right in Right::ALL {
            assert_eq!(right.as_str().parse(), Ok(*right));
            assert!(Rights::ALL.contains(*right), "{right}");
        }
        assert_eq!("Read".parse::<Right>(), Err(RightError));
        assert_eq!(Rights::ALL.iter().count(), Right::ALL.len());
    }

    #[test]
    fn a_set_is_listed_in_one_order_whatever_it_was_made_from() {
        let rights: Rights = [Right::Audit, Right::Start, Right::Read, Right::Start]
            .into_iter()
            .collect();

        assert_eq!(rights.to_string(), "read, start, audit");
        assert_eq!(
            serde_json::to_string(&rights).unwrap(),
            r#"["read","start","audit"]"#
        );
        assert!(!rights.contains(Right::Payload));
        assert_eq!(
            rights.without(Right::Start.into()).words(),
            ["read", "audit"]
        );
    }

    #[test]
    fn a_word_that_is_not_known_here_allows_nothing() {
        let rights: Rights = serde_json::from_str(r#"["teleport","read"]"#).unwrap();

        assert_eq!(rights, Right::Read.into());
        assert!(Rights::of_words(["ADMIN", ""]).is_empty());
    }

    #[test]
    fn a_right_that_is_asked_for_must_be_known() {
        let asked = serde_json::from_str::<Vec<Right>>(r#"["read","teleport"]"#);

        let error = asked.unwrap_err().to_string();
        assert!(error.contains("one of read, payload, start"), "{error}");
    }
}
