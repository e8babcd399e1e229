//! Servers.

use super::transfer::read;
use super::{Client, ClientError};
use crate::types::Servers;

impl Client {
    /// Lists the servers of the installation, and how much there is to do.
    pub async fn list_servers(&self) -> Result<Servers, ClientError> {
        read(self.get(&["v1", "servers"])).await
    }
}
