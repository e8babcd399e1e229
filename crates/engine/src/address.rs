//! Addresses that Semel sends to people and programs: of a callback, of an approval.
//!
//! An address is derived from run and step before the wait begins, so that an earlier step can hand
//! it out. It carries identities, and a code that only the holder of the installation's secret can
//! make: nothing about it is stored. While the secret is being changed, the current key makes
//! addresses and every listed key opens them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use semel_model::{RunId, WaitId};
use sha2::Sha256;
use uuid::Uuid;

use crate::options::Options;
use crate::secret::Secret;

/// How many bytes of an address are its code.
const CODE_LEN: usize = 32;

/// The run that reaches a step that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comer {
    /// The run.
    pub(crate) run: RunId,
    /// The run at the same place of the first run of the key: the address holds for all of them.
    pub(crate) first: RunId,
    /// The run in which that one begins, at its place in the first run of the key, where it is a
    /// branch that may not have begun.
    pub(crate) begins_in: Option<RunId>,
}

/// The address that answers a wait.
pub(crate) fn address(options: &Options, comer: Comer, step: &str) -> String {
    let wait = WaitId::derive(comer.first, step);
    let mut named = vec![*comer.first.as_uuid(), *wait.as_uuid()];
    named.extend(comer.begins_in.map(|run| *run.as_uuid()));
    let token = make_token(&options.secret, Domain::Callback, &named);
    format!(
        "{}/callbacks/{token}",
        options.public_url.trim_end_matches('/')
    )
}

/// The page that an approval of a run is decided on. Each round of asking has its own.
pub(crate) fn approval_address(options: &Options, run: RunId, step: &str, round: u32) -> String {
    let wait = WaitId::derive(run, step);
    let mut named = vec![*run.as_uuid(), *wait.as_uuid()];
    if round > 0 {
        named.push(Uuid::from_u128(u128::from(round)));
    }
    let token = make_token(&options.secret, Domain::Approval, &named);
    let base = options.public_url.trim_end_matches('/');
    format!("{base}/approvals/{token}")
}

/// What an address opens. One of a kind opens nothing of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// A wait for a callback.
    Callback,
    /// An approval.
    Approval,
}

impl Domain {
    const fn tag(self) -> &'static [u8] {
        match self {
            Self::Callback => b"semel.callback.1",
            Self::Approval => b"semel.approval.1",
        }
    }
}

/// The part of an address that names these identities.
pub(crate) fn make_token(secret: &Secret, domain: Domain, named: &[Uuid]) -> String {
    let mut bytes: Vec<u8> = named.iter().flat_map(|id| *id.as_bytes()).collect();
    let code = code(secret.address_key(), domain, &bytes)
        .finalize()
        .into_bytes();
    bytes.extend(code);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The identities that an address names; nothing where it was not made here.
pub(crate) fn read_token(secret: &Secret, domain: Domain, token: &str) -> Option<Vec<Uuid>> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
    let (named, given) = bytes.split_at_checked(bytes.len().checked_sub(CODE_LEN)?)?;
    // Compared in constant time, with every key: the time does not tell which one made it.
    let matching = secret.address_keys().filter(|key| {
        let code = code(key, domain, named);
        match semel_model::SeededBug::CallbackCodeCutShort.is_seeded() {
            true => code.verify_truncated_left(&given[..CODE_LEN / 2]),
            false => code.verify_slice(given),
        }
        .is_ok()
    });
    if matching.count() == 0 {
        return None;
    }
    let ids = named.chunks(16).map(Uuid::from_slice);
    ids.collect::<Result<_, _>>().ok()
}

fn code(key: &[u8; 32], domain: Domain, identities: &[u8]) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(key);
    let Ok(mut mac) = mac else {
        unreachable!("any key length makes an HMAC")
    };
    mac.update(domain.tag());
    if !semel_model::SeededBug::CallbackCodeNotBound.is_seeded() {
        mac.update(identities);
    }
    mac
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_key_opens_what_it_made_and_the_current_one_makes() {
        let (new, old) = (Secret::generate(), Secret::generate());
        let read = |text: &str| Secret::from_hex(text).unwrap();
        let (both, former, current) = (read(&format!("{new},{old}")), read(&old), read(&new));
        let named = [Uuid::from_u128(1), Uuid::from_u128(2)];

        for domain in [Domain::Callback, Domain::Approval] {
            let sent = make_token(&former, domain, &named);
            let made = make_token(&both, domain, &named);

            assert_eq!(read_token(&both, domain, &sent), Some(named.to_vec()));
            assert_eq!(read_token(&current, domain, &made), Some(named.to_vec()));
            assert_eq!(read_token(&former, domain, &made), None);
            assert_eq!(read_token(&current, domain, &sent), None, "the key is gone");
        }
    }
}
