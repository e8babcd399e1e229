//! Creating and changing namespaces. Each is made together with its first token, in one commit.

use std::sync::Arc;

use semel_model::{NamespaceName, Span, TokenId};
use semel_store::ReadError;
use semel_store::audit::AuditEntry;
use semel_store::namespaces::{self, NamespaceChange, NamespaceView};
use semel_store::tokens::{self, NewToken};

use crate::commands::connection::Actor;
use crate::commands::token::{KeptToken, TokenMaker, is_same, validate_token};
use crate::runtime::Runtime;

/// The shortest and the longest time that a namespace keeps its runs, as for flows.
const DAY: Span = Span::from_const_secs(86_400);
const TEN_YEARS: Span = Span::from_const_secs(3_650 * 86_400);

/// The largest weight of a namespace.
const WEIGHT_MAX: i32 = 1_000;

/// Why a namespace was not created or changed.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// Its first token cannot be stored as it is.
    #[error("{0}")]
    Invalid(String),
    /// There is one of this name.
    #[error("there is a namespace `{0}` already")]
    Exists(NamespaceName),
    /// The maker's token was revoked, or has expired.
    #[error("the maker's token no longer works")]
    MakerEnded,
    /// The key was used to create something else.
    #[error("the key was used to create something else")]
    Differs,
    /// The key was used to create it, too long ago to show its first token again.
    #[error(
        "the namespace was created under this key, and its first token {0} can no longer be shown"
    )]
    Shown(TokenId),
    /// There is none of this name.
    #[error("there is no namespace `{0}`")]
    Missing(NamespaceName),
    /// The database did not answer in time.
    #[error("the namespace could not be stored: {0}")]
    Unavailable(#[from] ReadError),
}

impl NamespaceError {
    /// The stable word for this error.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "body-invalid",
            Self::Exists(_) => "namespace-exists",
            Self::MakerEnded => "unauthorized",
            Self::Differs => "command-mismatch",
            Self::Shown(_) => "token-shown",
            Self::Missing(_) => "namespace-not-found",
            Self::Unavailable(_) => "database-unavailable",
        }
    }
}

/// A namespace and its first token.
pub struct NewNamespace {
    /// The namespace.
    pub namespace: NamespaceView,
    /// Its first token.
    pub token: KeptToken,
}

impl Runtime {
    /// Makes a namespace and its first token. The same again, with the same token, is no change, and shows
    /// the token again for as long as it is kept `sealed`.
    ///
    /// # Errors
    ///
    /// If the name belongs to a namespace with another first token, the token is not valid, taken or no
    /// longer shown, or the maker no longer works.
    pub async fn create_namespace(
        self: &Arc<Self>,
        maker: TokenMaker<'_>,
        name: &NamespaceName,
        first: &NewToken<'_>,
        sealed: Option<&[u8]>,
    ) -> Result<NewNamespace, NamespaceError> {
        validate_token(first).map_err(NamespaceError::Invalid)?;
        let cell = self.cell.home();
        let act = maker.by.act("namespace.create", name.as_str());
        let terms = self.token_terms(maker, sealed);
        let is_first = tokens::make_namespace(cell, name, first, terms, &act).await?;
        let Some(namespace) = namespaces::find(cell, name).await? else {
            let taken = tokens::exists(cell, first.id).await?;
            return Err(match taken {
                true => NamespaceError::Differs,
                false => NamespaceError::MakerEnded,
            });
        };
        let stored = tokens::find_view(cell, namespace.id, first.id).await?;
        let same = stored.filter(|stored| stored.works && is_same(stored, first));
        let kept = same.ok_or_else(|| NamespaceError::Exists(name.clone()))?;
        let again = if is_first {
            None
        } else {
            let subject = format!("{} {}", first.name, first.id);
            let act = AuditEntry::new(namespace.id, maker.by.actor, "token.show", &subject);
            let shown = self
                .show_token(namespace.id, first.id, maker.id, &act)
                .await?;
            Some(shown.ok_or(NamespaceError::Shown(first.id))?)
        };
        Ok(NewNamespace {
            namespace,
            token: KeptToken { kept, again },
        })
    }

    /// Changes a namespace.
    ///
    /// # Errors
    ///
    /// Where there is none of this name, or a value is out of its range.
    pub async fn set_namespace(
        self: &Arc<Self>,
        by: Actor<'_>,
        name: &NamespaceName,
        change: NamespaceChange,
    ) -> Result<NamespaceView, NamespaceError> {
        if change
            .weight
            .is_some_and(|it| !(1..=WEIGHT_MAX).contains(&it))
        {
            let reason = format!("`weight` is from 1 to {WEIGHT_MAX}");
            return Err(NamespaceError::Invalid(reason));
        }
        if change.backlog_max.is_some_and(|it| it < 0) {
            let reason = "`backlog_max` is a count, or 0 for no limit".to_owned();
            return Err(NamespaceError::Invalid(reason));
        }
        if change
            .history
            .is_some_and(|it| it != Span::from_millis(0) && !(DAY..=TEN_YEARS).contains(&it))
        {
            let reason =
                "`history` is from 1d to 3650d, or 0s to leave it to the server".to_owned();
            return Err(NamespaceError::Invalid(reason));
        }
        let act = by.act("namespace.set", name.as_str());
        let set = namespaces::set(self.cell.home(), name, change, &act).await?;
        self.catalogue.refresh().await?;
        set.ok_or_else(|| NamespaceError::Missing(name.clone()))
    }
}
