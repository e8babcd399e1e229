//! The audit record: what operators did, by whom and why.

use jiff::Timestamp;
use semel_model::audit_chain::{ActTraces, RemovedActs, SealedAct};
use semel_model::{RunId, TokenId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// What an operator did, with its place in the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AuditRecord {
    /// Its number in the record.
    pub id: i64,
    /// When.
    pub at: Timestamp,
    /// Who: `token:NAME`, or `link:NAME (unverified)`.
    pub actor: String,
    /// What was done, e.g. `key.drop`.
    pub action: String,
    /// What it was done to.
    pub subject: String,
    /// Why, in the operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The run that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// The token of the request; none where no request asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::TokenId>)]
    pub token: Option<TokenId>,
    /// The address of the client, as Semel sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The SHA-256 of what was there before, in hexadecimal, where it changed something that has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_digest: Option<String>,
    /// The SHA-256 of what is there now, in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_digest: Option<String>,
    /// Its place in the chain, once it is sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<i64>,
    /// The digest of this act and all before it, in hexadecimal, once it is sealed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// Which acts to list, latest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AuditFilter {
    /// Only of this actor, e.g. `token:ci`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Only this action, e.g. `flow.promote`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Only what was done to this, e.g. an effect's id or a flow's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// At this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The most of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

impl AuditRecord {
    /// As it is sealed, with its digest. None before it is sealed, or if a digest is not hexadecimal.
    #[must_use]
    pub fn sealed(&self) -> Option<(SealedAct<'_>, Vec<u8>)> {
        let read = |text: &Option<String>| match text {
            Some(text) => read_digest(text).map(Some),
            None => Some(None),
        };
        let traces = ActTraces {
            token: self.token,
            address: self.address.as_deref(),
            old_digest: read(&self.old_digest)?,
            new_digest: read(&self.new_digest)?,
        };
        let act = SealedAct {
            position: self.position?,
            id: self.id,
            at: self.at,
            actor: &self.actor,
            action: &self.action,
            subject: &self.subject,
            reason: self.reason.as_deref(),
            run: self.run,
            traces,
        };
        Some((act, hex::decode(self.digest.as_deref()?).ok()?))
    }
}

/// A stretch of the chain whose acts are past their time and were removed: its seal stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemovedStretch {
    /// The position of its first act.
    pub first: i64,
    /// The position of its last act.
    pub last: i64,
    /// The digest that its first act followed, in hexadecimal.
    pub digest_before: String,
    /// The digest of its last act, which the next one follows, in hexadecimal.
    pub digest: String,
    /// When the latest of its acts was done.
    pub latest_at: Timestamp,
    /// When it was removed.
    pub removed_at: Timestamp,
}

impl RemovedStretch {
    /// What the chain follows. None if a digest is not 32 bytes in hexadecimal.
    #[must_use]
    pub fn acts(&self) -> Option<RemovedActs> {
        Some(RemovedActs {
            first: self.first,
            last: self.last,
            digest_before: read_digest(&self.digest_before)?,
            digest: read_digest(&self.digest)?,
        })
    }
}

/// A digest in hexadecimal.
#[must_use]
pub fn read_digest(text: &str) -> Option<[u8; 32]> {
    hex::decode(text).ok()?.try_into().ok()
}

/// Which part of the chain to read, in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChainFilter {
    /// Behind this position.
    #[serde(default)]
    pub after: i64,
    /// The most of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// `true` with the first page of an export: the record gets an act `audit.export`. Absent with later pages, and where nothing is exported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<bool>,
}

/// Which removed stretches to list, in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RemovedFilter {
    /// Behind this position.
    #[serde(default)]
    pub after: i64,
    /// The most of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
}
