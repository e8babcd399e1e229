//! Connections.

use reqwest::Method;
use semel_model::Label;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{Connection, DeletedConnection, KeptConnection, Page, PutConnection, Tried};

impl Client {
    /// Lists the connections of the namespace, by name.
    pub async fn list_connections(&self) -> Result<Page<Connection>, ClientError> {
        read(self.get(&["v1", "connections"])).await
    }

    /// A connection, as its owner described it.
    pub async fn get_connection(&self, name: &Label) -> Result<Connection, ClientError> {
        read(self.get(&["v1", "connections", name.as_str()])).await
    }

    /// Stores a connection. Putting the same twice is the same as once.
    pub async fn put_connection(
        &self,
        name: &Label,
        put: &PutConnection,
        key: Option<&str>,
    ) -> Result<Answer<KeptConnection>, ClientError> {
        let path = ["v1", "connections", name.as_str()];
        carry_out(self.ask_under(Method::PUT, &path, key).json(put)).await
    }

    /// Removes a connection that no live flow uses.
    pub async fn delete_connection(
        &self,
        name: &Label,
        key: Option<&str>,
    ) -> Result<Answer<DeletedConnection>, ClientError> {
        let path = ["v1", "connections", name.as_str()];
        carry_out(self.ask_under(Method::DELETE, &path, key)).await
    }

    /// Tests whether a destination can be reached. Changes nothing there.
    pub async fn test_connection(&self, name: &Label) -> Result<Tried, ClientError> {
        let path = ["v1", "connections", name.as_str(), "test"];
        read(self.ask(Method::POST, &path)).await
    }

    /// Creates what effects need at a destination. Preparing twice is the same as once.
    pub async fn prepare_connection(&self, name: &Label) -> Result<Tried, ClientError> {
        let path = ["v1", "connections", name.as_str(), "prepare"];
        read(self.ask(Method::POST, &path)).await
    }
}
