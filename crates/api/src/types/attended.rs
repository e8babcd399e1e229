//! Doubts while people look into them: from when on one may be denied, and what was said of it.

use jiff::Timestamp;
use semel_model::{EffectId, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// From when on an operator may say that an effect did not happen. Before, its last attempt could still
/// arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Deniable {
    /// From when on: after the three spans that follow, since the attempt's intent.
    pub from: Timestamp,
    /// How long after the intent a server may still begin to send: its lease, and 3 s for room at a destination.
    #[schema(value_type = schema::Span)]
    pub lease: Span,
    /// How long the exchange may take.
    #[schema(value_type = schema::Span)]
    pub timeout: Span,
    /// How long the destination may still act after it.
    #[schema(value_type = schema::Span)]
    pub acts_within: Span,
}

/// What people said of a doubt while they look into it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attended {
    /// Who looks into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// What they found so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Until when it is put off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snoozed_until: Option<Timestamp>,
}

/// Says who looks into a doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AssignDoubt {
    /// Who; null for nobody.
    #[serde(default)]
    pub to: Option<String>,
}

/// Notes something about a doubt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteDoubt {
    /// What, in place of what was noted before; null removes it.
    #[serde(default)]
    pub note: Option<String>,
}

/// Puts a doubt off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SnoozeDoubt {
    /// Until when, within 30 days; without this and `for`, it is listed with the others again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// For how long from now, instead of `until`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub span: Option<Span>,
}

/// What is said of a doubt now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AttendedEffect {
    /// The effect.
    #[schema(value_type = schema::EffectId)]
    pub effect: EffectId,
    /// What is said of it.
    pub attended: Attended,
}
