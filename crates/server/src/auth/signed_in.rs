//! Sign-ins: a cookie of the console that stands for a token, for a while.
//!
//! ```text
//! token ──▶ code (once, one minute) ══▶ sign-in (12 hours idle, 7 days at most)
//! ```
//!
//! A person whom an identity provider signs in has a row among the tokens too, and a sign-in of 15
//! minutes that is renewed there (`crate::oidc`).
//!
//! Code and cookie have 256 random bits each, and the database keeps their digests. A sign-in has the
//! rights of its token and ends with it: what was read of one is used for a few seconds, as with
//! tokens. From outside the token's networks, neither code nor cookie works.

mod known;

pub(crate) use known::SignIns;

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use semel_api::Code;
use semel_model::Span;
use semel_store::Cell;
use semel_store::audit::AuditEntry;
use semel_store::sign_ins::{self, SignInTerms};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::peer_check::PeerCheck;
use super::site::Site;
use super::{Caller, Holder};
use crate::error::ApiError;
use crate::rate_limit::Peer;

/// How long a code works, in seconds.
pub(crate) const CODE_SECS: u64 = 60;

/// How long a sign-in works at most, in seconds.
pub(crate) const LIFETIME_SECS: u64 = 7 * 86_400;

/// How long a sign-in works unused, in seconds.
const IDLE_SECS: u64 = 12 * 3_600;

/// How long the groups count that an identity provider named, in seconds.
pub(crate) const GROUPS_SECS: u64 = 15 * 60;

/// How long before that is over the provider is asked again, in seconds.
const RENEWAL_SECS: u64 = 5 * 60;

/// How many bytes a code and a cookie have.
const SECRET_LEN: usize = 32;

/// What a form's token is derived under.
const FORM_DOMAIN: &[u8] = b"semel.console.form.1";

/// A browser that is signed in. Cheap to clone.
#[derive(Clone)]
pub(crate) struct SignedIn {
    /// Whom it stands for.
    pub(crate) caller: Caller,
    /// Where it is signed in.
    pub(crate) site: Site,
    /// What its forms carry: it follows from the cookie, which no other site can read.
    pub(crate) form_token: String,
    /// Whether the identity provider has to name the person's groups again.
    pub(crate) is_renewal_due: bool,
    /// Where the browser is.
    pub(crate) peer: Option<Peer>,
    digest: [u8; 32],
}

impl SignedIn {
    /// Whether a form carries this sign-in's token.
    pub(crate) fn owns_form(&self, token: &str) -> bool {
        self.form_token.as_bytes().ct_eq(token.as_bytes()).into()
    }

    /// What is stored of it.
    pub(crate) fn digest(&self) -> &[u8; 32] {
        &self.digest
    }
}

/// A code or a cookie, and what is kept of it.
pub(crate) struct MintedSecret {
    /// The text, for its holder.
    pub(crate) text: String,
    /// What is kept.
    pub(crate) digest: [u8; 32],
}

/// Makes a code or a cookie.
pub(crate) fn mint() -> Result<MintedSecret, ApiError> {
    let mut secret = [0; SECRET_LEN];
    getrandom::fill(&mut secret)
        .map_err(|_| ApiError::internal("the system gives no randomness"))?;
    Ok(MintedSecret {
        text: URL_SAFE_NO_PAD.encode(secret),
        digest: Sha256::digest(secret).into(),
    })
}

/// The digest of a code or a cookie; nothing where the text is neither.
fn digest(text: &str) -> Option<[u8; 32]> {
    Some(Sha256::digest(decode(text)?).into())
}

fn decode(text: &str) -> Option<[u8; SECRET_LEN]> {
    URL_SAFE_NO_PAD.decode(text).ok()?.try_into().ok()
}

/// Who a request comes from, by its cookie, in the namespace that it asks for where they may enter it;
/// nothing where there is no sign-in that works from where the browser is.
pub(crate) async fn find(
    headers: &HeaderMap,
    at: (Site, &str),
    from: PeerCheck<'_>,
    known: &SignIns,
    cells: (&Cell, &Cell),
) -> Result<Option<SignedIn>, ApiError> {
    find_by(headers, at, Some(from), known, cells, By::Person).await
}

/// As [`find`], for what a page asks by itself: a sign-in that nobody uses ends, although its page is
/// open.
pub(crate) async fn find_for_script(
    headers: &HeaderMap,
    at: (Site, &str),
    from: PeerCheck<'_>,
    known: &SignIns,
    cells: (&Cell, &Cell),
) -> Result<Option<SignedIn>, ApiError> {
    find_by(headers, at, Some(from), known, cells, By::Script).await
}

/// As [`find`], wherever the browser is, for what ends or renews a sign-in. Nothing may be shown or done by
/// what it finds: no network was compared.
pub(crate) async fn find_anywhere(
    headers: &HeaderMap,
    at: (Site, &str),
    known: &SignIns,
    cells: (&Cell, &Cell),
) -> Result<Option<SignedIn>, ApiError> {
    find_by(headers, at, None, known, cells, By::Script).await
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Person,
    Script,
}

