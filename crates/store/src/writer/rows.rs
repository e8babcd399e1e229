//! How the rows of a statement reach the server: one array per column or, where there is one row
//! only, one value per column.
//!
//! A batch of one is what a quiet server writes. Arrays would cost it the plan of a batch: a table
//! made of them, scanned and joined for each part of the statement.

use tokio_postgres::types::ToSql;

/// The values of one column.
pub(crate) trait Column: ToSql + Sync {
    /// The value of the only row.
    fn only(&self) -> &(dyn ToSql + Sync);
}

impl<T: ToSql + Sync> Column for Vec<T> {
    fn only(&self) -> &(dyn ToSql + Sync) {
        match self.as_slice() {
            [only] => only,
            rows => unreachable!("one row was promised, not {}", rows.len()),
        }
    }
}

/// What is sent for the columns: the values of their only row, or their arrays.
pub(crate) fn sent<'a>(columns: &[&'a dyn Column], one_row: bool) -> Vec<&'a (dyn ToSql + Sync)> {
    let value = |column: &&'a dyn Column| -> &'a (dyn ToSql + Sync) {
        match one_row {
            true => column.only(),
            false => *column,
        }
    };
    columns.iter().map(value).collect()
}

/// The text of a batch's statement, for one row: what was read from arrays is a row of values, which
/// the planner puts where it is used.
pub(crate) fn of_one_row(text: &str) -> String {
    let mut pieces = text.split("unnest(");
    let mut written = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let Some((arrays, rest)) = piece.split_once(')') else {
            unreachable!("a call of unnest ends: {piece}");
        };
        let values = arrays.replace("[]", "");
        written.push_str(&format!("(VALUES ({values})){rest}"));
    }
    for rows in ["moves", "arrived"] {
        let kept = format!("{rows} AS MATERIALIZED");
        written = written.replace(&kept, &format!("{rows} AS NOT MATERIALIZED"));
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_row_is_a_row_of_values() {
        let text =
            "moves AS MATERIALIZED (SELECT * FROM unnest($1::uuid[], $2::int8[]) AS t (a, b))";
        assert_eq!(
            of_one_row(text),
            "moves AS NOT MATERIALIZED (SELECT * FROM (VALUES ($1::uuid, $2::int8)) AS t (a, b))"
        );
    }
}
