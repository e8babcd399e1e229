//! Reading what arrives: the payload, its key, and the journal's first row.

use semel_flow::{Expr, Scope};
use semel_model::event::Event;
use semel_model::{Key, RunId, json};
use semel_store::claims::Met;
use serde_json::{Map, Value};

use super::{Inbound, IntakeError, PAYLOAD_BYTES_MAX};
use crate::fold::RunState;
use crate::turn::Begun;

pub(super) fn read_payload(body: Vec<u8>) -> Result<(Value, String), IntakeError> {
    if body.len() > PAYLOAD_BYTES_MAX {
        return Err(IntakeError::TooLarge);
    }
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok((Value::Null, "null".to_owned()));
    }
    let input =
        json::parse_strict(&body).map_err(|error| IntakeError::NotJson(error.to_string()))?;
    let text = String::from_utf8(body).map_err(|error| IntakeError::NotJson(error.to_string()))?;
    Ok((input, text))
}

pub(super) fn to_object(pairs: Vec<(String, String)>, unseen: &[&str]) -> Value {
    let mut map = Map::new();
    for (name, value) in pairs {
        if !unseen.contains(&name.as_str()) {
            map.insert(name, Value::String(value));
        }
    }
    Value::Object(map)
}

/// The key of a payload; nothing when the trigger lets it pass by.
pub(super) fn tell(
    when: Option<&Expr>,
    key: &Expr,
    scope: &Scope<'_>,
) -> Result<Option<Key>, String> {
    if let Some(when) = when
        && !when
            .eval_bool(scope)
            .map_err(|error| format!("`when`: {error}"))?
    {
        return Ok(None);
    }
    let text = match key.eval(scope).map_err(|error| error.to_string())? {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Null => return Err("the key is null".to_owned()),
        Value::Bool(_) => return Err("the key is true or false".to_owned()),
        Value::Array(_) | Value::Object(_) => {
            return Err("the key is a list or a map: use fingerprint(…)".to_owned());
        }
    };
    Key::new(text.into_bytes())
        .map(Some)
        .map_err(|error| error.to_string())
}

/// The journal's first row. The payload goes in as it came.
pub(super) fn first_row(inbound: &Inbound) -> String {
    let Inbound {
        trigger,
        text,
        headers,
        query,
        release,
        ..
    } = inbound;
    let mut row = format!(r#"[{{"event":"accepted","trigger":"{trigger}","input":{text}"#);
    if release.reads_headers && !headers.is_null() {
        row.push_str(&format!(r#","headers":{headers}"#));
    }
    if release.reads_query && !query.is_null() {
        row.push_str(&format!(r#","query":{query}"#));
    }
    row.push_str("}]");
    row
}

/// What folding the journal's first row would give. The payload moves into it.
pub(super) fn first_state(run: RunId, inbound: &mut Inbound) -> RunState {
    let kept = |reads: bool, value: &Value| if reads { value.clone() } else { Value::Null };
    let accepted = Event::Accepted {
        trigger: inbound.trigger,
        input: std::mem::take(&mut inbound.input),
        headers: kept(inbound.release.reads_headers, &inbound.headers),
        query: kept(inbound.release.reads_query, &inbound.query),
    };
    let mut state = RunState::new(run);
    state.begin(accepted);
    state
}

/// Where a run begins whose beginning was not foreseen: its key was met or forgotten before.
pub(super) fn begin_unforeseen(inbound: &mut Inbound, met: &Met) -> Result<Begun, IntakeError> {
    if inbound.input.is_null() {
        (inbound.input, _) = read_payload(inbound.text.clone().into_bytes())?;
    }
    let state = first_state(met.run, inbound);
    Ok(Begun::At(Box::new(state)))
}
