//! What a token of the provider has to say to be believed. Pure.
//!
//! The signature is verified before anything here is looked at.

use jiff::Timestamp;
use semel_engine::GROUP_CHARS_MAX;
use serde_json::{Map, Value};
use subtle::ConstantTimeEq;

use super::{OidcOptions, ProviderError};

/// The claims of a token.
pub(super) type Claims = Map<String, Value>;

/// By how much clocks may differ, in seconds.
const LEEWAY_SECS: i64 = 60;

/// How old a logout token may be, in seconds.
const LOGOUT_SECS_MAX: i64 = 300;

/// The longest identity of a person.
const SUBJECT_BYTES_MAX: usize = 255;

/// The most characters of a person's name.
const NAME_CHARS_MAX: usize = 80;

/// The most groups of a person that count.
const GROUPS_MAX: usize = 500;

/// The event of a logout token.
const LOGOUT_EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

/// A person, as the provider names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    /// What the provider knows them by.
    pub(crate) subject: String,
    /// What to call them.
    pub(crate) name: String,
    /// Their groups.
    pub(crate) groups: Vec<String>,
    /// What the provider knows the session by that they have there, where it says so.
    pub(crate) session: Option<String>,
}

/// What ends sign-ins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Logout {
    /// Which.
    pub(crate) ended: LogoutScope,
    /// What the logout token is known by.
    pub(crate) id: String,
}

/// Which sign-ins a logout token ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogoutScope {
    /// All of a person.
    Person {
        /// The person.
        subject: String,
    },
    /// Those of one session at the provider, whosever it is.
    Session {
        /// The session.
        session: String,
    },
    /// Those of one session of a person.
    SessionOf {
        /// The person.
        subject: String,
        /// The session.
        session: String,
    },
}

/// Checks who says it, for whom, and when.
fn check(claims: &Claims, options: &OidcOptions, now: Timestamp) -> Result<(), ProviderError> {
    let invalid = |what| Err(ProviderError::Invalid(what));
    if text(claims, "iss") != Some(&options.issuer) {
        return invalid("the token is not from the configured issuer");
    }
    if !is_for(claims, &options.client_id) {
        return invalid("the token is not for this server");
    }
    let now = now.as_second();
    match (seconds(claims, "exp"), seconds(claims, "iat")) {
        (Some(expires), Some(_)) if expires.saturating_add(LEEWAY_SECS) <= now => {
            return invalid("the token has expired");
        }
        (Some(_), Some(issued)) if issued > now.saturating_add(LEEWAY_SECS) => {
            return invalid("the token is from the future");
        }
        (Some(_), Some(_)) => {}
        (None, _) | (_, None) => return invalid("the token does not say when it holds"),
    }
    if seconds(claims, "nbf").is_some_and(|from| from > now.saturating_add(LEEWAY_SECS)) {
        return invalid("the token does not hold yet");
    }
    Ok(())
}

/// Whom a token names.
fn subject(claims: &Claims) -> Result<String, ProviderError> {
    let subject = text(claims, "sub").unwrap_or_default();
    let printable = subject.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    match !subject.trim().is_empty() && subject.len() <= SUBJECT_BYTES_MAX && printable {
        true => Ok(subject.to_owned()),
        false => Err(ProviderError::Invalid("the token names nobody")),
    }
}

/// Which session at the provider a token names, where it names one.
pub(super) fn session(claims: &Claims) -> Option<String> {
    let session = text(claims, "sid").filter(|session| !session.is_empty());
    session.map(str::to_owned)
}

/// For this client alone, or for several of which this one is who asked.
fn is_for(claims: &Claims, client: &str) -> bool {
    let authorized = claims.get("azp").map(|azp| azp.as_str() == Some(client));
    match claims.get("aud") {
        Some(Value::String(audience)) => audience == client && authorized != Some(false),
        Some(Value::Array(audiences)) => {
            let named = audiences.iter().any(|it| it.as_str() == Some(client));
            named && authorized.unwrap_or(audiences.len() == 1)
        }
        Some(_) | None => false,
    }
}

