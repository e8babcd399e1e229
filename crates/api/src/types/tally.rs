//! Counts of what happened, and what waits for people.

use jiff::Timestamp;
use semel_model::{FlowName, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// Of what to sum the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TallyFilter {
    /// Only of this flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::FlowName>)]
    pub flow: Option<FlowName>,
    /// Of how long a time, up to now: a day by default, a minute at least and ninety days at most. A time of more than
    /// two hours begins with a whole hour, and one of more than seven days with a whole day of UTC; with `steps`,
    /// every time begins with a whole hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub last: Option<Span>,
    /// Attempts at effects by step, of the flow that is named, in place of everything by flow.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub steps: bool,
}

/// How much of what happened. Servers add what they counted every few seconds, and one that is killed
/// loses what it counted since: the figures are approximate, the ledger is exact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tallies {
    /// From when on it is counted.
    pub since: Timestamp,
    /// By flow and by what happened. What did not happen is left out.
    pub items: Vec<TallyCount>,
}

/// How much of one thing happened to one flow, or to one of its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TallyCount {
    /// The flow.
    pub flow: String,
    /// The step, where attempts were asked for by step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Deliveries: `accepted`, `repeat`, `mismatch`, `stale`. Runs: `succeeded`, `failed`, `cancelled`,
    /// `superseded`, `stopped`. Attempts at effects: `effect_done`, `effect_failed`, `effect_doubted`.
    pub what: String,
    /// How much.
    pub count: i64,
}

/// Of what to sum the counts one interval after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SeriesFilter {
    /// Only of this flow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::FlowName>)]
    pub flow: Option<FlowName>,
    /// Of how long a time, up to now: a day by default, a minute at least and ninety days at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Span>)]
    pub last: Option<Span>,
}

/// How much of what happened, one interval after the other. The figures are approximate, as those of
/// the tallies are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TallySeries {
    /// When the first interval began. The last one is not over.
    pub since: Timestamp,
    /// How long each is: a minute for a time of up to two hours, an hour for up to two days, three hours for up to
    /// seven days, and a day for more. Days and hours are those of UTC.
    #[schema(value_type = schema::Span)]
    pub every: Span,
    /// By interval and by what happened, the earliest first. What did not happen is left out.
    pub items: Vec<TallyPoint>,
}

/// How much of one thing happened in one interval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TallyPoint {
    /// When the interval began.
    pub at: Timestamp,
    /// What happened, by the words of the tallies.
    pub what: String,
    /// How much.
    pub count: i64,
}

/// What waits for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Overview {
    /// Of every kind that something waits of.
    pub waiting: Vec<WaitingCount>,
    /// Whether the namespace is served.
    pub health: NamespaceHealth,
}

/// Whether a namespace is served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceHealth {
    /// How many servers have a lease that holds, of the whole installation.
    pub servers: i64,
    /// How many background services of the installation are late, as far as the server that answers knows.
    pub late_services: i64,
    /// How many runs are due and wait for a server, 50 at most.
    pub due: i64,
    /// Whether there are more.
    pub has_more_due: bool,
    /// Since when the first of them has been due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_since: Option<Timestamp>,
    /// How many deliveries were refused in the last 24 hours, 50 at most.
    pub refused: i64,
    /// Whether there are more.
    pub has_more_refused: bool,
    /// When the latest of them was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_at: Option<Timestamp>,
    /// How many deliveries of events to webhooks failed for good in the last 24 hours, 50 at most.
    pub undelivered: i64,
    /// Whether there are more.
    pub has_more_undelivered: bool,
    /// When the latest of them was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undelivered_at: Option<Timestamp>,
}

/// How much of one kind waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WaitingCount {
    /// `doubt`, `needs_review`, `quarantined`, `approval`, `held` or `pause`.
    pub what: String,
    /// How many, 50 at most.
    pub count: i64,
    /// Whether there are more.
    pub has_more: bool,
    /// Since when the oldest waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}
