//! What values may do in the places where they are spliced.

use serde_json::{Value, json};

use super::{Template, TextTemplate};
use crate::expr::Scope;

fn render(template: Value) -> Value {
    let input = json!({"a": 1, "s": "x/y?z=1", "l": [1], "n": null});
    let template = Template::compile(&template, &["input"]).expect("it compiles");
    let scope = Scope::new().with("input", &input);
    template
        .render(&scope)
        .unwrap_or_else(|error| json!({"error": error.to_string()}))
}

#[test]
fn a_lone_hole_keeps_its_type() {
    assert_eq!(render(json!({"v": "${{ input.l }}"})), json!({"v": [1]}));
    assert_eq!(render(json!("${{input.n}}")), json!(null));
}

#[test]
fn a_hole_in_a_text_is_spliced() {
    assert_eq!(render(json!("a=${{ input.a }}!")), json!("a=1!"));
    assert_eq!(
        render(json!("${{ {'a': {'b': '}}'}}.a.b }} ")),
        json!("}} ")
    );
    assert_eq!(render(json!("$${{ input.a }}")), json!("${{ input.a }}"));
}

#[test]
fn what_is_no_text_cannot_be_spliced() {
    let error = render(json!("x${{ input.l }}"));
    assert!(
        error["error"]
            .as_str()
            .is_some_and(|said| said.contains("json(")),
        "{error}"
    );
    let error = render(json!("x${{ input.n }}"));
    assert!(
        error["error"]
            .as_str()
            .is_some_and(|said| said.contains("default(")),
        "{error}"
    );
}

fn url(template: &str, id: &str) -> Result<String, String> {
    let input = json!({"id": id});
    let template = TextTemplate::compile(template, &["input"]).expect("it compiles");
    let scope = Scope::new().with("input", &input);
    template
        .render_url(&scope)
        .map_err(|error| error.to_string())
}

#[test]
fn a_value_cannot_leave_its_place_in_an_address() {
    let at = "https://a.example/c/${{ input.id }}";
    assert_eq!(
        url(at, "x/../y?z"),
        Ok("https://a.example/c/x%2F..%2Fy%3Fz".to_owned())
    );
    assert!(url(at, "..").is_err(), "walking up");
    assert!(url(at, "").is_err(), "an empty segment");
    assert!(
        url("https://a.example/c?q=${{ input.id }}", "a&b=c")
            .is_ok_and(|url| url.ends_with("a%26b%3Dc"))
    );
}

#[test]
fn a_value_cannot_end_a_header() {
    let input = json!({"id": "a\r\nx: y"});
    let template = TextTemplate::compile("${{ input.id }}", &["input"]).expect("it compiles");
    assert!(
        template
            .render_header(&Scope::new().with("input", &input))
            .is_err()
    );
}
