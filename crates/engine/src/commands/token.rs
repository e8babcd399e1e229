//! Creating and revoking API tokens. Each commits together with its audit record.
//!
//! A token's secret is random, and the database has only its digest. A token that is asked for under a key
//! has its public part from its maker and that key, so a repeat finds the token that it made before. For
//! a few minutes the database keeps the token encrypted, and the repeat shows it again, which is an act of
//! its own; later the repeat is refused. Another maker's request under the same key is another token.

mod limits;

use std::sync::Arc;

use semel_model::id::digest;
use semel_model::{Key, Label, Networks, Rights, SecretText, Span, TokenId};
use semel_store::ReadError;
use semel_store::audit::{AuditEntry, ReasonError};
use semel_store::tokens::{self, NewToken, TokenTerms, TokenView, derived, made, shown};

use crate::commands::connection::Actor;
use crate::runtime::Runtime;

/// The longest that a token may work, in days.
pub const TOKEN_DAYS_MAX: u64 = 365;

/// How long a repeat of the request that made a token shows it again: as long as a client may wait for
/// an answer that was lost, and ask once more.
pub(crate) const SHOWN_AGAIN_FOR: Span = Span::from_const_secs(600);

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
    /// The key was used to create this token too long ago to show it again.
    #[error("the token {0} was created under this key, and can no longer be shown")]
    Shown(TokenId),
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
            Self::Shown(_) => "token-shown",
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

/// A token that a request made, now or before.
pub struct KeptToken {
    /// The stored row, without the secret.
    pub kept: TokenView,
    /// The token itself, where an earlier request of the same maker under the same key made it.
    pub again: Option<SecretText>,
}

/// A token that was revoked, and what it made.
#[derive(Clone, Debug)]
pub struct RevokedToken {
    /// The token.
    pub token: TokenView,
    /// The tokens that it made, directly or through what it made, and that worked until now. Where they
    /// were left to work, the newest of them.
    pub made: Vec<TokenView>,
    /// How many these are.
    pub made_count: u64,
}

/// Tokens that were revoked because they may have been derived.
#[derive(Clone, Debug)]
pub struct RevokedDerived {
    /// Those that were revoked.
    pub tokens: Vec<TokenView>,
    /// Whether the token that asked may have been derived, too: it was left to work.
    pub is_own_left: bool,
}

/// The public part of the token that a maker creates under a key, the same each time. Its secret is
/// random.
#[must_use]
pub fn name_token(maker: TokenId, key: &Key) -> [u8; 16] {
    digest(
        "semel.token.id.2",
        &[maker.as_uuid().as_bytes(), key.as_bytes()],
    )
}

impl Runtime {
    /// The token as it is kept for repeats of the request that makes it: encrypted with the master key.
    #[must_use]
    pub fn seal_token(&self, id: TokenId, text: &str) -> Vec<u8> {
        self.options.masters.seal(&owner_of(id), text.as_bytes())
    }

    /// How long tokens that a person made work after the last sign-in of that person.
    #[must_use]
    pub fn person_token_lifetime(&self) -> Span {
        self.options.person_tokens
    }

    /// Stores a token. The same again is no change, and shows it again for as long as it is kept `sealed`.
    ///
    /// # Errors
    ///
    /// Where it is not valid, would have a right, a network or a queue that its maker lacks, or its
    /// identity is taken by a token that differs, no longer works or is no longer shown.
    pub async fn create_token(
        self: &Arc<Self>,
        maker: TokenMaker<'_>,
        token: &NewToken<'_>,
        sealed: Option<&[u8]>,
    ) -> Result<KeptToken, TokenError> {
        validate_token(token).map_err(TokenError::Invalid)?;
        let beyond = token.rights.without(maker.rights);
        if !beyond.is_empty() {
            return Err(TokenError::Beyond(beyond));
        }
        limits::check_within(maker, token)?;
        let (cell, namespace_id) = (self.cell.home(), maker.by.namespace_id);
        let subject = format!("{} {}", token.name, token.id);
        let act = maker.by.act("token.create", &subject);
        let terms = self.token_terms(maker, sealed);
        let made = tokens::make(cell, namespace_id, token, terms, &act).await?;
        let Some(stored) = tokens::find_view(cell, namespace_id, token.id).await? else {
            return Err(TokenError::MakerEnded);
        };
        if made {
            return Ok(KeptToken {
                kept: stored,
                again: None,
            });
        }
        if !is_same(&stored, token) {
            return Err(TokenError::Differs);
        }
        if !stored.works {
            return Err(TokenError::Ended);
        }
        let act = maker.by.act("token.show", &subject);
        let again = self
            .show_token(namespace_id, token.id, maker.id, &act)
            .await?;
        let again = again.ok_or(TokenError::Shown(token.id))?;
        Ok(KeptToken {
            kept: stored,
            again: Some(again),
        })
    }

