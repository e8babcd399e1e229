//! Presets: connections to well-known providers, without what only their owner knows.
//!
//! A preset says what the provider's documentation says, and no more: it has a window for keys only
//! where the provider promises one, limits are the lowest that its plans have, and a refusal is
//! final for an earlier attempt only where the provider says that it is stored under the key.

use serde_json::Value;

/// A connection with holes.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// What it is called.
    pub name: &'static str,
    /// What it is for, on one line.
    pub about: &'static str,
    /// What the provider says about keys, on one line.
    pub keys: &'static str,
    /// What its owner has to say.
    pub needs: &'static [Hole],
    /// What its owner may say besides.
    pub takes: &'static [Hole],
    template: &'static str,
}

/// A value that only the owner knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// What the command line calls it.
    pub name: &'static str,
    /// Where it stands in the connection, by dots.
    pub path: &'static str,
}

const fn hole(name: &'static str, path: &'static str) -> Hole {
    Hole { name, path }
}

const BEARER: &[Hole] = &[hole("secret", "to.http.auth.bearer.secret")];
const LLM: &[Hole] = &[hole("secret", "to.llm.secret")];
const MODEL: &[Hole] = &[
    hole("model", "to.llm.model"),
    hole("url", "to.llm.base_url"),
];
const HTTP_URL: &[Hole] = &[hole("url", "to.http.base_url")];
const NO_KEYS: &str = "none documented";

/// The providers, by name.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "anthropic",
        about: "Claude models by Anthropic's own API",
        keys: NO_KEYS,
        needs: LLM,
        takes: MODEL,
        template: r#"{"to": {"llm": {"shape": "anthropic", "base_url": "https://api.anthropic.com/v1"}},
            "limits": {"concurrency": 4}, "timeout": "5m"}"#,
    },
    Preset {
        name: "github",
        about: "GitHub's REST API, by a token",
        keys: NO_KEYS,
        needs: BEARER,
        takes: HTTP_URL,
        template: r#"{"to": {"http": {"base_url": "https://api.github.com", "headers": [
            ["accept", "application/vnd.github+json"], ["x-github-api-version", "2022-11-28"]]}},
            "limits": {"concurrency": 4, "per_second": 1}}"#,
    },
    Preset {
        name: "hubspot",
        about: "HubSpot's API, by a private app's token",
        keys: NO_KEYS,
        needs: BEARER,
        takes: HTTP_URL,
        template: r#"{"to": {"http": {"base_url": "https://api.hubapi.com"}},
            "limits": {"concurrency": 8, "per_second": 10}}"#,
    },
    Preset {
        name: "openai",
        about: "OpenAI's models, or another server that speaks as theirs does",
        keys: NO_KEYS,
        needs: LLM,
        takes: MODEL,
        template: r#"{"to": {"llm": {"shape": "openai", "base_url": "https://api.openai.com/v1"}},
            "limits": {"concurrency": 4}, "timeout": "5m"}"#,
    },
    Preset {
        name: "postgres",
        about: "a PostgreSQL of your own, for `db` steps",
        keys: "a marker commits with the effect",
        needs: &[
            hole("host", "to.postgres.host"),
            hole("database", "to.postgres.database"),
            hole("user", "to.postgres.user"),
            hole("secret", "to.postgres.secret"),
        ],
        takes: &[hole("port", "to.postgres.port")],
        template: r#"{"to": {"postgres": {}}, "limits": {"concurrency": 8}}"#,
    },
    Preset {
        name: "slack",
        about: "a Slack workspace, by a bot's token, for `notify` steps",
        keys: NO_KEYS,
        needs: &[hole("secret", "to.slack.secret")],
        takes: &[hole("url", "to.slack.base_url")],
        template: r#"{"to": {"slack": {}}, "limits": {"concurrency": 4, "per_second": 1}}"#,
    },
    Preset {
        name: "smtp",
        about: "a mail server that takes submissions, for `notify` steps",
        keys: "none: Semel cannot tell a lost mail from a delivered one",
        needs: &[
            hole("host", "to.smtp.host"),
            hole("from", "to.smtp.from"),
            hole("user", "to.smtp.user"),
            hole("secret", "to.smtp.secret"),
        ],
        takes: &[hole("port", "to.smtp.port")],
        template: r#"{"to": {"smtp": {"tls": "starttls"}}, "limits": {"concurrency": 4}}"#,
    },
    Preset {
        name: "stripe",
        about: "Stripe's API, by a secret or restricted key",
        keys: "Idempotency-Key, at least 24 hours",
        needs: BEARER,
        takes: HTTP_URL,
        template: r#"{"to": {"http": {"base_url": "https://api.stripe.com"}},
            "idempotency_keys": {"window": "24h"}, "final_refusals": [402], "limits": {"concurrency": 16, "per_second": 20}}"#,
    },
];

