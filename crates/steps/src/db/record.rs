//! Rows of an answer as values of a flow.
//!
//! Whole numbers stay exact. A decimal number is a number where a float holds every digit of it,
//! and otherwise a text. Moments are text in RFC 3339, bytes are `\x` and hex.

use std::error::Error;

use jiff::civil::{Date, Time};
use jiff::{Timestamp, ToSpan as _};
use semel_model::Fault;
use semel_model::json::{RESULT_DEPTH_MAX, depth};
use serde_json::{Number, Value};
use tokio_postgres::Column;
use tokio_postgres::types::{FromSql, Kind, Type};
use uuid::Uuid;

mod numeric;

/// 2000-01-01, from which PostgreSQL counts, in microseconds from 1970.
const EPOCH_US: i64 = 946_684_800_000_000;

/// How many digits a float certainly holds.
const FLOAT_DIGITS: usize = 15;

/// The levels of a result around one of its values: the map, its records, and a record.
const LEVELS_AROUND: usize = 3;

type Failure = Box<dyn Error + Sync + Send>;

/// One value of one row.
pub(super) struct Cell(pub(super) Value);

/// Refuses a column that could not be read, before the statement runs.
pub(super) fn admit(column: &Column) -> Result<(), Fault> {
    if is_readable(column.type_()) {
        return Ok(());
    }
    let message = format!(
        "the column {} is of type {}, which a flow cannot hold: cast it to text",
        column.name(),
        column.type_()
    );
    Err(Fault::permanent("result-unreadable", message))
}

fn is_readable(of: &Type) -> bool {
    if let Kind::Domain(inner) | Kind::Array(inner) = of.kind() {
        return is_readable(inner);
    }
    matches!(of.kind(), Kind::Enum(_)) || READABLE.contains(of) || of.name() == "citext"
}

const READABLE: [Type; 22] = [
    Type::BOOL,
    Type::INT2,
    Type::INT4,
    Type::INT8,
    Type::OID,
    Type::FLOAT4,
    Type::FLOAT8,
    Type::NUMERIC,
    Type::TEXT,
    Type::VARCHAR,
    Type::BPCHAR,
    Type::NAME,
    Type::UNKNOWN,
    Type::UUID,
    Type::JSON,
    Type::JSONB,
    Type::TIMESTAMPTZ,
    Type::TIMESTAMP,
    Type::DATE,
    Type::TIME,
    Type::BYTEA,
    Type::VOID,
];

impl<'a> FromSql<'a> for Cell {
    fn from_sql(of: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        read(of, raw).map(Self)
    }

    fn accepts(of: &Type) -> bool {
        is_readable(of)
    }
}

fn read(of: &Type, raw: &[u8]) -> Result<Value, Failure> {
    if let Kind::Domain(inner) = of.kind() {
        return read(inner, raw);
    }
    if let Kind::Array(_) = of.kind() {
        return read_array(of, raw);
    }
    Ok(match *of {
        Type::BOOL => bool::from_sql(of, raw)?.into(),
        Type::INT2 => i16::from_sql(of, raw)?.into(),
        Type::INT4 => i32::from_sql(of, raw)?.into(),
        Type::INT8 => i64::from_sql(of, raw)?.into(),
        Type::OID => u32::from_sql(of, raw)?.into(),
        Type::FLOAT4 => read_float(f32::from_sql(of, raw)?.to_string()),
        Type::FLOAT8 => read_float(f64::from_sql(of, raw)?.to_string()),
        Type::NUMERIC => read_decimal(numeric::to_text(raw)?),
        Type::UUID => Uuid::from_sql(of, raw)?.to_string().into(),
        Type::JSON | Type::JSONB => read_json(Value::from_sql(of, raw)?)?,
        Type::TIMESTAMPTZ => read_moment(i64::from_be_bytes(raw.try_into()?))?.into(),
        Type::TIMESTAMP => {
            let moment = read_moment(i64::from_be_bytes(raw.try_into()?))?;
            moment.trim_end_matches('Z').into()
        }
        Type::DATE => read_date(i32::from_be_bytes(raw.try_into()?))?.into(),
        Type::TIME => read_time(i64::from_be_bytes(raw.try_into()?))?.into(),
        Type::BYTEA => format!("\\x{}", hex::encode(raw)).into(),
        Type::VOID => Value::Null,
        _ => std::str::from_utf8(raw)?.into(),
    })
}

fn read_array(of: &Type, raw: &[u8]) -> Result<Value, Failure> {
    let cells = Vec::<Option<Cell>>::from_sql(of, raw)?;
    let values = cells.into_iter().map(|cell| match cell {
        Some(cell) => cell.0,
        None => Value::Null,
    });
    Ok(values.collect())
}

/// The step's result must be read back from the journal with this in it.
fn read_json(value: Value) -> Result<Value, Failure> {
    match depth(&value) + LEVELS_AROUND > RESULT_DEPTH_MAX {
        true => Err("JSON that nests too deep: cast it to text".into()),
        false => Ok(value),
    }
}

/// A float by its shortest text; what JSON has no number for stays a text.
fn read_float(text: String) -> Value {
    let float: Option<f64> = text.parse().ok();
    float
        .and_then(Number::from_f64)
        .map_or(Value::String(text), Value::Number)
}

/// A decimal as a number where nothing is lost by it.
fn read_decimal(text: String) -> Value {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.into();
    }
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    if digits <= FLOAT_DIGITS {
        read_float(text)
    } else {
        Value::String(text)
    }
}

fn read_moment(micros: i64) -> Result<String, Failure> {
    if let Some(endless) = endless(micros == i64::MAX, micros == i64::MIN) {
        return Ok(endless);
    }
    let micros = micros
        .checked_add(EPOCH_US)
        .ok_or("a time beyond the year 9999")?;
    Ok(Timestamp::from_microsecond(micros)?.to_string())
}

fn read_date(days: i32) -> Result<String, Failure> {
    if let Some(endless) = endless(days == i32::MAX, days == i32::MIN) {
        return Ok(endless);
    }
    let date = Date::constant(2000, 1, 1).checked_add(i64::from(days).days())?;
    Ok(date.to_string())
}

fn read_time(micros: i64) -> Result<String, Failure> {
    // A day's end is written 24:00, which is no time of any day.
    if micros == 86_400_000_000 {
        return Ok("24:00:00".to_owned());
    }
    let time = Time::midnight().checked_add(micros.microseconds())?;
    Ok(time.to_string())
}

fn endless(above: bool, below: bool) -> Option<String> {
    match (above, below) {
        (true, _) => Some("infinity".to_owned()),
        (_, true) => Some("-infinity".to_owned()),
        (false, false) => None,
    }
}
