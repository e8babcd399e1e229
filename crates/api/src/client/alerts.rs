//! Alerts: where they go, and a test of that.

use reqwest::Method;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{Alerts, AlertsSet, AlertsUnset, SetAlerts, TestedAlerts};

impl Client {
    /// Where the alerts of the namespace go, and its groups.
    pub async fn list_alerts(&self) -> Result<Alerts, ClientError> {
        read(self.get(&["v1", "alerts"])).await
    }

    /// Sets where alerts go. Setting the same twice is the same as once.
    pub async fn set_alerts(
        &self,
        set: &SetAlerts,
        key: Option<&str>,
    ) -> Result<Answer<AlertsSet>, ClientError> {
        carry_out(
            self.ask_under(Method::PUT, &["v1", "alerts"], key)
                .json(set),
        )
        .await
    }

    /// Ends the alerts of the namespace.
    pub async fn unset_alerts(
        &self,
        key: Option<&str>,
    ) -> Result<Answer<AlertsUnset>, ClientError> {
        carry_out(self.ask_under(Method::DELETE, &["v1", "alerts"], key)).await
    }

    /// Has one message sent to where alerts go.
    pub async fn test_alerts(
        &self,
        key: Option<&str>,
    ) -> Result<Answer<TestedAlerts>, ClientError> {
        carry_out(self.ask_under(Method::POST, &["v1", "alerts", "test"], key)).await
    }
}
