//! Everything under one key; entries of `kv`; keys of a flow.

use semel_model::FlowName;

use super::transfer::read;
use super::{Client, ClientError};
use crate::types::{Entry, EntryFilter, FoundKey, KeyFilter, KeyInfo, Page};

impl Client {
    /// Everything that is known under one key.
    pub async fn find_key(&self, key: &str) -> Result<FoundKey, ClientError> {
        read(self.get(&["v1", "find"]).query(&[("key", key)])).await
    }

    /// Lists the keys of a flow that a run answers for, newest first.
    pub async fn list_keys(
        &self,
        flow: &FlowName,
        filter: &KeyFilter,
    ) -> Result<Page<KeyInfo>, ClientError> {
        let path = ["v1", "flows", flow.as_str(), "keys"];
        read(self.get(&path).query(filter)).await
    }

    /// Lists entries of `kv`, without their values.
    pub async fn list_entries(&self, filter: &EntryFilter) -> Result<Page<Entry>, ClientError> {
        read(self.get(&["v1", "kv"]).query(filter)).await
    }

    /// Reads an entry of `kv`.
    pub async fn get_entry(&self, entry: &str) -> Result<Entry, ClientError> {
        read(self.get(&["v1", "kv", "entry"]).query(&[("entry", entry)])).await
    }
}
