//! What differs between two releases, and what does not.

use crate::{CheckContext, examine};

use super::*;

const OLD: &str = "
flow: orders
trigger: { webhook: { auth: none, key: input.id } }
steps:
  - { id: greeting, function: '\"hello\"' }
  - { id: charge, http: { post: 'https://bank.example/charges', json: { n: 1 } }, guard: review }
  - { id: mail, http: { put: 'https://mail.example/${{ input.id }}', json: {} } }
";

fn compared(new: &str) -> Vec<String> {
    let context = CheckContext::default();
    let old = examine("old", OLD, &context);
    let new = examine("new", new, &context);
    assert!(old.flow.is_some(), "{}", old.render(false));
    assert!(new.flow.is_some(), "{}", new.render(false));
    let found = compare(&old, &new).into_iter();
    found
        .map(|it| {
            let step = it.step.unwrap_or_default();
            let means = it.means.map_or("", |_| "!");
            format!("{:?} {step}{means}", it.kind)
        })
        .collect()
}

#[test]
fn another_spelling_is_no_difference() {
    let spelled = OLD.replace(
        "{ auth: none, key: input.id }",
        "{key: input.id, auth: none}",
    );

    assert_eq!(compared(&spelled), [""; 0]);
}

#[test]
fn another_key_of_the_trigger_makes_a_repeat_a_new_run() {
    let other = OLD.replace("key: input.id }", "key: input.order }");

    assert_eq!(compared(&other), ["TriggerKey !"]);
}

#[test]
fn effects_are_added_and_gone_and_a_renamed_one_is_performed_again() {
    let other = OLD.replace("id: charge", "id: pay");

    let found = compared(&other);

    assert_eq!(found, ["EffectAdded pay!", "EffectGone charge"]);
}

#[test]
fn guards_keys_retries_and_requests_differ_by_step() {
    let other = OLD
        .replace(
            "guard: review }",
            "guard: review, key: input.id, retry: { attempts: 9 } }",
        )
        .replace("{ n: 1 }", "{ n: 2 }")
        .replace("json: {} } }", "json: {} }, if: input.mail }");

    let found = compared(&other);

    let expected = [
        "Key charge!",
        "Retry charge",
        "Request charge",
        "Condition mail",
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_step_before_a_list_is_no_difference_of_the_list() {
    let list = "  - id: each
    foreach: { in: input.rooms, as: room, key: room, steps: [{ id: seen, kv: { set: seen, value: 1 } }] }
";
    let (old, new) = (
        format!("{OLD}{list}"),
        OLD.replace("steps:\n", "steps:\n  - { id: more, function: '1' }\n"),
    );
    let context = CheckContext::default();
    let old = examine("old", &old, &context);
    let new = examine("new", &format!("{new}{list}"), &context);

    let found = compare(&old, &new);

    let kinds: Vec<_> = found
        .iter()
        .map(|it| (it.kind, it.step.as_deref()))
        .collect();
    assert_eq!(kinds, [(DifferenceKind::Step, Some("more"))]);
}

#[test]
fn another_key_of_items_says_that_they_are_performed_again() {
    let list = "  - id: each
    foreach: { in: input.rooms, as: room, key: room.id, steps: [{ id: seen, kv: { set: seen, value: 1 } }] }
";
    let (old, context) = (format!("{OLD}{list}"), CheckContext::default());
    let new = old.replace("key: room.id", "key: room.number");

    let found = compare(
        &examine("old", &old, &context),
        &examine("new", &new, &context),
    );

    let key = found.iter().find(|it| it.kind == DifferenceKind::Key);
    let key = key.expect("the key of the items");
    assert_eq!(key.step.as_deref(), Some("each"));
    assert_eq!(key.before.as_deref(), Some("room.id"));
    assert!(
        key.means
            .is_some_and(|means| means.contains("performs the items again"))
    );
}

#[test]
fn the_order_of_effects_and_steps_without_one_are_compared() {
    let lines: Vec<&str> = OLD.lines().collect();
    let [head @ .., greeting, charge, mail] = &lines[..] else {
        panic!("three steps");
    };
    let greeting = greeting.replace("hello", "welcome");
    let other = format!("{}\n{greeting}\n{mail}\n{charge}\n", head.join("\n"));

    assert_eq!(compared(&other), ["Step greeting", "Order "]);
}

#[test]
fn long_texts_are_shown_where_they_part() {
    let context = CheckContext::default();
    let long = OLD.replace(
        "json: { n: 1 }",
        &format!("json: {{ n: \"{}x\" }}", "a".repeat(200)),
    );
    let other = long.replace("ax\"", "ay\"");
    let (old, new) = (
        examine("old", &long, &context),
        examine("new", &other, &context),
    );

    let found = compare(&old, &new);

    let sides: Vec<&str> = found
        .iter()
        .flat_map(|it| [it.before.as_deref(), it.after.as_deref()])
        .flatten()
        .collect();
    assert!(
        sides.len() == 2 && sides[0].contains("ax\"") && sides[1].contains("ay\""),
        "{sides:?}"
    );
    assert!(
        sides
            .iter()
            .all(|side| side.starts_with('…') && side.chars().count() <= SHOWN_CHARS + 2),
        "{sides:?}"
    );
}
