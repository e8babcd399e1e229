//! Tokens: who may use the API, and what each may do.

use std::fmt;

use jiff::Timestamp;
use semel_model::{Label, Networks, Right, Rights, Role, Span, TokenId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// A token, as it is kept: without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Token {
    /// What it is known by. `token` is the text that a client presents, and is shown only once.
    #[schema(value_type = schema::TokenId)]
    pub id: TokenId,
    /// What its owner calls it.
    pub name: String,
    /// The role that it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Role>)]
    pub role: Option<Role>,
    /// What it may do.
    #[serde(default)]
    #[schema(value_type = schema::Rights)]
    pub rights: Rights,
    /// The groups that its owner belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The networks that it is accepted from; none listed is anywhere.
    #[serde(default, skip_serializing_if = "Networks::is_empty")]
    #[schema(value_type = Vec<schema::Network>)]
    pub networks: Networks,
    /// The queues whose tasks it may work on; none listed is every queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::Label>)]
    pub queues: Vec<Label>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it stops working.
    pub expires_at: Timestamp,
    /// When it was last used, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
    /// When an operator revoked it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
    /// The token or the person that made it; absent where somebody did with access to the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TokenId>)]
    pub made_by: Option<TokenId>,
    /// Whether a holder of the installation's secret key may be able to compute it: an earlier version
    /// made it, and it should be revoked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub derived: bool,
}

/// Creates a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateToken {
    /// What its owner calls it: its holder is known by this name, to approvals too.
    pub name: String,
    /// What its holder is; gives the rights of that role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Role>)]
    pub role: Option<Role>,
    /// What it may do besides what its role gives: without a role at least one right, and none that
    /// the caller lacks.
    #[serde(default)]
    #[schema(value_type = Vec<schema::Right>)]
    pub rights: Vec<Right>,
    /// The groups that its owner belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The networks that it is accepted from; none listed is anywhere. A caller with networks names
    /// some that lie inside its own.
    #[serde(default, skip_serializing_if = "Networks::is_empty")]
    #[schema(value_type = Vec<schema::Network>)]
    pub networks: Networks,
    /// The queues whose tasks it may work on, with the right `work`; none listed is every queue. A
    /// caller with queues names some of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<schema::Label>)]
    pub queues: Vec<Label>,
    /// How long it works; 90 days by default, at most 365.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub lifetime: Option<Span>,
}

/// A token was created.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// The token itself, for its holder. Only a digest of the secret is kept; for 10 minutes after a
    /// keyed request the token is also kept, encrypted with the master key.
    pub token: String,
    /// What is kept of it.
    #[serde(flatten)]
    pub kept: Token,
}

/// Without the token itself.
impl fmt::Debug for CreatedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("CreatedToken");
        shown.field("kept", &self.kept).finish_non_exhaustive()
    }
}

/// Revokes a token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeToken {
    /// Why, for the audit record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether to revoke as well what it made in its namespace, and what those made.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub with_made: bool,
}

/// A token was revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevokedToken {
    /// The token.
    #[serde(flatten)]
    pub token: Token,
    /// The tokens that it made, directly or through what it made, and that worked until now: the newest
    /// 100. Those that were revoked with it have `revoked_at`, the others still work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub made: Vec<Token>,
    /// How many these are.
    #[serde(default)]
    pub made_count: u64,
}

/// Revokes the tokens of the namespace that may have been derived from the installation's secret key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeDerivedTokens {
    /// Why, for the audit record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Derived tokens were revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RevokedDerivedTokens {
    /// Those that were revoked, the newest 100.
    pub tokens: Vec<Token>,
    /// How many were revoked.
    pub count: u64,
    /// Whether the token that asked may have been derived, too: it was left to work.
    pub own_left: bool,
}

/// Which tokens to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenFilter {
    /// Whether to list those as well that no longer work.
    #[serde(default)]
    pub all: bool,
    /// The most tokens of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_created_token_is_not_printed() {
        let at = Timestamp::UNIX_EPOCH;
        let kept = Token {
            id: "tok_00000000000000000000000000000000".parse().unwrap(),
            name: "ci".to_owned(),
            role: None,
            rights: Right::Start.into(),
            groups: Vec::new(),
            networks: Networks::default(),
            queues: Vec::new(),
            created_at: at,
            expires_at: at,
            last_used_at: None,
            revoked_at: None,
            made_by: None,
            derived: false,
        };
        let token = "semel_hush".to_owned();

        let printed = format!("{:?}", CreatedToken { token, kept });

        assert!(!printed.contains("hush"), "{printed}");
    }
}
