//! Finding releases and destinations that this process may not know yet.

use std::sync::Arc;

use semel_flow::release::Action;
use semel_model::FlowName;
use semel_steps::Destination;
use semel_store::ReadError;

use crate::catalogue::Release;
use crate::runtime::{LookError, Runtime};

impl Runtime {
    /// The live release behind a hook's address.
    pub(crate) async fn find_hook(
        &self,
        namespace: &str,
        path: &str,
    ) -> Result<Option<Arc<Release>>, LookError> {
        if let Some(release) = self.catalogue.find_hook(namespace, path) {
            return Ok(Some(release));
        }
        self.look_for_releases().await?;
        Ok(self.catalogue.find_hook(namespace, path))
    }

    /// The live release of a flow.
    pub(crate) async fn find_flow(
        &self,
        namespace_id: i32,
        flow: &FlowName,
    ) -> Result<Option<Arc<Release>>, LookError> {
        if let Some(release) = self.catalogue.find_flow(namespace_id, flow) {
            return Ok(Some(release));
        }
        self.look_for_releases().await?;
        Ok(self.catalogue.find_flow(namespace_id, flow))
    }

    /// What the event is called that a step of a release emits; nothing where it emits none.
    pub async fn find_event(&self, release: i32, step: &str) -> Result<Option<String>, ReadError> {
        let release = self.catalogue.get(release).await?;
        let step = release.as_ref().and_then(|it| it.flow.find_step(step));
        let Some(Action::Emit(emit)) = step.map(|step| &step.action) else {
            return Ok(None);
        };
        Ok(Some(emit.event.clone()))
    }

    /// The flows that take an event now, each with whether its trigger names a key of its own.
    pub fn list_event_takers(&self, namespace_id: i32, event: &str) -> Vec<(FlowName, bool)> {
        let releases = self.catalogue.releases_for_event(namespace_id, event);
        let takers = releases.iter().map(|release| {
            let trigger = release.flow.trigger.event.as_ref();
            let has_own_key = trigger.is_some_and(|trigger| trigger.key.is_some());
            (release.flow.name.clone(), has_own_key)
        });
        takers.collect()
    }

    /// Loads connections of a release that are not known here, so that no step is refused because
    /// another server has just stored one.
    pub(crate) async fn know_connections(&self, release: &Release) {
        if !release.connected {
            return;
        }
        let destinations = self.vault.destinations(release.namespace_id);
        let mut names = release.connections.iter();
        if names.all(|name| destinations.find(name).is_some()) {
            return;
        }
        if let Err(error) = self.local.vault_lookups.look(|| self.vault.refresh()).await {
            tracing::debug!(%error, "failed to look up connections");
        }
    }

    /// The destination of that name in a namespace.
    pub(crate) async fn find_destination(
        &self,
        namespace_id: i32,
        name: &str,
    ) -> Option<Arc<Destination>> {
        if let Some(found) = self.vault.destinations(namespace_id).find(name) {
            return Some(found.clone());
        }
        let looked = self.local.vault_lookups.look(|| self.vault.refresh()).await;
        if let Err(error) = looked {
            tracing::debug!(%error, connection = name, "failed to look up a connection");
        }
        self.vault.destinations(namespace_id).find(name).cloned()
    }

    /// A miss is an answer only where the database confirms it. Where the database does not answer,
    /// senders retry; if the answer were that there is nothing, they might not.
    async fn look_for_releases(&self) -> Result<(), LookError> {
        self.local
            .release_lookups
            .look(|| self.catalogue.refresh())
            .await
    }
}
