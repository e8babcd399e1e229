//! Secrets: they can be set, and only their names can be read.

use jiff::Timestamp;
use semel_model::host::HostPattern;
use semel_model::{SecretText, Span};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use crate::schema;

/// What is known of a secret. Its text is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Secret {
    /// What connections and triggers call it.
    pub name: String,
    /// How many times it was set.
    pub version: i32,
    /// When it was set last.
    pub set_at: Timestamp,
    /// Until when the previous text still verifies deliveries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_until: Option<Timestamp>,
    /// The connections that name it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<String>,
    /// The hosts that it may be sent to; empty means any host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// Sets a secret. It can be read and cannot be printed, so that it goes one way.
#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SetSecret {
    /// The text.
    #[schema(value_type = schema::SecretText)]
    pub value: SecretText,
    /// How long the previous text still verifies deliveries; a day by default.
    #[serde(default)]
    #[schema(value_type = Option<schema::Span>)]
    pub overlap: Option<Span>,
    /// The hosts that it may be sent to, as `api.example.com` or `*.example.com`. Absent: unchanged;
    /// empty: any host.
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>)]
    pub hosts: Option<Vec<HostPattern>>,
}

impl SetSecret {
    /// The body of the request, which is wiped when it is dropped.
    #[must_use]
    pub fn to_wire(&self) -> Zeroizing<Vec<u8>> {
        let value = serde_json::to_string(self.value.reveal()).unwrap_or_default();
        let value = Zeroizing::new(value);
        let mut wire = Zeroizing::new(Vec::with_capacity(value.len() + 64));
        wire.extend_from_slice(b"{\"value\":");
        wire.extend_from_slice(value.as_bytes());
        if let Some(overlap) = self.overlap {
            wire.extend_from_slice(format!(",\"overlap\":\"{overlap}\"").as_bytes());
        }
        if let Some(hosts) = &self.hosts {
            let hosts = serde_json::to_string(hosts).unwrap_or_default();
            wire.extend_from_slice(format!(",\"hosts\":{hosts}").as_bytes());
        }
        wire.push(b'}');
        wire
    }
}

/// A secret was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SecretSet {
    /// What connections and triggers call it.
    pub name: String,
    /// The version that it has now.
    pub version: i32,
    /// False when nothing changed: neither the value, nor the hosts, nor how long a former value verifies deliveries.
    pub changed: bool,
    /// Whether it had this value, and `overlap` shortened the time for which the former one verifies deliveries.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retired: bool,
    /// Until when a former value still verifies deliveries; absent where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub former_until: Option<Timestamp>,
}

/// A secret was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedSecret {
    /// What connections and triggers called it.
    pub name: String,
    /// The connections that name it, and send nothing until it is set again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<String>,
}

/// The secrets of a namespace were encrypted with a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Rotated {
    /// How many texts there were.
    pub secrets: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let text = "a\"b\\c\n\u{1f511}";
        let set = SetSecret {
            value: SecretText::new(text.to_owned()),
            overlap: Some(Span::from_secs(60)),
            hosts: Some(vec!["*.bank.example".parse().unwrap()]),
        };

        let read: SetSecret = serde_json::from_slice(&set.to_wire()).unwrap();

        assert_eq!(read.value.reveal(), text);
        assert_eq!(read.overlap, set.overlap);
        assert_eq!(read.hosts, set.hosts);
    }
}
