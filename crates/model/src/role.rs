//! Roles: the sets of rights that people and programs usually need.
//!
//! A role gives rights, and names further ones that its holder may be given one by one. Whoever needs
//! another set gets a token with rights and no role.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::right::{Right, Rights};

/// What the holder of a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Sees states.
    Observer,
    /// Sees states and payloads.
    Viewer,
    /// Keeps runs going.
    Operator,
    /// Decides approvals.
    Approver,
    /// Writes flows.
    Editor,
    /// Manages a namespace.
    Admin,
    /// Does the work of tasks, and runs scripts.
    Worker,
}

impl Role {
    /// Every role, in the order in which they are listed everywhere.
    pub const ALL: &[Self] = &[
        Self::Observer,
        Self::Viewer,
        Self::Operator,
        Self::Approver,
        Self::Editor,
        Self::Admin,
        Self::Worker,
    ];

    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Observer => "observer",
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Approver => "approver",
            Self::Editor => "editor",
            Self::Admin => "admin",
            Self::Worker => "worker",
        }
    }

    /// Who it is for, for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Observer => "monitoring: sees states, keys and times",
            Self::Viewer => "support: sees payloads as well",
            Self::Operator => "keeps runs going",
            Self::Approver => "decides approvals",
            Self::Editor => "writes, rehearses and publishes flows",
            Self::Admin => "manages a namespace",
            Self::Worker => "does the work of tasks, and runs scripts",
        }
    }

    /// The rights that it gives.
    #[must_use]
    pub fn rights(self) -> Rights {
        self.given().iter().copied().collect()
    }

    /// The rights that its holder may have besides, each named when the token is made.
    #[must_use]
    pub fn grantable(self) -> Rights {
        let more: &[Right] = match self {
            Self::Operator => &[Right::Settle, Right::Replay],
            Self::Editor => &[Right::Promote, Right::Connect, Right::Secret],
            Self::Admin => &[Right::Override, Right::Redo],
            Self::Observer | Self::Viewer | Self::Approver | Self::Worker => &[],
        };
        more.iter().copied().collect()
    }

    const fn given(self) -> &'static [Right] {
        match self {
            Self::Observer => &[Right::Read],
            Self::Viewer => &[Right::Read, Right::Payload],
            Self::Operator => &[
                Right::Read,
                Right::Payload,
                Right::Start,
                Right::Operate,
                Right::Once,
            ],
            Self::Approver => &[Right::Read, Right::Approve],
            Self::Editor => &[Right::Read, Right::Payload, Right::Write],
            Self::Admin => &[
                Right::Read,
                Right::Payload,
                Right::Start,
                Right::Operate,
                Right::Settle,
                Right::Replay,
                Right::Approve,
                Right::Write,
                Right::Promote,
                Right::Connect,
                Right::Secret,
                Right::Once,
                Right::Admin,
                Right::Audit,
            ],
            Self::Worker => &[Right::Once, Right::Work],
        }
    }

    /// The words of all roles, for a message.
    #[must_use]
    pub fn list() -> String {
        let words: Vec<&str> = Self::ALL.iter().map(|role| role.as_str()).collect();
        words.join(", ")
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is no role.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role is one of {}", Role::list())]
pub struct RoleError;

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        let named = Self::ALL.iter().find(|role| role.as_str() == text);
        named.copied().ok_or(RoleError)
    }
}

impl Serialize for Role {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Role {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_a_word_of_its_own_that_reads_back() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(*role));
        }
        assert_eq!("root".parse::<Role>(), Err(RoleError));
    }

    #[test]
    fn what_is_given_one_by_one_is_given_by_no_role_alone() {
        for role in Role::ALL {
            let (given, more) = (role.rights(), role.grantable());
            assert_eq!(given.without(more), given, "{role}");
        }
        let by_role: Rights = Role::ALL.iter().flat_map(|it| it.rights().iter()).collect();
        assert_eq!(
            Rights::ALL.without(by_role).words(),
            ["override", "redo", "instance"],
            "what passes over a safeguard or a namespace is given one by one"
        );
    }

    #[test]
    fn only_an_administrator_manages_access() {
        let managing = Role::ALL
            .iter()
            .filter(|it| it.rights().contains(Right::Admin));

        assert_eq!(managing.collect::<Vec<_>>(), [&Role::Admin]);
    }
}
