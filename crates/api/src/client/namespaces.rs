//! Namespaces.

use reqwest::Method;
use semel_model::NamespaceName;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{
    CreateNamespace, CreatedNamespace, Namespace, NamespaceFilter, Page, SetNamespace,
};

impl Client {
    /// Lists the namespaces of the installation, by name.
    pub async fn list_namespaces(
        &self,
        filter: &NamespaceFilter,
    ) -> Result<Page<Namespace>, ClientError> {
        read(self.get(&["v1", "namespaces"]).query(filter)).await
    }

    /// Creates a namespace and its first token. The same again under the same key returns both again.
    pub async fn create_namespace(
        &self,
        create: &CreateNamespace,
        key: &str,
    ) -> Result<Answer<CreatedNamespace>, ClientError> {
        carry_out(self.post(&["v1", "namespaces"], key).json(create)).await
    }

    /// Changes a namespace. The same again is no change.
    pub async fn set_namespace(
        &self,
        name: &NamespaceName,
        set: &SetNamespace,
    ) -> Result<Namespace, ClientError> {
        let path = ["v1", "namespaces", name.as_str(), "set"];
        read(self.ask(Method::POST, &path).json(set)).await
    }
}
