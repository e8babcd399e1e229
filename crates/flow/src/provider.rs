//! Providers: where the keys of their webhooks come from.

use semel_model::Span;

/// What is known about the webhooks of a provider.
pub struct Provider {
    /// The word that flows use.
    pub name: &'static str,
    /// What people call it.
    pub title: &'static str,
    /// The key of a delivery, as CEL.
    pub key: &'static str,
    /// Where the key stands.
    pub key_source: Source,
    /// How a delivery is signed; absent where it is not.
    pub signature: Option<Signature>,
    /// The headers that the signature covers, in lower case.
    pub covers_headers: &'static [&'static str],
    /// How long the same may be delivered again.
    pub redelivery: Option<Span>,
    /// Which delivery about one object is newer.
    pub order: Option<Order>,
    /// Paths of the payload that change with each sending.
    pub clock_fields: &'static [&'static str],
}

/// Where a key stands.
pub enum Source {
    /// In the payload.
    Body,
    /// In that header.
    Header(&'static str),
}

/// How a delivery is signed.
pub enum Signature {
    /// The scheme of that name.
    Scheme(&'static str),
}

/// Which delivery about one object is newer.
pub struct Order {
    /// The object, as CEL.
    pub object: &'static str,
    /// Its version, as CEL.
    pub version: &'static str,
}

const ALL: &[Provider] = &[
    Provider {
        name: "stripe",
        title: "Stripe",
        key: "input.id",
        key_source: Source::Body,
        signature: Some(Signature::Scheme("stripe")),
        covers_headers: &[],
        redelivery: Some(Span::from_const_secs(3 * 86_400)),
        order: Some(Order {
            object: "input.data.object.id",
            version: "input.created",
        }),
        clock_fields: &["request.idempotency_key", "pending_webhooks"],
    },
    Provider {
        name: "github",
        title: "GitHub",
        key: "headers[\"x-github-delivery\"]",
        key_source: Source::Header("x-github-delivery"),
        signature: Some(Signature::Scheme("github")),
        covers_headers: &[],
        redelivery: Some(Span::from_const_secs(3 * 86_400)),
        order: None,
        clock_fields: &[],
    },
];

/// The provider of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Provider> {
    ALL.iter().find(|provider| provider.name == name)
}

/// Every provider.
#[must_use]
pub const fn all() -> &'static [Provider] {
    ALL
}
