//! Subscriptions and their deliveries.

use reqwest::Method;
use semel_model::{EffectId, Label};

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{
    DeletedSubscription, Delivery, DeliveryFilter, KeptSubscription, Page, PutSubscription,
    RetriedDelivery, Subscription,
};

impl Client {
    /// Lists the subscriptions of the namespace, by name.
    pub async fn list_subscriptions(&self) -> Result<Page<Subscription>, ClientError> {
        read(self.get(&["v1", "subscriptions"])).await
    }

    /// A subscription.
    pub async fn get_subscription(&self, name: &Label) -> Result<Subscription, ClientError> {
        read(self.get(&["v1", "subscriptions", name.as_str()])).await
    }

    /// Stores a subscription. Putting the same twice is the same as once.
    pub async fn put_subscription(
        &self,
        name: &Label,
        put: &PutSubscription,
        key: Option<&str>,
    ) -> Result<Answer<KeptSubscription>, ClientError> {
        let path = ["v1", "subscriptions", name.as_str()];
        carry_out(self.ask_under(Method::PUT, &path, key).json(put)).await
    }

    /// Removes a subscription, and drops what is due to it.
    pub async fn delete_subscription(
        &self,
        name: &Label,
        key: Option<&str>,
    ) -> Result<Answer<DeletedSubscription>, ClientError> {
        let path = ["v1", "subscriptions", name.as_str()];
        carry_out(self.ask_under(Method::DELETE, &path, key)).await
    }

    /// Lists the deliveries of a subscription, the latest event first.
    pub async fn list_deliveries(
        &self,
        name: &Label,
        filter: &DeliveryFilter,
    ) -> Result<Page<Delivery>, ClientError> {
        let path = ["v1", "subscriptions", name.as_str(), "deliveries"];
        read(self.get(&path).query(filter)).await
    }

    /// Has a delivery that failed tried again, under the same id.
    pub async fn retry_delivery(
        &self,
        name: &Label,
        event: EffectId,
        key: Option<&str>,
    ) -> Result<Answer<RetriedDelivery>, ClientError> {
        let event = event.to_string();
        let path = [
            "v1",
            "subscriptions",
            name.as_str(),
            "deliveries",
            &event,
            "retry",
        ];
        carry_out(self.ask_under(Method::POST, &path, key)).await
    }
}
