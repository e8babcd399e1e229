//! Who may enter a namespace through an identity provider.

use jiff::Timestamp;
use semel_model::{Rights, Role, TokenId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::token::Token;
use crate::schema;

/// A group of the identity provider, and the role of its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GroupRole {
    /// The group, as the identity provider calls it.
    pub group: String,
    /// The role.
    #[schema(value_type = schema::Role)]
    pub role: Role,
    /// What they may do besides.
    #[serde(default)]
    #[schema(value_type = schema::Rights)]
    pub rights: Rights,
    /// When the group got it.
    pub changed_at: Timestamp,
}

/// Gives the members of a group a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MapGroup {
    /// The group, as the identity provider calls it.
    pub group: String,
    /// The role: none that has a right that the caller lacks.
    #[schema(value_type = schema::Role)]
    pub role: Role,
    /// What they may do besides: rights that this role may be given one by one, and that the caller has.
    #[serde(default)]
    #[schema(value_type = schema::Rights)]
    pub rights: Rights,
}

/// Takes the role of a group away.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UnmapGroup {
    /// The group.
    pub group: String,
}

/// A person who signed in through the identity provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Person {
    /// What they are known by here.
    #[schema(value_type = schema::TokenId)]
    pub id: TokenId,
    /// What the provider calls them.
    pub name: String,
    /// The provider.
    pub issuer: String,
    /// What the provider knows them by. Issuer and subject are the person, whatever the name.
    pub subject: String,
    /// Their role, where their groups have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Role>)]
    pub role: Option<Role>,
    /// What they could do when the provider last named their groups.
    #[serde(default)]
    #[schema(value_type = schema::Rights)]
    pub rights: Rights,
    /// The groups that they had then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// When they first signed in.
    pub created_at: Timestamp,
    /// When the provider last named their groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_at: Option<Timestamp>,
    /// When an operator revoked them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// A person was kept out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevokedPerson {
    /// The person.
    #[serde(flatten)]
    pub person: Person,
    /// The tokens that they made, directly or through what they made, and that worked until now: the
    /// newest 100. They were revoked, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<Token>,
    /// How many these are.
    #[serde(default)]
    pub made_count: u64,
}

/// Which people to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PersonFilter {
    /// How many at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Keeps a person out, or lets them in again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePerson {
    /// Why, for the audit record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
