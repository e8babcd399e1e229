//! Authentication: which token a request comes from.
//!
//! The API reads tokens only, and no cookie; the console reads the cookies of sign-ins, which stand for tokens (`signed_in`).
//! Every failed authentication has the same answer, that of a token outside its networks too. A verified
//! token is cached for a few seconds, so that a busy caller costs no read per request and a revoked token
//! stops working soon.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use jiff::Timestamp;
use semel_api::Code;
use semel_api::types::Whoami;
use semel_engine::{Actor, Approver, TokenMaker};
use semel_model::{Label, NamespaceName, Networks, Right, Rights, SeededBug, TokenId};
use semel_store::{Cell, tokens};
use uuid::Uuid;

use crate::answer::{self, Answered};
use crate::error::ApiError;

pub(crate) mod failures;
pub(crate) mod peer_check;
pub(crate) mod signed_in;
pub(crate) mod site;
pub mod token_format;
mod turns;

use failures::{AuthError, AuthFailure};
use peer_check::PeerCheck;
use token_format::Presented;
use turns::Turns;

/// How long a verified token is accepted without another read.
const VERIFIED_FOR: Duration = Duration::from_secs(4);

/// How many verified tokens are remembered.
const VERIFIED_MAX: usize = 4096;

/// The authenticated caller: a token, and through it a namespace. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<Holder>);

impl Caller {
    fn new(holder: Holder) -> Self {
        Self(Arc::new(holder))
    }
}

/// Says that a request of the server to itself is made for this caller, who was checked before. No
/// request from outside can carry it.
#[derive(Clone)]
pub(crate) struct OnBehalfOf(pub(crate) Caller);

impl Deref for Caller {
    type Target = Holder;

    fn deref(&self) -> &Holder {
        &self.0
    }
}

/// Who holds a token.
#[derive(Debug)]
pub(crate) struct Holder {
    /// What the token is known by.
    pub(crate) id: TokenId,
    /// The namespace, short.
    pub(crate) namespace_id: i32,
    /// The namespace.
    pub(crate) namespace: NamespaceName,
    /// What the token's owner calls it; of a person, their name and what the provider knows them by.
    pub(crate) token: String,
    /// What an identity provider knows the person by, where one signed them in.
    pub(crate) subject: Option<String>,
    /// When the token stops working.
    pub(crate) expires_at: Timestamp,
    /// The groups that its owner belongs to.
    pub(crate) groups: Vec<String>,
    /// What it may do.
    pub(crate) rights: Rights,
    /// The namespaces that a person may enter; none for a token, which opens one.
    pub(crate) namespaces: Vec<String>,
    /// Where it may be used from.
    pub(crate) networks: Networks,
    /// The queues whose tasks it may work on; none listed is every queue.
    pub(crate) queues: Vec<Label>,
}

impl Holder {
    /// Who decides approvals as this holder.
    pub(crate) fn approver(&self) -> Approver {
        let (name, groups) = (self.token.clone(), self.groups.clone());
        match self.subject.clone() {
            Some(subject) => Approver::Person {
                name,
                subject,
                groups,
            },
            None => Approver::Token { name, groups },
        }
    }

    /// The caller's name in the audit log.
    pub(crate) fn actor(&self) -> String {
        match self.subject {
            Some(_) => format!("oidc:{}", self.token),
            None => format!("token:{}", self.token),
        }
    }

    /// The caller in a sentence.
    pub(crate) fn in_words(&self) -> String {
        match self.subject {
            Some(_) => format!("`{}`", self.token),
            None => format!("the token `{}`", self.token),
        }
    }

    /// Says that a right is missing.
    pub(crate) fn lacks(&self, right: Right) -> ApiError {
        let detail = format!("{} does not have the right `{right}`", self.in_words());
        ApiError::new(Code::RightMissing, detail).with_hint(match self.subject {
            Some(_) => {
                "Ask who manages the namespace to give one of your groups a role that has it."
                    .to_owned()
            }
            None => format!(
                "Use a token that has it; `semel token create NAME --right {right}` makes one."
            ),
        })
    }