    /// The terms on which a maker makes a token.
    pub(crate) fn token_terms<'a>(
        &self,
        maker: TokenMaker<'_>,
        sealed: Option<&'a [u8]>,
    ) -> TokenTerms<'a> {
        TokenTerms {
            maker: maker.id,
            sealed,
            sealed_for: SHOWN_AGAIN_FOR,
            person_lifetime: self.options.person_tokens,
        }
    }

    /// A token of a namespace for its maker, who asks for it again; none where it is no longer kept.
    pub(crate) async fn show_token(
        &self,
        namespace_id: i32,
        id: TokenId,
        maker: TokenId,
        act: &AuditEntry,
    ) -> Result<Option<SecretText>, ReadError> {
        let sealed = shown::show(self.cell.home(), namespace_id, id, maker, act).await?;
        let text = sealed.and_then(|sealed| self.options.masters.open(&owner_of(id), &sealed));
        let text = text.and_then(|text| String::from_utf8(text.to_vec()).ok());
        Ok(text.map(SecretText::new))
    }

    /// Revokes a token, and with it what it made, if so asked for: no server accepts them after five
    /// seconds. The same again is no change.
    ///
    /// # Errors
    ///
    /// Where there is none, or the reason cannot be recorded.
    pub async fn revoke_token(
        self: &Arc<Self>,
        by: Actor<'_>,
        id: TokenId,
        with_made: bool,
        reason: Option<&str>,
    ) -> Result<RevokedToken, TokenError> {
        let (cell, namespace_id) = (self.cell.home(), by.namespace_id);
        let found = tokens::find_view(cell, namespace_id, id).await?;
        let found = found.ok_or(TokenError::Unknown)?;
        let act = by.act("token.revoke", &format!("{} {id}", found.name));
        let act = match reason {
            Some(reason) => act.because(reason)?,
            None => act,
        };
        let (made, made_count) = if with_made {
            let made = made::revoke(cell, namespace_id, id, &act).await?;
            let count = made.len() as u64;
            (made, count)
        } else {
            tokens::revoke(cell, namespace_id, id, &act).await?;
            let made = made::list(cell, namespace_id, id).await?;
            (made.newest, made.count)
        };
        let revoked = tokens::find_view(cell, namespace_id, id).await?;
        Ok(RevokedToken {
            token: revoked.ok_or(TokenError::Unknown)?,
            made,
            made_count,
        })
    }

    /// Revokes the tokens of a namespace that may have been derived from the secret key, except the one
    /// that asks.
    ///
    /// # Errors
    ///
    /// If the reason cannot be recorded, or the database does not answer.
    pub async fn revoke_derived_tokens(
        self: &Arc<Self>,
        by: Actor<'_>,
        own: TokenId,
        reason: Option<&str>,
    ) -> Result<RevokedDerived, TokenError> {
        let (cell, namespace_id) = (self.cell.home(), by.namespace_id);
        let act = by.act("token.revoke", "");
        let act = match reason {
            Some(reason) => act.because(reason)?,
            None => act,
        };
        let tokens = derived::revoke(cell, Some(namespace_id), own, &act).await?;
        let own = tokens::find_view(cell, namespace_id, own).await?;
        Ok(RevokedDerived {
            tokens,
            is_own_left: own.is_some_and(|own| own.derived && own.works),
        })
    }
}

/// The owner of a sealed token: what is sealed of one token opens as no other.
fn owner_of(id: TokenId) -> Vec<u8> {
    format!("token|{id}").into_bytes()
}

/// Whether a stored token is the one that is asked for again, whose secret is another one by then.
pub(crate) fn is_same(stored: &TokenView, asked: &NewToken<'_>) -> bool {
    let lifetime = stored.ends_at.as_millisecond() - stored.created_at.as_millisecond();
    let asked_for = i64::try_from(asked.lifetime.as_millis()).unwrap_or(i64::MAX);
    stored.name == asked.name
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
