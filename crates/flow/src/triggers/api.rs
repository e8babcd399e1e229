//! `api`: a start by a program.

use semel_model::TriggerKind;

use super::{Proof, TriggerSpec, start};

/// The kind.
pub(crate) static SPEC: TriggerSpec = TriggerSpec {
    kind: TriggerKind::Api,
    about: "A start through the API.",
    schema: &start::SCHEMA,
    check: None,
    implied_key: start::implied_key,
    proof: |_| Proof::Caller,
    has_instant: false,
};
