//! Events: what runs emitted, and who received it.

use jiff::Timestamp;
use semel_model::effect::EffectState;
use semel_model::{EffectId, RunId};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::effect::Source;
use super::subscription::DeliveryState;
use crate::schema;

/// An event that a run emitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EmittedEvent {
    /// The event's identity: the effect that emitted it.
    #[schema(value_type = schema::EffectId)]
    pub id: EffectId,
    /// The event; absent where the release that emitted it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<String>,
    /// The run that emitted it.
    #[schema(value_type = schema::RunId)]
    pub run: RunId,
    /// The flow and the key of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The step that emitted it.
    pub step: String,
    /// Whether it was emitted.
    #[schema(value_type = schema::EffectState)]
    pub state: EffectState,
    /// When.
    pub emitted_at: Timestamp,
}

/// Which events to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EventFilter {
    /// The most events of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// An event, and who received it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventDetail {
    /// The event.
    pub event: EmittedEvent,
    /// The flows whose live release takes it.
    pub flows: Vec<EventTaker>,
    /// Its deliveries to subscribed webhooks.
    pub deliveries: Vec<EventDelivery>,
}

/// A flow that takes an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventTaker {
    /// The flow.
    pub flow: String,
    /// Whether its trigger names a key of its own. Its run is then found by that key, and not here.
    pub has_own_key: bool,
    /// The run that the event started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::RunId>)]
    pub run: Option<RunId>,
}

/// The delivery of an event to one subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EventDelivery {
    /// The subscription.
    pub subscription: String,
    /// Its state.
    pub state: DeliveryState,
    /// How often it was tried.
    pub attempt: i32,
    /// When it is tried next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// When it was delivered or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<Timestamp>,
    /// What was seen on the last attempt, where it was not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
