//! Reading what arrives: the payload, its key, and the journal's first event.

use jiff::Timestamp;
use semel_flow::{Expr, Scope};
use semel_model::event::Caller;
use semel_model::{Fingerprint, Key, RunId, TriggerKind, json};
use semel_store::claims::AcceptResult;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use url::form_urlencoded;

use super::{Inbound, IntakeError, PAYLOAD_BYTES_MAX};
use crate::event::{self, Acceptance};
use crate::state::FoldedRun;
use crate::turn::TurnStart;

/// Reads what a sender sent, by the strict rules: two payloads never have one fingerprint.
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

/// Reads what Semel stored: an event that a flow emitted, which may have anything that a
/// destination answers, or a payload that intake has read before. By the rules of results, nothing of
/// it is refused: integers are exact, and what nests too deep to be read back is its own text.
pub(crate) fn read_stored(text: &str) -> (Value, String) {
    let read: Option<Value> = serde_json::from_str(text).ok();
    match read.filter(|value| !json::is_too_deep(value)) {
        Some(input) => (input, text.to_owned()),
        None => {
            let input = json::readable(json::read_back(text));
            let text = input.to_string();
            (input, text)
        }
    }
}

/// Reads a form as one object of texts, and gives it as JSON too.
pub(super) fn read_form(body: &[u8]) -> Result<(Value, String), IntakeError> {
    if body.len() > PAYLOAD_BYTES_MAX {
        return Err(IntakeError::TooLarge);
    }
    let mut fields = Map::new();
    for (name, value) in form_urlencoded::parse(body) {
        let name = name.into_owned();
        // As in JSON: Semel does not guess which of the two is meant.
        if fields.contains_key(&name) {
            let what = format!("the field `{name}` of the form stands twice");
            return Err(IntakeError::NotJson(what));
        }
        fields.insert(name, Value::String(value.into_owned()));
    }
    read_payload(Value::Object(fields).to_string().into_bytes())
}

/// The fingerprint of a payload, without what may differ between two deliveries of one event.
pub(super) fn fingerprint(input: &Value, clock_fields: &[String]) -> Fingerprint {
    if clock_fields.is_empty() {
        return Fingerprint::of(input);
    }
    let mut steady = input.clone();
    for path in clock_fields {
        let steps: Vec<&str> = path.split('.').collect();
        remove(&mut steady, &steps);
    }
    Fingerprint::of(&steady)
}

