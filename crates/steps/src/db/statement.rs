//! One statement of a flow's author: admitted, bound, run and read.

use futures_util::{TryStreamExt as _, pin_mut};
use semel_model::Fault;
use semel_model::json::value_bytes;
use semel_model::request::DbRequest;
use serde_json::{Map, Value, json};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::bind::Bound;
use super::classify;
use super::record::{self, Cell};
use super::{RESULT_BYTES_MAX, ROWS_MAX};
use crate::answer_room::FREE_BYTES;

/// Words that end or leave the transaction that effect and marker share, change the session that
/// others will use, or speak another protocol.
const REFUSED: [&str; 18] = [
    "abort",
    "begin",
    "commit",
    "copy",
    "deallocate",
    "declare",
    "discard",
    "end",
    "execute",
    "listen",
    "prepare",
    "release",
    "reset",
    "rollback",
    "savepoint",
    "set",
    "start",
    "unlisten",
];

/// Refuses a statement that would not stay within its transaction.
pub(super) fn admit(statement: &str) -> Result<(), Fault> {
    let word = first_word(statement).to_ascii_lowercase();
    if REFUSED.contains(&word.as_str()) {
        let message = format!(
            "`{word}` is not for a `db` step: each statement runs in a transaction of its own"
        );
        return Err(Fault::permanent("statement-refused", message));
    }
    Ok(())
}

/// The first word behind blanks, comments and brackets.
fn first_word(statement: &str) -> &str {
    let mut rest = statement;
    loop {
        rest = rest.trim_start_matches(|letter: char| {
            letter.is_whitespace() || letter == '(' || letter == ';'
        });
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after);
        } else if let Some(comment) = rest.strip_prefix("/*") {
            rest = after_comment(comment);
        } else {
            break;
        }
    }
    let end = rest.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    &rest[..end.unwrap_or(rest.len())]
}

/// What stands behind a comment whose opening was read. Comments nest.
fn after_comment(comment: &str) -> &str {
    let mut depth = 1;
    let mut rest = comment;
    while depth > 0 {
        let opens = rest.find("/*").unwrap_or(usize::MAX);
        match rest.find("*/") {
            None => return "",
            Some(closes) if closes < opens => {
                depth -= 1;
                rest = &rest[closes + 2..];
            }
            Some(_) => {
                depth += 1;
                rest = &rest[opens + 2..];
            }
        }
    }
    rest
}

/// The answer of a statement: its rows as they came, or its records if those take little memory.
pub(super) struct Answered {
    affected: u64,
    rows: Vec<Row>,
    records: Vec<Value>,
    /// About how many bytes the records take.
    weight: usize,
}

impl Answered {
    /// About how many bytes the result takes.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// The result, `{rows, records}`. To be called where there is room for it.
    pub(super) fn read(self) -> Result<Value, Fault> {
        let records = match self.rows.is_empty() {
            true => self.records,
            false => self
                .rows
                .iter()
                .map(read_record)
                .collect::<Result<_, _>>()?,
        };
        Ok(json!({ "rows": self.affected, "records": records }))
    }
}

/// Runs a statement and takes its answer in. A large one stays as it came over the wire, which is bounded.
///
/// It is prepared first, by the extended protocol: two statements in one text are refused by the
/// server, and types that cannot be read are refused before anything ran.
pub(super) async fn run(client: &Client, request: &DbRequest) -> Result<Answered, Fault> {
    let statement = client
        .prepare(&request.statement)
        .await
        .map_err(classify::fault)?;
    let (wanted, given) = (statement.params().len(), request.values.len());
    if wanted != given {
        let message = format!("the statement has {wanted} parameters and {given} values");
        return Err(Fault::permanent("values-unfit", message));
    }
    for column in statement.columns() {
        record::admit(column)?;
    }
    let values: Vec<Bound> = request
        .values
        .iter()
        .zip(statement.params())
        .enumerate()
        .map(|(index, (value, to))| Bound::new(index, value, to))
        .collect::<Result<_, _>>()?;
    let values = values.iter().map(|value| value as &(dyn ToSql + Sync));
    let rows = client
        .query_raw(&statement, values)
        .await
        .map_err(classify::fault)?;
    pin_mut!(rows);
    let mut answered = Answered {
        affected: 0,
        rows: Vec::new(),
        records: Vec::new(),
        weight: 0,
    };
    let (mut count, mut bytes) = (0, 0);
    while let Some(row) = rows.try_next().await.map_err(classify::fault)? {
        let record = read_record(&row)?;
        count += 1;
        bytes += record.to_string().len();
        check_size(count, bytes)?;
        answered.weight += value_bytes(&record);
        answered.rows.push(row);
        match answered.weight <= FREE_BYTES {
            true => answered.records.push(record),
            // Each row is read once more when there is room for all of them.
            false => answered.records = Vec::new(),
        }
    }
    if answered.weight <= FREE_BYTES {
        answered.rows = Vec::new();
    }
    answered.affected = rows.rows_affected().unwrap_or_default();
    Ok(answered)
}

fn read_record(row: &Row) -> Result<Value, Fault> {
    let mut record = Map::new();
    for (index, column) in row.columns().iter().enumerate() {
        let cell: Option<Cell> = row.try_get(index).map_err(|error| {
            let message = format!(
                "the column {} cannot be read ({}): cast it to text",
                column.name(),
                classify::describe(&error)
            );
            Fault::permanent("result-unreadable", message)
        })?;
        let value = cell.map_or(Value::Null, |cell| cell.0);
        record.insert(column.name().to_owned(), value);
    }
    Ok(Value::Object(record))
}

fn check_size(rows: usize, bytes: usize) -> Result<(), Fault> {
    let message = if rows > ROWS_MAX {
        format!("the statement returns more than {ROWS_MAX} rows: add a LIMIT")
    } else if bytes > RESULT_BYTES_MAX {
        format!(
            "the statement returns more than {RESULT_BYTES_MAX} bytes: select fewer columns or rows"
        )
    } else {
        return Ok(());
    };
    Err(Fault::permanent("result-too-large", message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_leave_the_transaction_is_refused() {
        for statement in [
            "commit",
            "  COMMIT AND CHAIN",
            "-- quiet\n/* a /* nested */ one */ RollBack",
            ";Set role postgres",
            "PREPARE TRANSACTION 'x'",
            "copy t from stdin",
        ] {
            assert!(admit(statement).is_err(), "{statement}");
        }
        for statement in ["SELECT 1", "/* set */ UPDATE t SET a = 1", "settle()", ""] {
            assert!(admit(statement).is_ok(), "{statement}");
        }
    }
}
