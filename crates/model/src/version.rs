//! Versions: which of two deliveries about one object is newer.

use jiff::Timestamp;
use serde_json::Value;

/// The longest text that is a version.
const TEXT_BYTES_MAX: usize = 256;

/// A version of an object: a number, a time or a text. Versions of two kinds cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    kind: VersionKind,
    rank: String,
    shown: String,
}

/// What a version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionKind {
    /// A number.
    Number,
    /// An instant (RFC 3339).
    Time,
    /// A text, compared byte by byte.
    Text,
}

impl VersionKind {
    /// The kind's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Number => "number",
            Self::Time => "time",
            Self::Text => "text",
        }
    }
}

/// The value is no version.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// It is neither a number nor a text.
    #[error("it is {0}, and a version is a number, a time or a text that grows")]
    Unfit(&'static str),
    /// It is too long.
    #[error("it has more than {TEXT_BYTES_MAX} bytes")]
    TooLong,
}

impl Version {
    /// Reads what an expression gave.
    pub fn read(value: &Value) -> Result<Self, VersionError> {
        match value {
            Value::Number(number) => match number.as_f64() {
                Some(float) => Ok(Self {
                    kind: VersionKind::Number,
                    rank: rank_of_number(float),
                    shown: number.to_string(),
                }),
                None => Err(VersionError::Unfit("no number that can be compared")),
            },
            Value::String(text) if text.is_empty() => Err(VersionError::Unfit("empty")),
            Value::String(text) if text.len() > TEXT_BYTES_MAX => Err(VersionError::TooLong),
            Value::String(text) if text.contains('\0') => {
                Err(VersionError::Unfit("a text with the character zero"))
            }
            Value::String(text) => Ok(Self::of_text(text)),
            Value::Null => Err(VersionError::Unfit("null")),
            Value::Bool(_) => Err(VersionError::Unfit("true or false")),
            Value::Array(_) => Err(VersionError::Unfit("a list")),
            Value::Object(_) => Err(VersionError::Unfit("a map")),
        }
    }

    fn of_text(text: &str) -> Self {
        let time: Option<Timestamp> = text.parse().ok();
        let (kind, rank) = match time {
            Some(time) => (VersionKind::Time, rank_of_time(time)),
            None => (VersionKind::Text, text.to_owned()),
        };
        Self {
            kind,
            rank,
            shown: text.to_owned(),
        }
    }

    /// What it is.
    pub fn kind(&self) -> VersionKind {
        self.kind
    }

    /// A text that is greater, byte by byte, for a newer version of the kind.
    pub fn rank(&self) -> &str {
        &self.rank
    }

    /// The version as it came.
    pub fn shown(&self) -> &str {
        &self.shown
    }
}

/// The bits of a number in its own order: those of the negative ones turned round.
fn rank_of_number(number: f64) -> String {
    // Zero has two signs, and is one number.
    let bits = (number + 0.0).to_bits();
    let sign = 1 << 63;
    let ordered = if bits & sign == 0 { bits | sign } else { !bits };
    format!("{ordered:016x}")
}

fn rank_of_time(time: Timestamp) -> String {
    let nanos = time.as_nanosecond() + (1 << 100);
    format!("{nanos:032x}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rank(value: Value) -> (VersionKind, String) {
        let version = Version::read(&value).unwrap();
        (version.kind(), version.rank().to_owned())
    }

    #[test]
    fn ranks_grow_as_versions_do() {
        let growing = [
            vec![
                json!(-3.5e9),
                json!(-2),
                json!(-1.5),
                json!(0),
                json!(0.25),
                json!(7),
                json!(10),
                json!(9007199254740992_u64),
            ],
            vec![
                json!("1960-01-01T00:00:00Z"),
                json!("2026-11-15T12:00:00+02:00"),
                json!("2026-11-15T11:00:00Z"),
                json!("2026-11-15T11:00:00.000001Z"),
            ],
            vec![json!("a"), json!("ab"), json!("b")],
        ];
        for versions in growing {
            let ranks: Vec<(VersionKind, String)> = versions.into_iter().map(rank).collect();
            for pair in ranks.windows(2) {
                assert_eq!(pair[0].0, pair[1].0);
                assert!(pair[0].1 < pair[1].1, "{pair:?}");
            }
        }
    }

    #[test]
    fn one_version_has_one_rank_however_it_is_written() {
        assert_eq!(rank(json!(7)), rank(json!(7.0)));
        assert_eq!(rank(json!(0.0)), rank(json!(-0.0)));
        let zoned = json!("2026-11-15T12:00:00+02:00");
        assert_eq!(rank(zoned), rank(json!("2026-11-15T10:00:00Z")));
    }

    #[test]
    fn what_cannot_grow_is_no_version() {
        for value in [json!(null), json!(true), json!([1]), json!({}), json!("")] {
            assert!(Version::read(&value).is_err(), "{value}");
        }
    }
}
