//! Creating and revoking API tokens. Each commits together with its audit record.
//!
//! A token that is asked for under a key is derived from the installation's secret, its maker and
//! that key. So a repeat finds the token that it made before, and shows it again, although the
//! database has only a digest. Another maker's request under the same key is another token.

mod limits;

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use semel_model::{Key, Label, Networks, Rights, Span, TokenId};
use semel_store::ReadError;
use semel_store::audit::ReasonError;
use semel_store::tokens::{self, NewToken, TokenView};
use sha2::Sha256;

use crate::commands::connection::Actor;
use crate::runtime::Runtime;

/// The longest that a token may work, in days.
pub const TOKEN_DAYS_MAX: u64 = 365;

/// The most groups of a token.
const GROUPS_MAX: usize = 32;

/// The most characters of a token's or a group's name.
const NAME_CHARS_MAX: usize = 100;

/// By how much the stored lifetime of a token may differ from what was asked for, in milliseconds:
/// its two instants are read one after the other.
const LIFETIME_TOLERANCE_MS: i64 = 1_000;

/// Why a token was not created or revoked.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// It cannot be stored as it is.
    #[error("{0}")]
    Invalid(String),
    /// Its maker would give what it does not have.
    #[error("the maker does not have {0}")]
    Beyond(Rights),
    /// Its maker works only from these networks, and it would work from elsewhere.
    #[error("the maker works only from {0}")]
    BeyondNetworks(Networks),
    /// Its maker works only on these queues, and it would work on others.
    #[error("the maker works only on the queues {0}")]
    BeyondQueues(String),
    /// Its maker was revoked, or has expired.
    #[error("the maker's token no longer works")]
    MakerEnded,
    /// The key was used to create another token.
    #[error("the key was used to create another token")]
    Differs,
    /// The key was used to create a token that no longer works.
    #[error("the token that was created under this key no longer works")]
    Ended,
    /// There is none of this identity.
    #[error("there is no such token")]
    Unknown,
    /// The reason cannot be recorded.
    #[error("{0}")]
    Reason(#[from] ReasonError),
    /// The database did not answer in time.
    #[error("the token could not be stored: {0}")]
    Unavailable(#[from] ReadError),
}

impl TokenError {
    /// The stable word for this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "body-invalid",
            Self::Beyond(_) | Self::BeyondNetworks(_) | Self::BeyondQueues(_) => "right-missing",
            Self::MakerEnded => "unauthorized",
            Self::Differs | Self::Ended => "command-mismatch",
            Self::Unknown => "token-not-found",
            Self::Reason(error) => error.code(),
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

/// The token that asks for another one.
#[derive(Clone, Copy, Debug)]
pub struct TokenMaker<'a> {
    /// Who asks, and where.
    pub by: Actor<'a>,
    /// The token.
    pub id: TokenId,
    /// What it may do.
    pub rights: Rights,
    /// Where it may be used from.
    pub networks: &'a Networks,
    /// The queues whose tasks it may work on; none listed is every queue.
    pub queues: &'a [Label],
}

/// The two parts of a token that is derived from a key.
pub struct DerivedToken {
    /// What it is known by.
    pub id: [u8; 16],
    /// Its secret part.
    pub secret: [u8; 32],
}

impl Runtime {
    /// The token that a maker creates under a key, the same each time.
    #[must_use]
    pub fn derive_token(&self, maker: TokenId, key: &Key) -> DerivedToken {
        let part = |tag: &[u8]| {
            let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(self.options.secret.as_bytes()) else {
                unreachable!("any key length makes an HMAC")
            };
            mac.update(tag);
            mac.update(maker.as_uuid().as_bytes());
            mac.update(key.as_bytes());
            <[u8; 32]>::from(mac.finalize().into_bytes())
        };
        let mut id = [0; 16];
        id.copy_from_slice(&part(b"semel.token.id.1")[..16]);
        DerivedToken {
            id,
            secret: part(b"semel.token.secret.1"),
        }
    }

    /// Stores a token; says whether it is new. The same again is no change.
    ///
    /// # Errors
    ///
    /// Where it is not valid, would have a right, a network or a queue that its maker lacks, or its
    /// identity is taken by a token that differs or no longer works.
    pub async fn create_token(
        self: &Arc<Self>,
        maker: TokenMaker<'_>,
        token: &NewToken<'_>,
    ) -> Result<(TokenView, bool), TokenError> {
        validate_token(token).map_err(TokenError::Invalid)?;
        let beyond = token.rights.without(maker.rights);
        if !beyond.is_empty() {
            return Err(TokenError::Beyond(beyond));
        }
        limits::check_within(maker, token)?;
        let (cell, namespace_id) = (self.cell.home(), maker.by.namespace_id);
        let subject = format!("{} {}", token.name, token.id);
        let act = maker.by.act("token.create", &subject);
        let made = tokens::make(cell, namespace_id, token, maker.id, &act).await?;
        let Some(stored) = tokens::find_view(cell, namespace_id, token.id).await? else {
            return Err(TokenError::MakerEnded);
        };
        if made {
            return Ok((stored, true));
        }
        if !is_same(&stored, token) {
            return Err(TokenError::Differs);
        }
        match stored.works {
            true => Ok((stored, false)),
            false => Err(TokenError::Ended),
        }
    }

    /// Revokes a token: no server accepts it after five seconds. The same again is no change.
    ///
    /// # Errors
    ///
    /// Where there is none, or the reason cannot be recorded.
    pub async fn revoke_token(
        self: &Arc<Self>,
        by: Actor<'_>,
        id: TokenId,
        reason: Option<&str>,
    ) -> Result<TokenView, TokenError> {
        let (cell, namespace_id) = (self.cell.home(), by.namespace_id);
        let found = tokens::find_view(cell, namespace_id, id).await?;
        let found = found.ok_or(TokenError::Unknown)?;
        let act = by.act("token.revoke", &format!("{} {id}", found.name));
        let act = match reason {
            Some(reason) => act.because(reason)?,
            None => act,
        };
        tokens::revoke(cell, namespace_id, id, &act).await?;
        let revoked = tokens::find_view(cell, namespace_id, id).await?;
        revoked.ok_or(TokenError::Unknown)
    }
}

/// Whether a stored token is the one that is asked for again.
pub(crate) fn is_same(stored: &TokenView, asked: &NewToken<'_>) -> bool {
    let lifetime = stored.expires_at.as_millisecond() - stored.created_at.as_millisecond();
    let asked_for = i64::try_from(asked.lifetime.as_millis()).unwrap_or(i64::MAX);
    stored.name == asked.name
        && stored.digest == asked.digest
        && stored.groups == asked.groups
        && stored.rights == asked.rights
        && stored.role == asked.role
        && stored.networks == asked.networks
        && stored.queues == asked.queues
        && lifetime.abs_diff(asked_for) <= LIFETIME_TOLERANCE_MS.unsigned_abs()
}

/// What is wrong with a token, in one sentence.
///
/// # Errors
///
/// Where it has no right, a name that cannot be shown, too many groups, networks or queues, queues and no
/// right to work on them, or works too long.
pub fn validate_token(token: &NewToken<'_>) -> Result<(), String> {
    if token.rights.is_empty() {
        return Err(format!(
            "a token has at least one right: {}",
            semel_model::Right::list()
        ));
    }
    if let Some(role) = token.role {
        let beyond = token
            .rights
            .without(role.rights())
            .without(role.grantable());
        if !beyond.is_empty() {
            return Err(format!(
                "the role `{role}` does not go with {beyond}: name every right, and no role"
            ));
        }
    }
    validate_name("name", token.name)?;
    if token.groups.len() > GROUPS_MAX {
        return Err(format!("a token has at most {GROUPS_MAX} groups"));
    }
    for group in token.groups {
        validate_name("group", group)?;
    }
    limits::validate(token)?;
    let longest = Span::from_secs(TOKEN_DAYS_MAX * 86_400);
    if token.lifetime.as_millis() == 0 || token.lifetime > longest {
        return Err(format!("a token works for at most {TOKEN_DAYS_MAX}d"));
    }
    Ok(())
}

/// A name is shown in records and messages, so it is one line of text without blanks around it.
fn validate_name(what: &str, name: &str) -> Result<(), String> {
    let fits = !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX;
    if fits && name.trim() == name && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(format!(
        "the {what} has 1 to {NAME_CHARS_MAX} characters, none of them a control character, and no \
         blanks around it"
    ))
}

#[cfg(test)]
mod tests {
    use semel_model::{Right, Role};

    use super::*;

    fn asked<'a>(name: &'a str, groups: &'a [String]) -> NewToken<'a> {
        NewToken {
            id: TokenId::from_uuid(uuid::Uuid::nil()),
            name,
            digest: &[0; 32],
            lifetime: Span::from_secs(86_400),
            groups,
            role: None,
            rights: Right::Read.into(),
            networks: Networks::default(),
            queues: &[],
        }
    }

    #[test]
    fn a_token_without_a_right_is_refused_with_the_list() {
        let none = NewToken {
            rights: Rights::default(),
            ..asked("ci", &[])
        };

        let said = validate_token(&none).unwrap_err();

        assert!(said.contains("read, payload, start"), "{said}");
        assert_eq!(validate_token(&asked("ci", &[])), Ok(()));
    }

    #[test]
    fn a_role_takes_only_the_rights_that_go_with_it() {
        let made = |role: Role, more: Right| {
            let rights = role.rights().iter().chain([more]).collect();
            let role = Some(role);
            validate_token(&NewToken {
                role,
                rights,
                ..asked("ada", &[])
            })
        };

        assert_eq!(made(Role::Operator, Right::Settle), Ok(()));
        assert_eq!(made(Role::Admin, Right::Override), Ok(()));
        let said = made(Role::Viewer, Right::Admin).unwrap_err();
        assert!(said.contains("`viewer` does not go with admin"), "{said}");
    }

    #[test]
    fn names_that_could_pose_as_others_are_refused() {
        let long = "x".repeat(NAME_CHARS_MAX + 1);
        for name in ["", " ", " ada", "ada\n", "a\0b", "a\u{1b}[2J", &long] {
            assert!(validate_token(&asked(name, &[])).is_err(), "{name:?}");
            assert!(validate_token(&asked("ada", &[name.to_owned()])).is_err());
        }
        let many = vec!["g".to_owned(); GROUPS_MAX + 1];
        assert!(validate_token(&asked("ada", &many)).is_err());
    }

    #[test]
    fn a_token_works_for_a_year_at_most() {
        let lasting = |secs| NewToken {
            lifetime: Span::from_secs(secs),
            ..asked("ci", &[])
        };

        assert_eq!(validate_token(&lasting(365 * 86_400)), Ok(()));
        assert!(validate_token(&lasting(365 * 86_400 + 1)).is_err());
        assert!(validate_token(&lasting(0)).is_err());
    }
}