    /// Says that the token is not for a queue.
    pub(crate) fn lacks_queue(&self, queue: &str) -> ApiError {
        let own: Vec<&str> = self.queues.iter().map(Label::as_str).collect();
        let (who, own) = (self.in_words(), own.join(", "));
        let detail = format!("{who} does not work on the queue `{queue}`, only on {own}");
        ApiError::new(Code::RightMissing, detail).with_hint(
            "Claim from one of its queues, or use a token that has this one; \
             `semel token create NAME --role worker --queue QUEUE` makes one."
                .to_owned(),
        )
    }

    /// The caller as the one who acts, under the name that [`Self::actor`] gives.
    pub(crate) fn acting<'a>(&self, actor: &'a str) -> Actor<'a> {
        Actor {
            namespace_id: self.namespace_id,
            actor,
        }
    }

    /// The caller as the one who makes a token, or gives a group a role.
    pub(crate) fn as_maker<'a>(&'a self, actor: &'a str) -> TokenMaker<'a> {
        TokenMaker {
            by: self.acting(actor),
            id: self.id,
            rights: self.rights,
            networks: &self.networks,
            queues: &self.queues,
        }
    }

    /// Whether the token is for a queue.
    pub(crate) fn may_work_on(&self, queue: &str) -> bool {
        self.queues.is_empty()
            || self.queues.iter().any(|own| own.as_str() == queue)
            || SeededBug::TokenQueuesIgnored.is_seeded()
    }

    /// Whether the token has a right.
    pub(crate) fn may(&self, right: Right) -> bool {
        self.rights.contains(right)
    }
}

/// Tells who sent a request, by its token.
///
/// It is looked up in `cell`, and its use is noted in `writable`. One that is used from outside its networks
/// is looked up each time, as an unknown one is, so that no answer comes sooner than the other.
pub(crate) async fn verify(
    headers: &HeaderMap,
    from: PeerCheck<'_>,
    verified: &Verified,
    (cell, writable): (&Cell, &Cell),
) -> Result<Caller, AuthError> {
    let presented = read_bearer(headers)?;
    let find_known = || {
        let known = verified.find(&presented);
        known.filter(|caller| from.is_inside(&caller.networks))
    };
    if let Some(caller) = find_known() {
        return Ok(caller);
    }
    let _turn = verified.turns.take(&presented).await;
    if let Some(caller) = find_known() {
        return Ok(caller);
    }
    let found = tokens::find_presented(cell.home(), presented.id).await?;
    let (row, end) = found.ok_or(AuthFailure::Unknown)?;
    if !presented.matches(&row.digest) && !SeededBug::TokenSecretNotCompared.is_seeded() {
        return Err(AuthFailure::WrongSecret.into());
    }
    let id = TokenId::from_uuid(presented.id);
    if let Some(end) = end {
        let name = row.name;
        return Err(AuthFailure::Ended { id, name, end }.into());
    }
    if !from.is_inside(&row.networks) {
        from.note_outside(id, &row.name);
        return Err(AuthFailure::Outside.into());
    }
    let Ok(namespace) = row.namespace.parse() else {
        let error = ApiError::internal("a namespace that is no name");
        return Err(AuthError::Undecided(error));
    };
    if row.use_is_old {
        note_use(writable, id);
    }
    let caller = Caller::new(Holder {
        id,
        namespace_id: row.namespace_id,
        namespace,
        token: row.name,
        subject: None,
        expires_at: row.expires_at,
        groups: row.groups,
        rights: row.rights,
        namespaces: Vec::new(),
        networks: row.networks,
        queues: row.queues,
    });
    verified.keep(&presented, &caller);
    Ok(caller)
}

/// Notes that a token is used; the request does not wait for it, and does not fail with it.
fn note_use(cell: &Cell, id: TokenId) {
    let cell = cell.clone();
    tokio::spawn(async move {
        if let Err(error) = tokens::note_use(cell.home(), id).await {
            tracing::warn!(%error, token.id = %id, "failed to note the use of a token");
        }
    });
}

