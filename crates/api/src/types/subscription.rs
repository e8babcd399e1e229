//! Subscriptions: webhooks that receive events, and the outcome of their deliveries.

use jiff::Timestamp;
use semel_model::EffectId;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Change;
use crate::schema;

/// A subscription, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Subscription {
    /// What its owner calls it.
    pub name: String,
    /// The event; a trailing `.*` takes all that begin so.
    pub event: String,
    /// The webhook connection that deliveries go to.
    pub connection: String,
    /// How many deliveries are due.
    pub due: i64,
    /// When it was made. Earlier events are not delivered.
    pub created_at: Timestamp,
}

/// Stores a subscription. The same again is no change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutSubscription {
    /// The event; a trailing `.*` takes all that begin so.
    pub event: String,
    /// The webhook connection that deliveries go to.
    pub connection: String,
    /// Whether it replaces another subscription of that name.
    #[serde(default)]
    pub replace: bool,
}

/// A subscription was stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeptSubscription {
    /// What its owner calls it.
    pub name: String,
    /// What changed.
    pub change: Change,
}

/// A subscription was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedSubscription {
    /// What its owner called it.
    pub name: String,
    /// How many deliveries failed with it.
    pub failed: u64,
}

/// The state of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryState {
    /// It is tried until the receiver takes it.
    Due,
    /// The receiver took it.
    Delivered,
    /// Semel does not try it again, unless an operator asks for it.
    Failed,
}

impl DeliveryState {
    /// The word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Delivered => "delivered",
            Self::Failed => "failed",
        }
    }
}

/// The delivery of one event to one subscription.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Delivery {
    /// The event's identity: the id that every attempt carries.
    #[schema(value_type = schema::EffectId)]
    pub id: EffectId,
    /// The event.
    pub event: String,
    /// The connection that the latest attempt went to.
    pub connection: String,
    /// Its state.
    pub state: DeliveryState,
    /// How often it was tried.
    pub attempt: i32,
    /// When the event committed.
    pub emitted_at: Timestamp,
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

/// Which deliveries to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliveryFilter {
    /// Only in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeliveryState>,
    /// The most deliveries of one page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u16>,
    /// Where the page before ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// A delivery is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RetriedDelivery {
    /// The subscription.
    pub subscription: String,
    /// The event's identity.
    #[schema(value_type = schema::EffectId)]
    pub id: EffectId,
}
