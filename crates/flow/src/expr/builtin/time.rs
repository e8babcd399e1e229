//! Times that are given, never the present one.

use jiff::Timestamp;

use super::super::error::EvalErrorKind;
use super::super::fuel::Fuel;
use super::super::value::Val;
use super::{Builtin, made, text_of, unreadable, wrong};

/// `date("2026-03-01T23:30:00+01:00")` is `2026-03-01`'s date in UTC, `epoch` its seconds since
/// 1970, `rfc3339` the way back.
pub(super) fn call<'a>(
    fuel: &mut Fuel,
    builtin: Builtin,
    value: &Val<'_>,
) -> Result<Val<'a>, EvalErrorKind> {
    fuel.burn(16)?;
    if builtin == Builtin::Rfc3339 {
        let Val::Int(seconds) = value else {
            return Err(wrong(builtin, "seconds as a whole number", value));
        };
        let time =
            Timestamp::from_second(*seconds).map_err(|_| EvalErrorKind::Overflow("rfc3339"))?;
        return made(fuel, time.to_string());
    }
    let text = text_of(builtin, value)?;
    fuel.burn_for(text.len(), 32)?;
    let time: Timestamp = text
        .parse()
        .map_err(|_| unreadable("a time such as 2026-03-01T12:00:00Z", text))?;
    if builtin == Builtin::Epoch {
        return Ok(Val::Int(time.as_second()));
    }
    made(fuel, time.strftime("%Y-%m-%d").to_string())
}