async fn find_by(
    headers: &HeaderMap,
    (site, namespace): (Site, &str),
    from: Option<PeerCheck<'_>>,
    known: &SignIns,
    cells: (&Cell, &Cell),
    by: By,
) -> Result<Option<SignedIn>, ApiError> {
    let cookie = read_cookie(headers, site.cookie_name());
    let Some(secret) = cookie.and_then(decode) else {
        return Ok(None);
    };
    let digest: [u8; 32] = Sha256::digest(secret).into();
    let found = match known.find(&digest, namespace) {
        Some(caller) => Some(FoundSignIn::known(caller)),
        None => look_up(digest, namespace, cells.0).await?,
    };
    let Some(found) = found else {
        return Ok(None);
    };
    let caller = found.caller;
    if let Some(from) = from
        && !from.is_inside(&caller.networks)
    {
        from.note_outside(caller.id, &caller.token);
        return Ok(None);
    }
    // What is due is not kept: another server may renew it at this moment.
    // Nor is what was found for a name that the visitor made up, nor what a script found: a
    // person's use has to be noted.
    if by == By::Person && found.is_new {
        if found.use_is_old {
            note_use(cells.1, digest);
        }
        let is_own = namespace.is_empty() || caller.namespace.as_str() == namespace;
        if is_own && !found.is_renewal_due {
            known.keep((digest, namespace), &caller);
        }
    }
    Ok(Some(SignedIn {
        caller,
        site,
        form_token: form_token(&secret),
        is_renewal_due: found.is_renewal_due,
        peer: from.and_then(|from| from.peer()),
        digest,
    }))
}

/// What is known of a sign-in.
struct FoundSignIn {
    caller: Caller,
    is_renewal_due: bool,
    use_is_old: bool,
    /// Whether it was read just now.
    is_new: bool,
}

impl FoundSignIn {
    /// One that was looked up a moment ago.
    fn known(caller: Caller) -> Self {
        Self {
            caller,
            is_renewal_due: false,
            use_is_old: false,
            is_new: false,
        }
    }
}

async fn look_up(
    digest: [u8; 32],
    namespace: &str,
    cell: &Cell,
) -> Result<Option<FoundSignIn>, ApiError> {
    let terms = SignInTerms {
        idle: Span::from_secs(IDLE_SECS),
        renewal: Span::from_secs(RENEWAL_SECS),
        namespace,
    };
    let row = sign_ins::find(cell.home(), &digest, terms).await?;
    let Some(row) = row else {
        return Ok(None);
    };
    let Ok(namespace) = row.namespace.parse() else {
        return Err(ApiError::internal("a namespace that is no name"));
    };
    let caller = Caller::new(Holder {
        id: row.token,
        namespace_id: row.namespace_id,
        namespace,
        token: match &row.subject {
            Some(subject) => label(&row.name, subject),
            None => row.name,
        },
        subject: row.subject,
        expires_at: row.expires_at,
        groups: row.groups,
        rights: row.rights,
        namespaces: row.namespaces,
        networks: row.networks,
        queues: row.queues,
    });
    Ok(Some(FoundSignIn {
        caller,
        is_renewal_due: row.is_renewal_due,
        use_is_old: row.use_is_old,
        is_new: true,
    }))
}

/// A person, by their name and by what the provider knows them by: names are neither unique nor fixed.
pub(crate) fn label(name: &str, subject: &str) -> String {
    format!("{name} ({subject})")
}

/// Notes that a sign-in is used; the request does not wait for it, and does not fail with it.
fn note_use(cell: &Cell, digest: [u8; 32]) {
    let cell = cell.clone();
    tokio::spawn(async move {
        if let Err(error) = sign_ins::note_use(cell.home(), &digest).await {
            tracing::warn!(%error, "failed to note the use of a sign-in");
        }
    });
}

fn form_token(secret: &[u8]) -> String {
    let digest = Sha256::new_with_prefix(FORM_DOMAIN)
        .chain_update(secret)
        .finalize();
    URL_SAFE_NO_PAD.encode(digest)
}

/// The value of a cookie.
pub(crate) fn read_cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).into_iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    let mut pairs = pairs.filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(given, _)| *given == name)
        .map(|(_, value)| value)
}

/// Uses a code up. Returns the cookie's value, and the namespace that it opens.
///
/// A code that is not there is found out in `reading`, whose connections are for people. From outside the
/// networks of its token a code looks like one that is not there, and is not used up.
pub(crate) async fn exchange(
    code: &str,
    from: PeerCheck<'_>,
    (reading, cell): (&Cell, &Cell),
) -> Result<(String, String), ApiError> {
    let invalid = || ApiError::plain(Code::SignInCodeInvalid);
    let code = digest(code.trim()).ok_or_else(invalid)?;
    let row = sign_ins::find_code(reading.home(), &code).await?;
    let row = row.ok_or_else(invalid)?;
    if !from.is_inside(&row.networks) {
        from.note_outside(row.token, &row.name);
        return Err(invalid());
    }
    let actor = format!("token:{}", row.name);
    let subject = row.token.to_string();
    let act = AuditEntry::new(row.namespace_id, &actor, "console.sign-in", &subject);
    let act = act.by_token(row.token);
    let cookie = mint()?;
    let lifetime = Span::from_secs(LIFETIME_SECS);
    match sign_ins::exchange(cell.home(), &code, &cookie.digest, lifetime, &act).await? {
        true => Ok((cookie.text, row.namespace)),
        false => Err(invalid()),
    }
}

/// Ends a sign-in.
pub(crate) async fn end(
    signed_in: &SignedIn,
    known: &SignIns,
    cell: &Cell,
) -> Result<(), ApiError> {
    sign_ins::end(cell.home(), &signed_in.digest).await?;
    known.forget(&signed_in.digest);
    Ok(())
}

/// Ends every sign-in of who is signed in: also those in browsers that they do not have.
pub(crate) async fn end_everywhere(
    signed_in: &SignedIn,
    known: &SignIns,
    cell: &Cell,
) -> Result<(), ApiError> {
    let caller = &signed_in.caller;
    let act = AuditEntry::new(
        caller.namespace_id,
        &caller.actor(),
        "console.sign-out-everywhere",
        &caller.id.to_string(),
    );
    let ended = sign_ins::end_everywhere(cell.home(), caller.id, &act).await?;
    known.forget_all(&ended);
    Ok(())
}

#[cfg(test)]
mod tests;