/// Whom an identity names, where it belongs to this sign-in.
pub(super) fn check_identity(
    claims: &Claims,
    options: &OidcOptions,
    nonce: &str,
    now: Timestamp,
) -> Result<String, ProviderError> {
    check(claims, options, now)?;
    let subject = subject(claims)?;
    let given = text(claims, "nonce").unwrap_or_default();
    match given.as_bytes().ct_eq(nonce.as_bytes()).into() {
        true => Ok(subject),
        false => Err(ProviderError::Invalid(
            "the token does not belong to this sign-in",
        )),
    }
}

/// Which sign-ins a logout token ends.
pub(super) fn check_logout(
    claims: &Claims,
    options: &OidcOptions,
    now: Timestamp,
) -> Result<Logout, ProviderError> {
    check(claims, options, now)?;
    let ended = logout_scope(claims)?;
    let event = claims
        .get("events")
        .and_then(|events| events.get(LOGOUT_EVENT));
    if !event.is_some_and(Value::is_object) || claims.contains_key("nonce") {
        return Err(ProviderError::Invalid("the token is no logout token"));
    }
    let oldest = now
        .as_second()
        .saturating_sub(LOGOUT_SECS_MAX + LEEWAY_SECS);
    if seconds(claims, "iat").is_none_or(|issued| issued < oldest) {
        return Err(ProviderError::Invalid("the logout token is too old"));
    }
    match text(claims, "jti").filter(|id| !id.is_empty()) {
        Some(id) => Ok(Logout {
            ended,
            id: id.to_owned(),
        }),
        None => Err(ProviderError::Invalid("the logout token has no identity")),
    }
}

/// A logout token names a person, a session, or both. Where it names a session, it means that one alone.
fn logout_scope(claims: &Claims) -> Result<LogoutScope, ProviderError> {
    let session = session(claims);
    if let Some(session) = session.clone().filter(|_| !claims.contains_key("sub")) {
        return Ok(LogoutScope::Session { session });
    }
    let subject = subject(claims)?;
    Ok(match session {
        Some(session) => LogoutScope::SessionOf { subject, session },
        None => LogoutScope::Person { subject },
    })
}

/// The person of these claims.
pub(super) fn describe(claims: &Claims, subject: String, options: &OidcOptions) -> Identity {
    let names = ["name", "preferred_username", "email"].into_iter();
    let mut names = names.filter_map(|claim| cleaned(text(claims, claim)?));
    let name = names.next().or_else(|| cleaned(&subject));
    Identity {
        name: name.unwrap_or_else(|| "somebody".to_owned()),
        groups: groups(claims.get(&options.groups_claim)),
        session: None,
        subject,
    }
}

/// A name that can be shown beside others without posing as something else.
fn cleaned(name: &str) -> Option<String> {
    let plain = name
        .chars()
        .map(|c| if c.is_whitespace() { ' ' } else { c });
    let plain: String = plain.filter(|c| !is_invisible(*c)).collect();
    let words: Vec<&str> = plain.split_whitespace().collect();
    let name: String = words.join(" ").chars().take(NAME_CHARS_MAX).collect();
    let name = name.trim().to_owned();
    (!name.is_empty()).then_some(name)
}

/// Control characters, and those that turn text round or take no room.
fn is_invisible(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn groups(claim: Option<&Value>) -> Vec<String> {
    let named: Vec<&str> = match claim {
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(group)) => vec![group],
        Some(_) | None => Vec::new(),
    };
    let fits = |group: &&&str| {
        let named = !group.is_empty() && group.trim() == **group;
        let short = group.chars().count() <= GROUP_CHARS_MAX;
        named && short && !group.chars().any(char::is_control)
    };
    let mut groups: Vec<String> = Vec::new();
    for group in named.iter().filter(fits) {
        if groups.len() < GROUPS_MAX && !groups.iter().any(|known| known == group) {
            groups.push((*group).to_owned());
        }
    }
    groups
}

fn text<'a>(claims: &'a Claims, name: &str) -> Option<&'a str> {
    claims.get(name)?.as_str()
}

/// Seconds since 1970; some providers send fractions.
fn seconds(claims: &Claims, name: &str) -> Option<i64> {
    let value = claims.get(name)?;
    value.as_i64().or_else(|| Some(value.as_f64()? as i64))
}

#[cfg(test)]
mod tests;
