//! Secrets.

use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use semel_model::Label;

use super::transfer::{carry_out, read};
use super::{Answer, Client, ClientError};
use crate::types::{DeletedSecret, Page, Rotated, Secret, SecretSet, SetSecret};

impl Client {
    /// Lists the secrets of the namespace, by name and without their values.
    pub async fn list_secrets(&self) -> Result<Page<Secret>, ClientError> {
        read(self.get(&["v1", "secrets"])).await
    }

    /// Sets a secret. Setting the same text twice is the same as once.
    pub async fn set_secret(
        &self,
        name: &Label,
        set: &SetSecret,
        key: Option<&str>,
    ) -> Result<Answer<SecretSet>, ClientError> {
        let request = self.ask_under(Method::PUT, &["v1", "secrets", name.as_str()], key);
        // The body is not wiped: the process that uses this client is short-lived.
        let request = request.header(CONTENT_TYPE, "application/json");
        carry_out(request.body(set.to_wire().to_vec())).await
    }

    /// Removes a secret with all its versions.
    pub async fn delete_secret(
        &self,
        name: &Label,
        key: Option<&str>,
    ) -> Result<Answer<DeletedSecret>, ClientError> {
        let path = ["v1", "secrets", name.as_str()];
        carry_out(self.ask_under(Method::DELETE, &path, key)).await
    }

    /// Encrypts every secret of the namespace with a new key. May be repeated.
    pub async fn rotate_secrets(&self, key: Option<&str>) -> Result<Answer<Rotated>, ClientError> {
        let path = ["v1", "secrets", "rotate"];
        carry_out(self.ask_under(Method::POST, &path, key)).await
    }
}
