//! Tokens: create, list, revoke. Only a digest of the secret is kept; for 10 minutes after a keyed request the
//! token is also kept, encrypted with the master key.
//!
//! The table of commands keeps responses, so creating a token does not go through it: a token that is
//! asked for under a key is named by that key, and a repeat finds it, and shows it again for a while.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use semel_api::Code;
use semel_api::types::{
    CreateToken, CreatedToken, Page, RevokeDerivedTokens, RevokeToken, RevokedDerivedTokens,
    RevokedToken, Token, TokenFilter,
};
use semel_engine::{KeptToken, TokenError, name_token};
use semel_model::{Rights, Role, Span, TokenId};
use semel_store::tokens::{self, NewToken, TokenView, made};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::token_format::{self, Minted};
use crate::auth::{Caller, Holder};
use crate::body::Payload;
use crate::commands::{self, Command, KEY_HEADER, Reply};
use crate::cursor;
use crate::error::ApiError;
use crate::query::{Named, Params, page_size, read_key};

/// How long a token works by default, in days.
const LIFETIME_DAYS: u64 = 90;

/// `GET /v1/tokens`.
pub(crate) async fn list(
    State(app): State<App>,
    caller: Caller,
    Params(filter): Params<TokenFilter>,
) -> Answered {
    let limit = page_size(filter.limit);
    let before = cursor::read(filter.cursor.as_deref())?;
    let before = before.map(|(at, id)| (at, TokenId::from_uuid(id)));
    let (cell, id) = (app.cell().home(), caller.namespace_id);
    let found = tokens::list(cell, id, filter.all, before, limit).await?;
    let last = found.last().filter(|_| found.len() == usize::from(limit));
    answer::ok(&Page {
        next: last.map(|last| cursor::write(last.created_at, last.id.as_uuid())),
        items: found.into_iter().map(view).collect(),
    })
}

/// `POST /v1/tokens`.
pub(crate) async fn create(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let (asked, _) = payload.read::<CreateToken>()?;
    let Offer { minted, sealed } = mint(&app, &caller, &headers)?;
    commands::carry_out(async move {
        let token = NewToken {
            id: TokenId::from_uuid(minted.id),
            name: &asked.name,
            digest: &minted.digest,
            lifetime: lifetime_or_default(asked.lifetime),
            groups: &asked.groups,
            role: asked.role,
            rights: rights_of(&asked),
            networks: asked.networks.clone(),
            queues: &asked.queues,
        };
        let actor = caller.actor();
        let maker = caller.as_maker(&actor);
        let created = app
            .engine
            .create_token(maker, &token, sealed.as_deref())
            .await;
        let created = created.map_err(|error| refuse(error, &caller))?;
        let (kept, first) = (&created.kept, created.again.is_none());
        tracing::info!(token.id = %kept.id, name = kept.name, first, actor, "token created");
        let created = show(minted.text, created);
        Ok(Reply::new(StatusCode::CREATED, &created)?.replayed_if(!first))
    })
    .await
}

/// What was asked for, or 90 days.
pub(crate) fn lifetime_or_default(asked: Option<Span>) -> Span {
    asked.unwrap_or_else(|| Span::from_secs(LIFETIME_DAYS * 86_400))
}

/// Those of the role, and those that are named besides.
fn rights_of(asked: &CreateToken) -> Rights {
    let of_role = asked.role.map(Role::rights).unwrap_or_default();
    of_role.iter().chain(asked.rights.iter().copied()).collect()
}

/// A token that is made unless the request was sent before.
pub(crate) struct Offer {
    /// The token.
    pub(crate) minted: Minted,
    /// The same, encrypted, where the request can be repeated because it has a key.
    pub(crate) sealed: Option<Vec<u8>>,
}

/// A random token; under a key, of the name that the key has.
pub(crate) fn mint(app: &App, caller: &Caller, headers: &HeaderMap) -> Result<Offer, ApiError> {
    let no_randomness = |_| ApiError::internal("the system gives no randomness");
    let Some(key) = headers.get(KEY_HEADER) else {
        let minted = token_format::mint().map_err(no_randomness)?;
        return Ok(Offer {
            minted,
            sealed: None,
        });
    };
    let key = read_key(key.as_bytes())?;
    let minted = token_format::mint_named(name_token(caller.id, &key)).map_err(no_randomness)?;
    let id = TokenId::from_uuid(minted.id);
    let sealed = app.engine.seal_token(id, &minted.text);
    Ok(Offer {
        minted,
        sealed: Some(sealed),
    })
}

/// A created token in its wire form: the one that was offered, or the one that an earlier request made.
pub(crate) fn show(offered: String, created: KeptToken) -> CreatedToken {
    CreatedToken {
        token: match &created.again {
            Some(earlier) => earlier.reveal().to_owned(),
            None => offered,
        },
        kept: view(created.kept),
    }
}