/// The kinds of destinations without a provider: everything is the owner's to say.
pub const KINDS: &[Preset] = &[
    Preset {
        name: "http",
        about: "anything that speaks HTTP",
        keys: "as `idempotency_keys` says",
        needs: HTTP_URL,
        takes: BEARER,
        template: r#"{"to": {"http": {}}}"#,
    },
    Preset {
        name: "llm",
        about: "a language model",
        keys: NO_KEYS,
        needs: &[
            hole("shape", "to.llm.shape"),
            hole("url", "to.llm.base_url"),
            hole("secret", "to.llm.secret"),
        ],
        takes: &[hole("model", "to.llm.model")],
        template: r#"{"to": {"llm": {}}}"#,
    },
    Preset {
        name: "postgres",
        about: "a PostgreSQL",
        keys: "a marker commits with the effect",
        needs: &[
            hole("host", "to.postgres.host"),
            hole("database", "to.postgres.database"),
            hole("user", "to.postgres.user"),
        ],
        takes: &[
            hole("port", "to.postgres.port"),
            hole("secret", "to.postgres.secret"),
        ],
        template: r#"{"to": {"postgres": {}}}"#,
    },
    Preset {
        name: "slack",
        about: "a Slack workspace",
        keys: NO_KEYS,
        needs: &[hole("secret", "to.slack.secret")],
        takes: &[hole("url", "to.slack.base_url")],
        template: r#"{"to": {"slack": {}}}"#,
    },
    Preset {
        name: "smtp",
        about: "a server that takes mail",
        keys: "none",
        needs: &[hole("host", "to.smtp.host"), hole("from", "to.smtp.from")],
        takes: &[
            hole("port", "to.smtp.port"),
            hole("user", "to.smtp.user"),
            hole("secret", "to.smtp.secret"),
        ],
        template: r#"{"to": {"smtp": {}}}"#,
    },
    Preset {
        name: "ssh",
        about: "a machine with an SSH server",
        keys: "a marker on the machine, where the step asks for one",
        needs: &[
            hole("host", "to.ssh.host"),
            hole("user", "to.ssh.user"),
            hole("secret", "to.ssh.secret"),
            hole("host-key", "to.ssh.host_key"),
        ],
        takes: &[hole("port", "to.ssh.port")],
        template: r#"{"to": {"ssh": {}}}"#,
    },
    Preset {
        name: "webhook",
        about: "an address that takes deliveries signed as Standard Webhooks",
        keys: "the delivery's id, where the receiver looks at it",
        needs: &[
            hole("url", "to.webhook.url"),
            hole("secret", "to.webhook.secret"),
        ],
        takes: &[],
        template: r#"{"to": {"webhook": {}}}"#,
    },
];

impl Preset {
    /// The preset of a provider.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The bare form of a kind of destination.
    #[must_use]
    pub fn of_kind(kind: &str) -> Option<&'static Self> {
        KINDS.iter().find(|preset| preset.name == kind)
    }

    /// The hole of that name.
    #[must_use]
    pub fn hole(&self, name: &str) -> Option<&'static Hole> {
        let mut holes = self.needs.iter().chain(self.takes);
        holes.find(|hole| hole.name == name)
    }

    /// What it says, with its holes.
    #[must_use]
    pub fn template(&self) -> Value {
        serde_json::from_str(self.template).unwrap_or_default()
    }

    /// The names of the holes that an unfinished connection still has.
    #[must_use]
    pub fn missing(&self, connection: &Value) -> Vec<&'static str> {
        let is_open = |hole: &&Hole| {
            let pointer = format!("/{}", hole.path.replace('.', "/"));
            connection.pointer(&pointer).is_none()
        };
        self.needs
            .iter()
            .filter(is_open)
            .map(|hole| hole.name)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::connection::Connection;
    use crate::connection::fill::{FillError, read, set};
    use crate::span::Span;

    fn filled(preset: &Preset) -> Result<Connection, FillError> {
        let mut connection = preset.template();
        for hole in preset.needs {
            let value = match hole.name {
                "shape" => json!("openai"),
                name => json!(name),
            };
            set(&mut connection, hole.path, value)?;
        }
        assert_eq!(preset.missing(&connection), Vec::<&str>::new());
        read(connection)
    }

    #[test]
    fn every_preset_is_a_connection_once_its_holes_are_filled() {
        for preset in PRESETS.iter().chain(KINDS) {
            let connection = filled(preset);

            assert!(connection.is_ok(), "{}: {connection:?}", preset.name);
            assert_eq!(preset.missing(&preset.template()).len(), preset.needs.len());
        }
        for kind in KINDS {
            assert_eq!(filled(kind).unwrap().kind(), kind.name);
        }
    }

    #[test]
    fn a_preset_names_its_secret_and_holds_none() {
        for preset in PRESETS {
            let connection = filled(preset).unwrap();

            assert_eq!(connection.secrets(), vec!["secret"], "{}", preset.name);
        }
    }

    #[test]
    fn only_providers_that_document_keys_are_trusted_with_them() {
        let honouring: BTreeSet<(&str, Span)> = PRESETS
            .iter()
            .filter_map(|preset| {
                Some((
                    preset.name,
                    filled(preset).unwrap().idempotency_keys.window?,
                ))
            })
            .collect();

        assert_eq!(
            honouring,
            BTreeSet::from([("stripe", Span::from_secs(86_400))])
        );
    }

    #[test]
    fn a_refusal_is_final_only_where_the_provider_stores_it_under_the_key() {
        for preset in PRESETS {
            let connection = filled(preset).unwrap();

            match preset.name {
                // Stripe stores results once an endpoint begins to execute: of its refusals that is
                // "request failed", and not what authentication, validation or rate limits answer.
                "stripe" => assert_eq!(connection.final_refusals(), [402]),
                _ => assert_eq!(connection.final_refusals(), super::super::KEY_REFUSALS),
            }
        }
    }

    #[test]
    fn presets_stand_in_order_and_each_name_stands_once() {
        for list in [PRESETS, KINDS] {
            assert!(list.is_sorted_by(|one, next| one.name < next.name));
        }
    }
}
