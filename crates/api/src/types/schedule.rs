//! Schedules: the instants that they name, and their ticks.

use jiff::Timestamp;
use semel_model::{FlowName, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;

/// The schedule of a flow's live release.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Schedule {
    /// The flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// The number of the live release.
    pub release: i32,
    /// When it is due: five fields, or `every` and a span.
    pub recurrence: String,
    /// The same in words.
    #[serde(default)]
    pub sentence: String,
    /// The time zone that it is read in.
    pub zone: String,
    /// What happens to instants that passed while no server ran.
    pub missed: String,
    /// The most instants that are caught up on, where all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<u32>,
    /// The next instant; absent while it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// Since when it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_at: Option<Timestamp>,
    /// Who paused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<String>,
    /// Its latest tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest: Option<Tick>,
}

/// A schedule with its next instants and its latest ticks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScheduleDetail {
    /// The schedule itself.
    #[serde(flatten)]
    pub schedule: Schedule,
    /// Its next instants; none while it is paused.
    #[serde(default)]
    pub instants: Vec<Instant>,
    /// Its latest ticks, latest first.
    #[serde(default)]
    pub ticks: Vec<Tick>,
    /// What to send as `cursor` for the ticks before them; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The decision about an instant, or about several that were skipped together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Tick {
    /// The instant; the first of several.
    pub nominal: Timestamp,
    /// The last of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// How many instants this is about.
    pub instants: i64,
    /// Whether it has a run.
    pub verdict: TickVerdict,
    /// Why it was skipped: `missed`, `capped`, `paused` or `refused`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
    /// Who fired it by hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fired_by: Option<String>,
    /// When that was decided.
    pub decided_at: Timestamp,
}

/// Whether an instant has a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TickVerdict {
    /// It has one.
    Fired,
    /// It has none, for a reason.
    Skipped,
}

impl TickVerdict {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fired => "fired",
            Self::Skipped => "skipped",
        }
    }
}

/// Which ticks to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TickFilter {
    /// The most ticks of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Only instants before this one: where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Timestamp>,
}

/// Which instants to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InstantFilter {
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Those after this instant; absent: those that are not decided yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Timestamp>,
}

/// An instant that a schedule names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Instant {
    /// The instant.
    pub at: Timestamp,
    /// The local time then, in the schedule's zone.
    pub local: String,
}

/// Pauses or resumes a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseSchedule {
    /// Why, for the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A schedule was paused or resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PausedSchedule {
    /// The flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// Whether it is paused now.
    pub paused: bool,
    /// Whether that was otherwise before.
    pub changed: bool,
}

/// Fires an instant by hand.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FireSchedule {
    /// An instant that the schedule names; absent: now, under the request's key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// An instant was fired by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FiredSchedule {
    /// The flow.
    #[schema(value_type = schema::FlowName)]
    pub flow: FlowName,
    /// The instant, where the schedule names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominal: Option<Timestamp>,
    /// Its run.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The run's key.
    pub key: String,
    /// Whether it had its run before.
    pub replayed: bool,
}
