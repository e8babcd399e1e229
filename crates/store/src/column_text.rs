//! Text of others on its way into a column.
//!
//! Destinations, senders, workers and operators may send the character zero, which PostgreSQL's
//! `text` does not take. A commit that carries it is refused as a whole: an effect that happened would
//! be recorded nowhere. So a statement binds what they said as [`ColumnText`], which has none.

use std::borrow::Cow;
use std::error::Error;

use bytes::BytesMut;
use semel_model::storable::{indexed, without_zero};
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// Text of others, as a column takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnText<'a>(Cow<'a, str>);

impl<'a> ColumnText<'a> {
    /// Words for people: a zero is replaced by the sign for a character that is not known.
    pub(crate) fn words(text: &'a str) -> Self {
        Self(without_zero(text))
    }

    /// A name that programs compare. One with a zero is cut and followed by a digest of the whole, as in
    /// the ledger: it says that it is not the name itself, and is no other name's.
    pub(crate) fn name(text: &'a str) -> Self {
        match text.contains('\0') {
            true => Self::indexed(text),
            false => Self(Cow::Borrowed(text)),
        }
    }

    /// The same in a column that an index has: a long name is cut as well.
    pub(crate) fn indexed(text: &'a str) -> Self {
        Self(indexed(text))
    }

    /// The text itself.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl ToSql for ColumnText<'_> {
    fn to_sql(
        &self,
        to: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.as_str().to_sql(to, out)
    }

    fn accepts(to: &Type) -> bool {
        <&str as ToSql>::accepts(to)
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_of_others_has_a_zero_in_a_column() {
        let (long, zero) = ("ch_1".repeat(1_000), "ch_1\0");

        for text in [long.as_str(), zero, "", "a\0\0b"] {
            for column in [
                ColumnText::words(text),
                ColumnText::name(text),
                ColumnText::indexed(text),
            ] {
                assert!(!column.as_str().contains('\0'), "{column:?}");
            }
        }
        assert_eq!(ColumnText::name(&long).as_str(), long, "any length fits");
        assert_eq!(ColumnText::words("no\0pe").as_str(), "no\u{fffd}pe");
    }

    #[test]
    fn a_name_with_a_zero_is_the_name_of_nothing_else() {
        let of = |text| ColumnText::name(text).as_str().to_owned();

        assert_eq!(of("ch_1\0"), of("ch_1\0"));
        assert_ne!(of("ch_1\0"), of("ch_1\u{fffd}"));
        assert_ne!(of("ch_1\0"), of("ch_1\0\0"));
        assert!(of("ch_1\0").starts_with("ch_1\u{fffd}…"), "and says so");
    }
}
