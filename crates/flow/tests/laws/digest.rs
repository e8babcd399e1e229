//! The digest follows the meaning, not the spelling.

use proptest::prelude::*;
use semel_flow::{ReleaseDigest, check};

fn digest(source: &str) -> ReleaseDigest {
    let checked = check("law.yaml", source);
    let flow = checked
        .flow
        .as_ref()
        .unwrap_or_else(|| panic!("{}\n{source}", checked.render(false)));
    flow.digest()
}

/// The fields of one flow, each in several spellings.
const FIELDS: [&[&str]; 6] = [
    &["flow: law", "'flow': \"law\"", "flow:   law # the name"],
    &[
        "about: it's text",
        "about: 'it''s text'",
        "about: >-\n  it's\n  text",
    ],
    &[
        "trigger: { api: {} }",
        "trigger:\n  api:",
        "trigger:\n    api: { mismatch: reject }",
    ],
    &["keep: 1d", "keep: 24h", "keep: \"23h60m\""],
    &[
        "steps: [{ id: a, function: 1 + input.b }]",
        "steps:\n  - function: '1+input[\"b\"]'\n    id: a",
        "steps:\n- id: a\n  function: |\n    1 + // one\n      (input.b)",
    ],
    &[
        "result: steps.a.result",
        "result: steps.a . result",
        "result: (steps.a).result",
    ],
];

proptest! {
    #[test]
    fn order_and_spelling_do_not_count(
        order in Just([0_usize, 1, 2, 3, 4, 5]).prop_shuffle(),
        spellings in prop::array::uniform6(0..3_usize),
    ) {
        let plain: Vec<&str> = FIELDS.iter().map(|field| field[0]).collect();
        let other: Vec<&str> =
            order.iter().map(|index| FIELDS[*index][spellings[*index]]).collect();

        prop_assert_eq!(digest(&plain.join("\n")), digest(&other.join("\n\n")));
    }

    #[test]
    fn another_constant_is_another_flow(left in 0..1000_u32, right in 0..1000_u32) {
        let flow = |number: u32| {
            let steps = format!("steps: [{{ id: a, function: '{number} + 1' }}]");
            digest(&format!("flow: law\ntrigger: {{ api: {{}} }}\n{steps}\n"))
        };

        prop_assert_eq!(left == right, flow(left) == flow(right));
    }
}
