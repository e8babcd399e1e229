//! Setting, unsetting and testing where the alerts of a namespace go; and raising an alert that belongs
//! to no run. Every change commits together with its audit record.

use std::sync::Arc;

use semel_model::connection::Target;
use semel_model::{AlertGroup, AlertKind};
use semel_store::alerts::{self, AlertOutcome, RaisedAlert};
use semel_store::{ReadError, connections};

use crate::commands::connection::Actor;
use crate::runtime::Runtime;
use crate::services::alerts::{MESSAGE_LEASE, test_text};

/// The most recipients of alerts.
const RECIPIENTS_MAX: usize = 10;

/// The most characters of a recipient.
const RECIPIENT_CHARS_MAX: usize = 254;

/// Why alerts were not set, unset or tested.
#[derive(Debug, thiserror::Error)]
pub enum AlertError {
    /// Messages cannot go there.
    #[error("{0}")]
    Invalid(String),
    /// It is not set where alerts go.
    #[error("it is not set where alerts go: semel alert set CONNECTION")]
    NotSet,
    /// The database did not answer in time.
    #[error("the setting could not be stored: {0}")]
    Unavailable(#[from] ReadError),
}

impl AlertError {
    /// The stable word for this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "alert-invalid",
            Self::NotSet => "alert-not-set",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

impl Runtime {
    /// Sets where the alerts of a namespace go, in place of what was set before.
    ///
    /// # Errors
    ///
    /// Where the connection does not exist or takes no messages, or the recipients do not fit it.
    pub async fn set_alerts(
        self: &Arc<Self>,
        by: Actor<'_>,
        connection: &str,
        recipients: &[String],
    ) -> Result<(), AlertError> {
        let (cell, namespace_id) = (&self.cell, by.namespace_id);
        let Some(found) = connections::find(cell.home(), namespace_id, connection).await? else {
            return Err(AlertError::Invalid(format!(
                "there is no connection `{connection}`: semel connection create {connection}"
            )));
        };
        validate(connection, &found.connection.to, recipients).map_err(AlertError::Invalid)?;
        let act = by.act("alert.set", connection);
        alerts::set(cell.home(), namespace_id, connection, recipients, &act).await?;
        Ok(())
    }

    /// Ends the alerts of a namespace.
    ///
    /// # Errors
    ///
    /// Where none were set.
    pub async fn unset_alerts(self: &Arc<Self>, by: Actor<'_>) -> Result<(), AlertError> {
        let act = by.act("alert.unset", "*");
        match alerts::unset(self.cell.home(), by.namespace_id, &act).await? {
            true => Ok(()),
            false => Err(AlertError::NotSet),
        }
    }

    /// Sends one message to where alerts go, and says its outcome.
    ///
    /// # Errors
    ///
    /// Where that is not set, or the message could not be recorded before it was sent.
    pub async fn test_alerts(self: &Arc<Self>, by: Actor<'_>) -> Result<AlertOutcome, AlertError> {
        let group = AlertGroup {
            namespace_id: by.namespace_id,
            kind: AlertKind::Test,
            flow: String::new(),
            connection: String::new(),
            step: String::new(),
        };
        self.pauses.refresh().await?;
        let setting = alerts::find(self.cell.home(), by.namespace_id).await?;
        let to = setting.and_then(|setting| setting.connection);
        let paused = self.pauses.current();
        let paused = paused.of_flow(by.namespace_id, "");
        if paused.connection(to.as_deref()).is_some() {
            let to = to.unwrap_or_default();
            return Err(AlertError::Invalid(format!(
                "the connection `{to}` is paused: `semel connection resume {to}` comes first"
            )));
        }
        let (cell, act) = (&self.cell, by.act("alert.test", "*"));
        let now = self.clock.now();
        let begun =
            alerts::begin_test(cell.home(), &group, now, &test_text(), MESSAGE_LEASE, &act).await?;
        let message = begun.ok_or(AlertError::NotSet)?;
        let outcome = self.send_alert(&message).await;
        if let Err(error) = self.settle_alert(&message, &outcome).await {
            // Settled by a server when its lease is over; the caller learns what was seen.
            tracing::debug!(%error, "failed to record the outcome of a test");
        }
        Ok(outcome)
    }

    /// Raises an alert that a connection change leaves the live release of a flow not proven.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn raise_not_proven(
        self: &Arc<Self>,
        namespace_id: i32,
        flow: &str,
        connection: &str,
    ) -> Result<(), ReadError> {
        let raised = RaisedAlert {
            kind: AlertKind::NotProven,
            flow: flow.to_owned(),
            connection: connection.to_owned(),
            step: String::new(),
        };
        alerts::raise_one(self.cell.home(), namespace_id, &raised).await
    }
}

/// Why messages cannot go there.
fn validate(name: &str, to: &Target, recipients: &[String]) -> Result<(), String> {
    let fits = |one: &String| {
        !one.is_empty()
            && one.chars().count() <= RECIPIENT_CHARS_MAX
            && !one.chars().any(|c| c.is_control() || c.is_whitespace())
    };
    if recipients.len() > RECIPIENTS_MAX || !recipients.iter().all(fits) {
        return Err(format!(
            "--to names up to {RECIPIENTS_MAX} recipients, each of up to {RECIPIENT_CHARS_MAX} \
             characters without blanks"
        ));
    }
    match to {
        Target::Smtp(_)
            if recipients.is_empty() || !recipients.iter().all(|it| it.contains('@')) =>
        {
            Err(format!(
                "`{name}` sends mail: name the addresses with --to ops@example.com"
            ))
        }
        Target::Slack(_) if recipients.len() != 1 => Err(format!(
            "`{name}` posts to Slack: name one channel with --to '#ops'"
        )),
        Target::Smtp(_) | Target::Slack(_) | Target::Webhook(_) => Ok(()),
        Target::Http(_) | Target::Postgres(_) | Target::Ssh(_) | Target::Llm(_) => Err(format!(
            "alerts go to a connection of kind smtp, slack or webhook, and `{name}` is of another kind"
        )),
    }
}

#[cfg(test)]
mod tests {
    use semel_model::connection::Connection;
    use serde_json::json;

    use super::*;

    fn target(to: serde_json::Value) -> Target {
        let connection: Connection = serde_json::from_value(json!({ "to": to })).unwrap();
        connection.to
    }

    #[test]
    fn a_webhook_needs_no_recipient_and_a_database_takes_no_messages() {
        let hook = target(json!({"webhook": {"url": "https://ops.example/hook", "secret": "s"}}));
        let http = target(json!({"http": {"base_url": "https://ops.example"}}));
        let none: [String; 0] = [];

        assert_eq!(validate("ops", &hook, &none), Ok(()));
        assert!(validate("ops", &http, &none).is_err());
        for bad in ["", "a b", "a\r\nBcc: b@x", &"x".repeat(300)] {
            assert!(
                validate("ops", &hook, &[bad.to_owned()]).is_err(),
                "{bad:?}"
            );
        }
    }
}
