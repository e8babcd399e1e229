//! Who may enter a namespace through an identity provider: the roles of groups, and people who are kept
//! out. Each change commits together with its audit record.

use std::sync::Arc;

use semel_model::{Right, Rights, Role, TokenId};
use semel_store::ReadError;
use semel_store::audit::{AuditEntry, ReasonError};
use semel_store::group_roles::{self, GROUPS_MAX, GroupRoleView};
use semel_store::people::views::{self as people, PersonView};
use semel_store::tokens::TokenView;

use crate::commands::connection::Actor;
use crate::commands::token::TokenMaker;
use crate::runtime::Runtime;

/// The most characters of a group's name. Directories have long ones.
pub const GROUP_CHARS_MAX: usize = 200;

/// Why a group or a person was not changed.
#[derive(Debug, thiserror::Error)]
pub enum MemberError {
    /// The group's name cannot be stored.
    #[error("{0}")]
    Invalid(String),
    /// The mapper would give what they do not have.
    #[error("the mapper does not have {0}")]
    Beyond(Rights),
    /// The role cannot be given these rights.
    #[error("a group that is {role} cannot be given {rights}: it may be given {}", .role.grantable())]
    Unfit {
        /// The role.
        role: Role,
        /// The rights.
        rights: Rights,
    },
    /// The mapper's token has a list of networks or queues, and people have none.
    #[error("the mapper has what it gives only within its {0}")]
    Limited(&'static str),
    /// The mapper's token was revoked, or has expired; or there are too many groups.
    #[error("a namespace maps at most {GROUPS_MAX} groups, and its mapper has to work")]
    Refused,
    /// The group has no role.
    #[error("the group has no role")]
    NotMapped,
    /// There is no such person.
    #[error("there is no such person")]
    Unknown,
    /// The reason cannot be recorded.
    #[error("{0}")]
    Reason(#[from] ReasonError),
    /// The database did not answer in time.
    #[error("the change could not be stored: {0}")]
    Unavailable(#[from] ReadError),
}

impl MemberError {
    /// The stable word for this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) | Self::Refused | Self::Unfit { .. } => "body-invalid",
            Self::Beyond(_) | Self::Limited(_) => "right-missing",
            Self::NotMapped => "group-not-mapped",
            Self::Unknown => "person-not-found",
            Self::Reason(error) => error.code(),
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

impl Runtime {
    /// Gives a group a role, in place of an earlier one. Its members sign in again.
    ///
    /// # Errors
    ///
    /// Where the role has a right that the mapper lacks or has only from some networks or on some queues,
    /// or the name cannot be stored.
    pub async fn map_group(
        self: &Arc<Self>,
        mapper: TokenMaker<'_>,
        group: &str,
        (role, further): (Role, Rights),
    ) -> Result<GroupRoleView, MemberError> {
        validate_group(group)?;
        let unfit = further.without(role.grantable());
        if !unfit.is_empty() {
            return Err(MemberError::Unfit {
                role,
                rights: unfit,
            });
        }
        let all: Rights = role.rights().iter().chain(further.iter()).collect();
        let beyond = all.without(mapper.rights);
        if !beyond.is_empty() {
            return Err(MemberError::Beyond(beyond));
        }
        if !mapper.networks.is_empty() {
            return Err(MemberError::Limited("networks"));
        }
        if !mapper.queues.is_empty() && role.rights().contains(Right::Work) {
            return Err(MemberError::Limited("queues"));
        }
        let (cell, namespace_id) = (self.cell.home(), mapper.by.namespace_id);
        let known = group_roles::find(cell, namespace_id, group).await?;
        if let Some(known) = known.filter(|it| it.role == role && it.rights == further) {
            return Ok(known);
        }
        let with = match further.is_empty() {
            true => String::new(),
            false => format!(" with {further}"),
        };
        let act = mapper
            .by
            .act("member.map", &format!("{group} as {role}{with}"));
        let given = (group, role, further);
        let mapped = group_roles::map(cell, namespace_id, given, mapper.id, &act).await?;
        let found = group_roles::find(cell, namespace_id, group).await?;
        found.filter(|_| mapped).ok_or(MemberError::Refused)
    }

    /// Takes a group's role away. Its members sign in again, as far as their other groups reach.
    ///
    /// # Errors
    ///
    /// Where it has none.
    pub async fn unmap_group(
        self: &Arc<Self>,
        by: Actor<'_>,
        group: &str,
    ) -> Result<GroupRoleView, MemberError> {
        let (cell, namespace_id) = (self.cell.home(), by.namespace_id);
        let found = group_roles::find(cell, namespace_id, group).await?;
        let found = found.ok_or(MemberError::NotMapped)?;
        let act = by.act("member.unmap", &format!("{group} as {}", found.role));
        match group_roles::unmap(cell, namespace_id, group, &act).await? {
            true => Ok(found),
            false => Err(MemberError::NotMapped),
        }
    }

    /// Keeps a person out, whatever their groups, and revokes the tokens that they made: no server accepts
    /// a sign-in or a token of theirs after five seconds. Returns these tokens as well. The same again is
    /// no change.
    ///
    /// # Errors
    ///
    /// Where there is no such person, or the reason cannot be recorded.
    pub async fn revoke_person(
        self: &Arc<Self>,
        by: Actor<'_>,
        id: TokenId,
        reason: Option<&str>,
    ) -> Result<(PersonView, Vec<TokenView>), MemberError> {
        let act = self.about_person(by, id, ("person.revoke", reason)).await?;
        let made = people::revoke(self.cell.home(), by.namespace_id, id, &act).await?;
        Ok((self.get_person(by, id).await?, made))
    }

    /// Lets a person in again, as far as their groups reach. The same again is no change.
    ///
    /// # Errors
    ///
    /// Where there is no such person, or the reason cannot be recorded.
    pub async fn restore_person(
        self: &Arc<Self>,
        by: Actor<'_>,
        id: TokenId,
        reason: Option<&str>,
    ) -> Result<PersonView, MemberError> {
        let act = self
            .about_person(by, id, ("person.restore", reason))
            .await?;
        people::restore(self.cell.home(), by.namespace_id, id, &act).await?;
        self.get_person(by, id).await
    }

    async fn about_person(
        &self,
        by: Actor<'_>,
        id: TokenId,
        (action, reason): (&'static str, Option<&str>),
    ) -> Result<AuditEntry, MemberError> {
        let found = self.get_person(by, id).await?;
        let act = by.act(action, &format!("{} ({}) {id}", found.name, found.subject));
        Ok(match reason {
            Some(reason) => act.because(reason)?,
            None => act,
        })
    }

    async fn get_person(&self, by: Actor<'_>, id: TokenId) -> Result<PersonView, MemberError> {
        let found = people::find(self.cell.home(), by.namespace_id, id).await?;
        found.ok_or(MemberError::Unknown)
    }
}

fn validate_group(group: &str) -> Result<(), MemberError> {
    let fits = !group.is_empty() && group.chars().count() <= GROUP_CHARS_MAX;
    match fits && group.trim() == group && !group.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(MemberError::Invalid(format!(
            "the group has 1 to {GROUP_CHARS_MAX} characters, none of them a control character, and no \
             blanks around it"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_one_line_of_text_as_directories_name_them() {
        for named in ["ops", "/company/ops", "CN=Ops,OU=Groups", "a1b2-c3d4"] {
            assert!(validate_group(named).is_ok(), "{named}");
        }
        let long = "x".repeat(GROUP_CHARS_MAX + 1);
        for refused in ["", " ops", "ops\n", "a\0b", &long] {
            assert!(validate_group(refused).is_err(), "{refused:?}");
        }
    }
}
