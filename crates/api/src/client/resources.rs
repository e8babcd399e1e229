//! Resources.

use std::time::Duration;

use bytes::Bytes;
use reqwest::header::CONTENT_TYPE;
use semel_model::ResourceRef;

use super::transfer::{read, receive};
use super::{Client, ClientError};
use crate::types::{Page, Resource, ResourceFilter, UploadResource};

/// How long all bytes of a resource may take.
const CONTENT_PATIENCE: Duration = Duration::from_secs(86_400);

/// The bytes of a resource, as they come.
#[derive(Debug)]
pub struct Content(reqwest::Response);

impl Content {
    /// How many bytes there are, where the server says so.
    pub fn bytes(&self) -> Option<u64> {
        self.0.content_length()
    }

    /// The next piece; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        self.0.chunk().await.map_err(ClientError::Unreachable)
    }
}

impl Client {
    /// Lists resources, newest first.
    pub async fn list_resources(
        &self,
        filter: &ResourceFilter,
    ) -> Result<Page<Resource>, ClientError> {
        read(self.get(&["v1", "resources"]).query(filter)).await
    }

    /// What is known of a resource.
    pub async fn get_resource(&self, resource: ResourceRef) -> Result<Resource, ClientError> {
        read(self.get(&["v1", "resources", &digits(resource)])).await
    }

    /// Uploads the bytes of a resource under the name that is made from them. Doing it again is harmless.
    pub async fn upload_resource(
        &self,
        resource: ResourceRef,
        how: &UploadResource,
        media_type: &str,
        bytes: impl Into<reqwest::Body>,
    ) -> Result<Resource, ClientError> {
        let path = ["v1", "resources", &digits(resource)];
        let request = self.ask(reqwest::Method::PUT, &path).query(how);
        let request = request.header(CONTENT_TYPE, media_type).body(bytes);
        read(request.timeout(CONTENT_PATIENCE)).await
    }

    /// The bytes of a resource.
    pub async fn open_resource(&self, resource: ResourceRef) -> Result<Content, ClientError> {
        let request = self.get(&["v1", "resources", &digits(resource), "content"]);
        Ok(Content(receive(request.timeout(CONTENT_PATIENCE)).await?))
    }
}

/// A resource in an address: its digest alone.
fn digits(resource: ResourceRef) -> String {
    resource.to_string().replace("res://", "")
}
