//! Who may enter through an identity provider.

use reqwest::Method;
use semel_model::TokenId;

use super::transfer::read;
use super::{Client, ClientError};
use crate::types::{
    ChangePerson, GroupRole, MapGroup, Page, Person, PersonFilter, RevokedPerson, UnmapGroup,
};

impl Client {
    /// Lists the groups that have a role, by name.
    pub async fn list_group_roles(&self) -> Result<Page<GroupRole>, ClientError> {
        read(self.get(&["v1", "group-roles"])).await
    }

    /// Gives a group a role. The same again is no change.
    pub async fn map_group(&self, map: &MapGroup) -> Result<GroupRole, ClientError> {
        read(
            self.ask(Method::POST, &["v1", "group-roles", "map"])
                .json(map),
        )
        .await
    }

    /// Takes a group's role away.
    pub async fn unmap_group(&self, unmap: &UnmapGroup) -> Result<GroupRole, ClientError> {
        read(
            self.ask(Method::POST, &["v1", "group-roles", "unmap"])
                .json(unmap),
        )
        .await
    }

    /// Lists the people who signed in, the newest first.
    pub async fn list_people(&self, filter: &PersonFilter) -> Result<Page<Person>, ClientError> {
        read(self.get(&["v1", "people"]).query(filter)).await
    }

    /// Keeps a person out, and revokes the tokens that they made. The same again is no change.
    pub async fn revoke_person(
        &self,
        id: TokenId,
        change: &ChangePerson,
    ) -> Result<RevokedPerson, ClientError> {
        let path = ["v1", "people", &id.to_string(), "revoke"];
        read(self.ask(Method::POST, &path).json(change)).await
    }

    /// Lets a person in again. The same again is no change.
    pub async fn restore_person(
        &self,
        id: TokenId,
        change: &ChangePerson,
    ) -> Result<Person, ClientError> {
        let path = ["v1", "people", &id.to_string(), "restore"];
        read(self.ask(Method::POST, &path).json(change)).await
    }
}
