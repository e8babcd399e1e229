//! Structured answers: what is asked for as JSON Schema, and whether an answer fits.

use jsonschema::{PatternOptions, Validator};
use semel_model::Fault;
use semel_model::json::is_too_deep;
use serde_json::{Value, json};

use super::Said;

/// What the structured answer is called on the wire.
pub(super) const NAME: &str = "answer";

/// The most mistakes of an answer that are reported.
const MISTAKES_MAX: usize = 3;

/// Reads a schema. Patterns run on the engine whose time is linear in the text; a reference to a
/// schema elsewhere is refused, so that nothing is fetched.
pub(super) fn compile(schema: &Value) -> Result<Validator, Fault> {
    jsonschema::options()
        .with_pattern_options(PatternOptions::regex())
        .build(schema)
        .map_err(|error| {
            let message = format!("the schema of the answer cannot be used: {error}");
            Fault::permanent("schema-unusable", message)
        })
}

/// The schema as the providers want it: of an object. Another is put into one.
pub(super) fn as_object(schema: &Value) -> Value {
    if is_of_object(schema) {
        return schema.clone();
    }
    json!({
        "type": "object",
        "properties": {NAME: schema},
        "required": [NAME],
        "additionalProperties": false,
    })
}

fn is_of_object(schema: &Value) -> bool {
    schema["type"] == "object"
}

/// The structured answer, where it fits.
pub(super) fn fit(schema: &Value, said: &Said) -> Result<Value, Fault> {
    let answer = match &said.json {
        Some(json) => json.clone(),
        None => serde_json::from_str(&said.text)
            .map_err(|error| unfit(&format!("it is not JSON: {error}")))?,
    };
    let answer = match is_of_object(schema) {
        true => answer,
        false => match answer.get(NAME) {
            Some(inner) => inner.clone(),
            None => return Err(unfit("the answer itself is missing")),
        },
    };
    if is_too_deep(&answer) {
        return Err(unfit("it nests too deep"));
    }
    let validator = compile(schema)?;
    let mistakes: Vec<String> = validator
        .iter_errors(&answer)
        .take(MISTAKES_MAX)
        .map(|error| match error.instance_path().as_str() {
            "" => error.to_string(),
            place => format!("{place}: {error}"),
        })
        .collect();
    match mistakes.is_empty() {
        true => Ok(answer),
        false => Err(unfit(&mistakes.join("; "))),
    }
}

/// The answer does not fit the schema. The same model may do better when it is asked again.
fn unfit(why: &str) -> Fault {
    let message = format!("the model's answer does not fit the schema: {why}");
    Fault::passing("answer-unfit", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Said {
        Said {
            text: text.to_owned(),
            json: None,
            model: None,
            input_tokens: None,
            output_tokens: None,
        }
    }

    #[test]
    fn an_answer_that_is_no_object_travels_in_one() {
        let schema = json!({"enum": ["spam", "ham"]});

        assert_eq!(as_object(&schema)["type"], "object");
        assert_eq!(fit(&schema, &said(r#"{"answer":"ham"}"#)), Ok(json!("ham")));
        let fault = fit(&schema, &said(r#"{"answer":"eggs"}"#)).unwrap_err();
        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("answer-unfit", true)
        );
    }

    #[test]
    fn nothing_is_fetched_for_a_schema() {
        let fault = compile(&json!({"$ref": "http://127.0.0.1:1/x.json"})).unwrap_err();

        assert_eq!(
            (fault.code.as_str(), fault.retryable),
            ("schema-unusable", false)
        );
    }

    #[test]
    fn a_pattern_that_could_take_for_ever_is_refused() {
        assert!(compile(&json!({"type": "string", "pattern": "^(a+)+\\1$"})).is_err());
    }
}
