//! `manual`: a start by a person.

use semel_model::TriggerKind;

use super::{Proof, TriggerSpec, start};

/// The kind.
pub(crate) static SPEC: TriggerSpec = TriggerSpec {
    kind: TriggerKind::Manual,
    about: "A manual start.",
    schema: &start::SCHEMA,
    check: None,
    implied_key: start::implied_key,
    proof: |_| Proof::Caller,
    has_instant: false,
};