fn remove(value: &mut Value, steps: &[&str]) {
    let Some((first, rest)) = steps.split_first() else {
        return;
    };
    match value {
        Value::Array(items) if *first == "*" => {
            items.iter_mut().for_each(|item| remove(item, rest));
        }
        Value::Object(fields) if rest.is_empty() => drop(fields.remove(*first)),
        Value::Object(fields) => {
            if let Some(value) = fields.get_mut(*first) {
                remove(value, rest);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
    }
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

/// The key of a payload; nothing when the trigger's `when` is false.
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

/// The first event of a run. The payload goes in as it came.
pub(super) fn first_event(inbound: &Inbound) -> Result<Arrived<'_>, serde_json::Error> {
    let release = &inbound.release;
    Ok(Arrived {
        event: "accepted",
        trigger: inbound.trigger,
        input: serde_json::from_str(&inbound.text)?,
        headers: Some(&inbound.headers).filter(|it| release.reads_headers && !it.is_null()),
        query: Some(&inbound.query).filter(|it| release.reads_query && !it.is_null()),
        caller: inbound.caller,
        by: inbound.by.as_deref(),
        nominal: inbound.nominal,
    })
}

/// [`semel_model::Event::Accepted`], whose payload is text and is not serialised again.
#[derive(Serialize)]
pub(super) struct Arrived<'a> {
    event: &'static str,
    trigger: TriggerKind,
    input: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<Caller>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nominal: Option<Timestamp>,
}

/// What folding the journal's first row would give. The payload moves into it.
pub(super) fn first_state(run: RunId, inbound: &Inbound, input: Value) -> FoldedRun {
    let kept = |reads: bool, value: &Value| if reads { value.clone() } else { Value::Null };
    let accepted = Acceptance {
        trigger: inbound.trigger,
        input,
        headers: kept(inbound.release.reads_headers, &inbound.headers),
        query: kept(inbound.release.reads_query, &inbound.query),
        caller: inbound.caller,
        by: inbound.by.clone(),
        nominal: inbound.nominal,
    };
    event::begin(run, accepted)
}

/// Where a run begins whose first effect was not planned: its key was seen before, or expired.
pub(super) fn begin_unplanned(inbound: &mut Inbound, met: &AcceptResult) -> TurnStart {
    if inbound.input.is_null() {
        // Accepted by now: whatever the rules of its trigger are, they were met.
        (inbound.input, _) = read_stored(&inbound.text);
    }
    let input = std::mem::take(&mut inbound.input);
    let mut state = first_state(met.run, inbound, input);
    if let Some(follows) = &met.follows {
        let flow = &inbound.release.flow;
        let applied = event::apply(&mut state, follows, flow, met.accepted_at);
        assert!(
            applied.is_ok(),
            "a run that has just begun may follow others"
        );
    }
    TurnStart::At(Box::new(state))
}

#[cfg(test)]
mod tests {
    use semel_model::Event;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_event_is_the_one_that_the_journal_reads() {
        let input = r#"{ "n": 1.50, "z": "a\u0000b", "b":[ ] }"#;
        let (headers, query) = (json!({ "x-a": "\u{1}" }), json!({ "q": "\"" }));
        let caller = Caller {
            run: RunId::from_uuid(uuid::Uuid::from_u128(1)),
            wait: semel_model::WaitId::from_uuid(uuid::Uuid::from_u128(2)),
        };
        let nominal: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        for whole in [true, false] {
            let arrived = Arrived {
                event: "accepted",
                trigger: TriggerKind::Webhook,
                input: serde_json::from_str(input).unwrap(),
                headers: whole.then_some(&headers),
                query: whole.then_some(&query),
                caller: whole.then_some(caller),
                by: whole.then_some("an \"operator\""),
                nominal: whole.then_some(nominal),
            };
            let told = Event::Accepted {
                trigger: TriggerKind::Webhook,
                input: serde_json::from_str(input).unwrap(),
                headers: arrived.headers.cloned().unwrap_or_default(),
                query: arrived.query.cloned().unwrap_or_default(),
                caller: arrived.caller,
                by: arrived.by.map(str::to_owned),
                nominal: arrived.nominal,
            };

            let text = serde_json::to_string(&arrived).unwrap();

            assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), told);
            let (own, serdes) = (text.len(), serde_json::to_string(&told).unwrap().len());
            let spelt = serde_json::to_string(&serde_json::from_str::<Value>(input).unwrap());
            assert_eq!(
                own - input.len(),
                serdes - spelt.unwrap().len(),
                "and spelt like it"
            );
            assert!(text.contains(input), "with the payload as it came");
        }
    }

    #[test]
    fn what_a_destination_answered_is_read_whole_from_an_event() {
        let nested = |levels| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        for text in [
            r#"{"id":1234567890123456789}"#.to_owned(),
            r#"{"id":18446744073709551615}"#.to_owned(),
            nested(65),
            nested(100),
        ] {
            let (input, kept) = read_stored(&text);

            assert_eq!((input.to_string(), &kept), (text.clone(), &text));
            assert!(read_payload(text.into_bytes()).is_err(), "no sender may");
        }
        let (input, kept) = read_stored(&nested(101));
        assert_eq!(input["too_deep"], json!(true));
        assert_eq!(serde_json::from_str::<Value>(&kept).unwrap(), input);
        let (_, kept) = read_stored(&nested(5_000));
        assert!(serde_json::from_str::<Value>(&kept).is_ok());
        let (long, kept) = read_stored(&json!("x".repeat(2 << 20)).to_string());
        assert_eq!(long.to_string(), kept, "of any size");
    }

    #[test]
    fn fields_that_change_with_each_delivery_make_no_mismatch() {
        let print = |value: Value, path: &str| fingerprint(&value, &[path.to_owned()]);
        let stripe = |pending: u8| json!({ "id": "evt_1", "pending_webhooks": pending });
        let hubspot = |attempt: u8| json!([{ "eventId": 1, "attemptNumber": attempt }]);

        let path = "pending_webhooks";
        assert_eq!(print(stripe(2), path), print(stripe(1), path));
        let path = "*.attemptNumber";
        assert_eq!(print(hubspot(0), path), print(hubspot(1), path));
        let other = json!([{ "eventId": 2, "attemptNumber": 0 }]);
        assert_ne!(print(hubspot(0), path), print(other, path));
        assert_ne!(print(stripe(2), "other"), print(stripe(1), "other"));
    }

    #[test]
    fn a_form_is_an_object_of_texts_and_no_field_stands_twice() {
        let (input, text) = read_form(b"From=%2B1500&Body=a+b&Empty=").unwrap();

        assert_eq!(
            input,
            json!({ "From": "+1500", "Body": "a b", "Empty": "" })
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), input);
        assert!(read_form(b"a=1&a=2").is_err());
        assert_eq!(read_form(b"").unwrap().0, json!({}));
    }

    #[test]
    fn a_flow_never_sees_credentials() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let headers = vec![pair("x-token", "hush"), pair("user-agent", "shop/1")];

        let seen = to_object(headers, &["x-token"]);

        assert_eq!(seen, json!({ "user-agent": "shop/1" }));
    }
}
