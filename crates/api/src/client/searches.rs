//! Saved searches.

use reqwest::Method;

use super::transfer::read;
use super::{Client, ClientError};
use crate::types::{ForgottenSearch, KeptSearch, Page, SaveSearch, SavedSearch, SearchScope};

impl Client {
    /// Lists one's own searches, and those that everybody has.
    pub async fn list_searches(&self) -> Result<Page<SavedSearch>, ClientError> {
        read(self.get(&["v1", "searches"])).await
    }

    /// Saves a search, in the place of an earlier one of that name.
    pub async fn save_search(
        &self,
        name: &str,
        save: &SaveSearch,
    ) -> Result<KeptSearch, ClientError> {
        read(self.ask(Method::PUT, &["v1", "searches", name]).json(save)).await
    }

    /// Removes a search.
    pub async fn forget_search(
        &self,
        name: &str,
        scope: SearchScope,
    ) -> Result<ForgottenSearch, ClientError> {
        let path = ["v1", "searches", name];
        read(self.ask(Method::DELETE, &path).query(&scope)).await
    }
}
