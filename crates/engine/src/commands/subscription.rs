//! Creating, changing and deleting subscriptions: which webhooks receive which events. Every change
//! commits together with its audit record.

use std::sync::Arc;

use semel_model::EffectId;
use semel_model::connection::Target;
use semel_store::{ReadError, connections, subscriptions, webhook_deliveries};

use crate::commands::connection::{Actor, ConnectionChange};
use crate::runtime::Runtime;

/// The most characters of an event's name.
const EVENT_CHARS_MAX: usize = 128;

/// Why a subscription was not changed.
#[derive(Debug, thiserror::Error)]
pub enum SubscriptionError {
    /// It is not valid.
    #[error("{0}")]
    Invalid(String),
    /// There is none of this name.
    #[error("there is no subscription of this name")]
    Unknown,
    /// Another one has the name.
    #[error("there is another subscription of this name")]
    Differs,
    /// The database did not answer in time.
    #[error("the subscription could not be stored: {0}")]
    Unavailable(#[from] ReadError),
}

impl SubscriptionError {
    /// The stable word for this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "subscription-invalid",
            Self::Unknown => "subscription-not-found",
            Self::Differs => "subscription-differs",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

/// Why a delivery is not tried again.
#[derive(Debug, thiserror::Error)]
pub enum RetryError {
    /// There is no subscription of this name.
    #[error("there is no subscription of this name")]
    UnknownSubscription,
    /// The subscription has no delivery of this event.
    #[error("the subscription has no delivery of this event")]
    Unknown,
    /// Semel has not stopped retrying it.
    #[error("the delivery is {state}")]
    NotFailed {
        /// Its state.
        state: String,
    },
    /// It was erased with its run, so that nothing is left to send.
    #[error("the delivery was erased with its run")]
    Erased,
    /// The database did not answer in time.
    #[error("the delivery could not be stored: {0}")]
    Unavailable(#[from] ReadError),
}

impl RetryError {
    /// The stable word for this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::UnknownSubscription => "subscription-not-found",
            Self::Unknown => "delivery-not-found",
            Self::NotFailed { .. } => "delivery-not-failed",
            Self::Erased => "delivery-erased",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

impl Runtime {
    /// Stores a subscription where there is none of that name, or the same.
    ///
    /// # Errors
    ///
    /// Where it is not valid, or another subscription has the name.
    pub async fn keep_subscription(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
        event: &str,
        connection: &str,
    ) -> Result<ConnectionChange, SubscriptionError> {
        self.validate(by, event, connection).await?;
        let (cell, namespace_id) = (&self.cell, by.namespace_id);
        let act = by.act("subscription.put", name);
        if subscriptions::make(cell.home(), namespace_id, name, event, connection, &act).await? {
            return Ok(ConnectionChange::Created);
        }
        match subscriptions::find(cell.home(), namespace_id, name).await? {
            Some(known) if known.event == event && known.connection == connection => {
                Ok(ConnectionChange::Unchanged)
            }
            Some(_) | None => Err(SubscriptionError::Differs),
        }
    }

    /// Stores a subscription, in place of another of that name. Due deliveries go to the new
    /// connection.
    ///
    /// # Errors
    ///
    /// Where it is not valid.
    pub async fn replace_subscription(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
        event: &str,
        connection: &str,
    ) -> Result<ConnectionChange, SubscriptionError> {
        match self.keep_subscription(by, name, event, connection).await {
            Err(SubscriptionError::Differs) => {}
            other => return other,
        }
        let (cell, act) = (&self.cell, by.act("subscription.put", name));
        subscriptions::put(cell.home(), by.namespace_id, name, event, connection, &act).await?;
        Ok(ConnectionChange::Replaced)
    }

    /// Removes a subscription, and returns how many due deliveries are dropped with it.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub async fn delete_subscription(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &str,
    ) -> Result<u64, SubscriptionError> {
        let act = by.act("subscription.delete", name);
        let deleted = subscriptions::delete(self.cell.home(), by.namespace_id, name, &act).await?;
        let failed = deleted.ok_or(SubscriptionError::Unknown)?;
        self.metrics.deliveries_failed.add(failed);
        Ok(failed)
    }

    /// Tries a `failed` delivery again, as if it were new, under the same id.
    ///
    /// # Errors
    ///
    /// Where there is none, or its state is not `failed`.
    pub async fn retry_delivery(
        self: &Arc<Self>,
        by: Actor<'_>,
        subscription: &str,
        event: EffectId,
    ) -> Result<(), RetryError> {
        let (cell, namespace_id) = (&self.cell, by.namespace_id);
        let known = subscriptions::find(cell.home(), namespace_id, subscription).await?;
        known.ok_or(RetryError::UnknownSubscription)?;
        let act = by.act("delivery.retry", &format!("{subscription} {event}"));
        if webhook_deliveries::retry(cell.of(event), namespace_id, subscription, event, &act)
            .await?
        {
            return Ok(());
        }
        match webhook_deliveries::find_state(cell.of(event), namespace_id, subscription, event)
            .await?
        {
            Some((state, true)) if state == "failed" => Err(RetryError::Erased),
            Some((state, _)) => Err(RetryError::NotFailed { state }),
            None => Err(RetryError::Unknown),
        }
    }

    async fn validate(
        self: &Arc<Self>,
        by: Actor<'_>,
        event: &str,
        connection: &str,
    ) -> Result<(), SubscriptionError> {
        if !is_pattern(event) {
            return Err(SubscriptionError::Invalid(format!(
                "`event` is the name of an event, of a-z, 0-9, '.', '_' and '-', and may end with \
                 '.*'; up to {EVENT_CHARS_MAX} characters"
            )));
        }
        let found = connections::find(self.cell.home(), by.namespace_id, connection).await?;
        let Some(found) = found else {
            return Err(SubscriptionError::Invalid(format!(
                "there is no connection `{connection}`: semel connection create {connection}"
            )));
        };
        match found.connection.to {
            Target::Webhook(_) => Ok(()),
            Target::Http(_)
            | Target::Postgres(_)
            | Target::Smtp(_)
            | Target::Ssh(_)
            | Target::Slack(_)
            | Target::Llm(_) => Err(SubscriptionError::Invalid(format!(
                "deliveries go to a connection of kind webhook, and `{connection}` is of kind {}",
                found.connection.kind()
            ))),
        }
    }
}

/// Whether a subscription may name events so.
fn is_pattern(text: &str) -> bool {
    let name = text.strip_suffix(".*").unwrap_or(text);
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._-".contains(c);
    !name.is_empty() && text.len() <= EVENT_CHARS_MAX && name.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_named_whole_or_by_its_beginning() {
        for good in ["order.paid", "order.*", "a", "x-1_2.y.*"] {
            assert!(is_pattern(good), "{good}");
        }
        for bad in [
            "",
            "*",
            ".*",
            "order*",
            "Order.paid",
            "a b",
            "a.*.b",
            "a.*.*",
        ] {
            assert!(!is_pattern(bad), "{bad}");
        }
    }
}
