//! Every mistake of a file is reported in one pass, and a long flow takes as much work as it is long.

use std::fmt::Write as _;

use semel_flow::{CheckContext, examine};

use crate::effort::assert_grows_evenly;

/// Ten steps with one mistake each: the text behind `- id: NAME`, the code, and where it stands,
/// by the line below the id and the column.
const MISTAKES: [(&str, &str, (usize, usize)); 10] = [
    (
        "htpp: { get: \"https://a.example/\" }",
        "unknown-field",
        (1, 5),
    ),
    ("function: input.a +", "expression-syntax", (1, 24)),
    ("function: inptu.a", "expression-name", (1, 15)),
    ("function: lowr(input.a)", "expression-function", (1, 15)),
    ("function: steps.nowhere.result", "step-unknown", (1, 15)),
    ("http: { put: \"/relative\" }", "url-invalid", (1, 18)),
    ("wait: { callback: true }", "wait-endless", (1, 5)),
    ("wait: { for: soon }", "wrong-value", (1, 18)),
    (
        "http: { get: \"https://a.example/\" }\n    guard: key",
        "guard-unfit",
        (2, 12),
    ),
    (
        "http: { put: \"https://a.example/1\" }\n    key: input.aROUND.sent_at",
        "key-clock",
        (2, 10),
    ),
];

#[test]
fn fifty_mistakes_come_in_one_pass() {
    let mut source = String::from("flow: many\ntrigger: { api: {} }\nsteps:\n");
    let mut expected = vec![];
    for round in 0..5 {
        for (index, (text, code, (line, column))) in MISTAKES.iter().enumerate() {
            let text = text.replace("ROUND", &round.to_string());
            let id_line = source.lines().count() + 1;
            let _ = write!(source, "  - id: s{round}_{index}\n    {text}\n");
            expected.push((*code, id_line + line, *column));
        }
    }

    let examined = examine("many.yaml", &source, &CheckContext::default());

    // A step whose action is unknown is also reported as doing nothing.
    let said: Vec<(&str, usize, usize)> = examined
        .diagnostics
        .iter()
        .map(|one| (one.code.as_str(), one.line, one.column))
        .filter(|(code, ..)| *code != "missing-field")
        .collect();
    assert_eq!(said.len(), 50, "{}", examined.render(false));
    assert_eq!(said, expected, "{}", examined.render(false));
}

/// Steps of many kinds, with conditions, guards, keys and references to the step before.
pub(crate) fn long_flow(count: usize) -> String {
    let mut source = String::from("flow: long\ntrigger: { api: { key: input.id } }\nsteps:\n");
    for index in 0..count {
        let before = format!("steps.s{}.result.n", index.max(1) - 1);
        let before = if index == 0 {
            "input.n".to_owned()
        } else {
            before
        };
        let body = match index % 5 {
            0 => format!("function: '{{\"n\": default({before}, 0) + 1, \"id\": input.id}}'"),
            1 => format!(
                "if: input.amount > {index}\n    key: '\"step:{index}:\" + input.id'\n    http: {{ put: \"https://a.example/${{{{ input.id }}}}/{index}\", json: {{ n: \"${{{{ default({before}, 0) }}}}\" }} }}"
            ),
            2 => format!(
                "kv: {{ set: \"a/${{{{ input.id }}}}/{index}\", value: \"${{{{ input.lines.filter(l, l.n > {index}).map(l, l.id) }}}}\" }}"
            ),
            3 => format!(
                "http: {{ post: \"https://b.example/{index}\", json: \"${{{{ input }}}}\" }}\n    guard: probe\n    probe: {{ http: {{ get: \"https://b.example/{index}\" }}, found: 'probe.json.items.exists(i, i.id == input.id)' }}"
            ),
            _ => "http: { get: \"https://c.example/\" }".to_owned(),
        };
        let _ = write!(source, "  - id: s{index}\n    {body}\n");
    }
    source
}

#[test]
fn five_hundred_steps_are_checked_quickly() {
    let [half, whole] = [250, 500].map(long_flow);

    assert_grows_evenly("250 steps", || judge(&half), || judge(&whole));
}

/// Checks a file in which there is no mistake.
fn judge(source: &str) {
    let examined = examine("long.yaml", source, &CheckContext::default());
    assert!(examined.is_sound(), "{}", examined.render(false));
}

#[test]
fn steps_that_all_need_each_other_are_checked_in_time() {
    let [half, whole] = [450, 900].map(tangled_flow);

    assert_grows_evenly("450 tangled steps", || judge(&half), || judge(&whole));
}

/// Effects, each of which reads the one before.
fn tangled_flow(count: usize) -> String {
    let mut source = String::from("flow: tangled\ntrigger: { api: {} }\nsteps:\n");
    for index in 0..count {
        let before = format!("${{{{ steps.s{}.result }}}}", index.max(1) - 1);
        let text = if index == 0 { "go".to_owned() } else { before };
        let action = match index % 2 {
            0 => format!("notify: {{ connection: mail, to: a@b.example, text: \"{text}\" }}"),
            _ => format!("kv: {{ set: \"a/{index}\", value: \"{text}\" }}"),
        };
        let _ = write!(source, "  - id: s{index}\n    {action}\n");
    }
    source
}