/// The caller whose token was verified before and has not expired, however long ago that was.
pub(crate) fn remember(
    headers: &HeaderMap,
    from: PeerCheck<'_>,
    verified: &Verified,
    now: Timestamp,
) -> Result<Option<Caller>, AuthFailure> {
    let presented = read_bearer(headers)?;
    let known = verified.find_old(&presented);
    let known = known.filter(|caller| caller.expires_at > now);
    Ok(known.filter(|caller| from.is_inside(&caller.networks)))
}

fn read_bearer(headers: &HeaderMap) -> Result<Presented, AuthFailure> {
    let value = headers.get(AUTHORIZATION).ok_or(AuthFailure::Missing)?;
    let text = value.to_str().map_err(|_| AuthFailure::Malformed)?;
    let (scheme, text) = text.split_once(' ').ok_or(AuthFailure::Malformed)?;
    token_format::parse(text.trim())
        .filter(|_| scheme.eq_ignore_ascii_case("bearer"))
        .ok_or(AuthFailure::Malformed)
}

/// Tokens that were verified a moment ago.
#[derive(Default)]
pub(crate) struct Verified {
    tokens: Mutex<HashMap<Uuid, Remembered>>,
    turns: Turns,
}

struct Remembered {
    digest: [u8; 32],
    caller: Caller,
    at: Instant,
}

impl Verified {
    fn find(&self, presented: &Presented) -> Option<Caller> {
        let tokens = self.tokens.lock().ok()?;
        tokens
            .get(&presented.id)
            .filter(|token| token.at.elapsed() < VERIFIED_FOR)
            .filter(|token| presented.matches(&token.digest))
            .map(|token| token.caller.clone())
    }

    /// The caller of a token that was verified, however long ago.
    fn find_old(&self, presented: &Presented) -> Option<Caller> {
        let tokens = self.tokens.lock().ok()?;
        let token = tokens.get(&presented.id);
        let token = token.filter(|token| presented.matches(&token.digest));
        token.map(|token| token.caller.clone())
    }

    /// Forgets a token that was revoked here.
    pub(crate) fn forget(&self, id: TokenId) {
        if let Ok(mut tokens) = self.tokens.lock() {
            tokens.remove(id.as_uuid());
        }
    }

    fn keep(&self, presented: &Presented, caller: &Caller) {
        let Ok(mut tokens) = self.tokens.lock() else {
            return;
        };
        if tokens.len() >= VERIFIED_MAX {
            tokens.clear();
        }
        let remembered = Remembered {
            digest: presented.digest,
            caller: caller.clone(),
            at: Instant::now(),
        };
        tokens.insert(presented.id, remembered);
    }
}

/// `GET /v1/whoami`: the token's owner and namespace.
pub(crate) async fn whoami(caller: Caller) -> Answered {
    answer::ok(&Whoami {
        namespace: caller.namespace.clone(),
        token: caller.token.clone(),
        expires_at: caller.expires_at,
        groups: caller.groups.clone(),
        rights: caller.rights,
        networks: caller.networks.clone(),
        queues: caller.queues.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller() -> Caller {
        Caller::new(Holder {
            id: TokenId::from_uuid(Uuid::nil()),
            namespace_id: 1,
            namespace: "main".parse().unwrap(),
            token: "laptop".to_owned(),
            subject: None,
            expires_at: Timestamp::UNIX_EPOCH,
            groups: Vec::new(),
            rights: Rights::ALL,
            namespaces: Vec::new(),
            networks: Networks::default(),
            queues: Vec::new(),
        })
    }

    #[test]
    fn a_remembered_token_needs_its_secret_again() {
        let (one, other) = (token_format::mint().unwrap(), token_format::mint().unwrap());
        let presented = token_format::parse(&one.text).unwrap();
        let forged = Presented {
            id: one.id,
            digest: other.digest,
        };
        let verified = Verified::default();

        verified.keep(&presented, &caller());

        assert!(verified.find(&presented).is_some());
        assert!(verified.find(&forged).is_none());
    }
}
