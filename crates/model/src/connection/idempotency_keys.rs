//! What a destination does with the key that Semel sends with every try of an effect.

use serde::{Deserialize, Serialize};

use crate::span::Span;

/// What a destination does with idempotency keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct IdempotencyKeys {
    /// How long the destination remembers a key; absent where it ignores keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    /// Where the destination looks for the key.
    #[serde(rename = "as", skip_serializing_if = "KeyPlace::is_usual")]
    pub place: KeyPlace,
}

impl IdempotencyKeys {
    pub(super) fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a destination looks for the key of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyPlace {
    /// In the header of this name.
    Header(String),
    /// In this field of the JSON body.
    Field(String),
    /// In this parameter of the query.
    Query(String),
}

impl Default for KeyPlace {
    fn default() -> Self {
        Self::Header("idempotency-key".to_owned())
    }
}

impl KeyPlace {
    fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}