/// `POST /v1/tokens/{token}/revoke`.
pub(crate) async fn revoke(
    State(app): State<App>,
    caller: Caller,
    token: Named,
    headers: HeaderMap,
    payload: Payload,
) -> Answered {
    let id: TokenId = token.read(Code::TokenNotFound)?;
    let (RevokeToken { reason, with_made }, body) = payload.read()?;
    let command = Command {
        verb: "token revoke",
        subject: token.as_str(),
        body: &body,
        headers: &headers,
    };
    let (shared, asking) = (app.clone(), caller.clone());
    commands::once(app, &caller, command, async move {
        let actor = asking.actor();
        let by = asking.acting(&actor);
        let revoked = shared
            .engine
            .revoke_token(by, id, with_made, reason.as_deref())
            .await;
        let revoked = revoked.map_err(|error| refuse(error, &asking))?;
        forget(&shared, id);
        if with_made {
            for made in &revoked.made {
                forget(&shared, made.id);
            }
        }
        let (name, made) = (&revoked.token.name, revoked.made_count);
        tracing::info!(token.id = %id, name, made, with_made, actor, "token revoked");
        let revoked = RevokedToken {
            token: view(revoked.token),
            made: view_newest(revoked.made),
            made_count: revoked.made_count,
        };
        Reply::new(StatusCode::OK, &revoked)
    })
    .await
}

/// `POST /v1/tokens/revoke-derived`.
pub(crate) async fn revoke_derived(
    State(app): State<App>,
    caller: Caller,
    payload: Payload,
) -> Answered {
    let (RevokeDerivedTokens { reason }, _) = payload.read()?;
    commands::carry_out(async move {
        let actor = caller.actor();
        let by = caller.acting(&actor);
        let revoked = app
            .engine
            .revoke_derived_tokens(by, caller.id, reason.as_deref())
            .await;
        let revoked = revoked.map_err(|error| refuse(error, &caller))?;
        for one in &revoked.tokens {
            forget(&app, one.id);
        }
        let count = revoked.tokens.len() as u64;
        tracing::info!(count, actor, "derived tokens revoked");
        let revoked = RevokedDerivedTokens {
            tokens: view_newest(revoked.tokens),
            count,
            own_left: revoked.is_own_left,
        };
        Reply::new(StatusCode::OK, &revoked)
    })
    .await
}

/// Forgets a token that was revoked, and its sign-ins.
pub(crate) fn forget(app: &App, id: TokenId) {
    app.verified.forget(id);
    app.sign_ins.forget_token(id);
}

/// The newest of some tokens in their wire form.
pub(crate) fn view_newest(tokens: Vec<TokenView>) -> Vec<Token> {
    made::newest(tokens).into_iter().map(view).collect()
}

/// A token in its wire form.
pub(crate) fn view(token: TokenView) -> Token {
    Token {
        id: token.id,
        name: token.name,
        role: token.role,
        rights: token.rights,
        groups: token.groups,
        networks: token.networks,
        queues: token.queues,
        created_at: token.created_at,
        expires_at: token.expires_at,
        last_used_at: token.last_used_at,
        revoked_at: token.revoked_at,
        made_by: token.made_by,
        derived: token.derived,
    }
}

fn refuse(error: TokenError, caller: &Holder) -> ApiError {
    match error {
        TokenError::Invalid(detail) => ApiError::new(Code::BodyInvalid, detail),
        TokenError::Beyond(rights) => {
            let who = caller.in_words();
            let detail = format!("{who} cannot give what it does not have: {rights}");
            ApiError::new(Code::RightMissing, detail)
                .with_hint("Ask for fewer rights, or create it with a token that has them.".into())
        }
        TokenError::BeyondNetworks(own) => {
            let who = caller.in_words();
            let detail = format!("{who} works only from {own}, and gives no more than that");
            ApiError::new(Code::RightMissing, detail).with_hint(
                "Name networks inside these, or create it with a token that works from anywhere."
                    .into(),
            )
        }
        TokenError::BeyondQueues(own) => {
            let who = caller.in_words();
            let detail = format!("{who} works only on the queues {own}, and gives no others");
            ApiError::new(Code::RightMissing, detail).with_hint(
                "Name some of these queues, or create it with a token that has no list of queues."
                    .into(),
            )
        }
        TokenError::MakerEnded => ApiError::plain(Code::Unauthorized),
        TokenError::Differs => ApiError::plain(Code::CommandMismatch),
        TokenError::Ended => {
            let detail = "the token that was created under this key was revoked or has expired";
            ApiError::new(Code::CommandMismatch, detail)
        }
        TokenError::Shown(id) => {
            ApiError::new(Code::TokenShown, error.to_string()).with_hint(format!(
                "If nobody kept it, revoke it with `semel token revoke {id}` and create another one \
                 under another Idempotency-Key."
            ))
        }
        TokenError::Unknown => ApiError::plain(Code::TokenNotFound),
        TokenError::Reason(error) => error.into(),
        TokenError::Unavailable(error) => error.into(),
    }
}
