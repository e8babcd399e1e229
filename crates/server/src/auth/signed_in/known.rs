//! Sign-ins that were looked up a moment ago.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use semel_model::TokenId;

use crate::auth::{Caller, VERIFIED_FOR, VERIFIED_MAX};

/// Sign-ins that were looked up a moment ago, by what is stored of them and the namespace asked for.
#[derive(Default)]
pub(crate) struct SignIns(Mutex<Known>);

type Known = HashMap<([u8; 32], String), (Caller, Instant)>;

impl SignIns {
    pub(super) fn find(&self, digest: &[u8; 32], namespace: &str) -> Option<Caller> {
        let known = self.0.lock().ok()?;
        let (caller, at) = known.get(&(*digest, namespace.to_owned()))?;
        (at.elapsed() < VERIFIED_FOR).then(|| caller.clone())
    }

    /// Keeps what was looked up just now.
    pub(super) fn keep(&self, (digest, namespace): ([u8; 32], &str), caller: &Caller) {
        let Ok(mut known) = self.0.lock() else {
            return;
        };
        if known.len() >= VERIFIED_MAX {
            known.clear();
        }
        let key = (digest, namespace.to_owned());
        known.insert(key, (caller.clone(), Instant::now()));
    }

    /// Forgets a sign-in that changed here.
    pub(crate) fn forget(&self, digest: &[u8; 32]) {
        self.retain(|(known, _), _| known != digest);
    }

    /// Forgets the sign-ins of a token that was revoked here.
    pub(crate) fn forget_token(&self, id: TokenId) {
        self.retain(|_, caller| caller.id != id);
    }

    /// Forgets the people of a namespace, whose groups changed here.
    pub(crate) fn forget_people(&self, namespace_id: i32) {
        self.retain(|_, caller| caller.subject.is_none() || caller.namespace_id != namespace_id);
    }

    /// Forgets sign-ins that a provider ended, by what was stored of them.
    pub(crate) fn forget_all(&self, ended: &[Vec<u8>]) {
        self.retain(|(known, _), _| !ended.iter().any(|ended| ended == known));
    }

    /// Forgets a person whose groups a provider named again.
    pub(crate) fn forget_subject(&self, subject: &str) {
        self.retain(|_, caller| caller.subject.as_deref() != Some(subject));
    }

    fn retain(&self, stays: impl Fn(&([u8; 32], String), &Caller) -> bool) {
        if let Ok(mut known) = self.0.lock() {
            known.retain(|key, (caller, _)| stays(key, caller));
        }
    }
}
