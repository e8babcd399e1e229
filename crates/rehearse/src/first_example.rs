//! What to write where a flow has no example: an input, and what its destinations answer.

use std::fmt::Write as _;

use semel_flow::release::{Ask, WaitStep};
use semel_flow::{Action, Step, load};

/// The lines of a first example for a flow, to be filled in.
#[must_use]
pub fn first_example(source: &str) -> String {
    let mut lines =
        "examples:\n  - name: first\n    input: {}        # what the trigger delivers\n".to_owned();
    let flow = load(source);
    let steps = flow.as_ref().map(|flow| flow.steps.as_slice());
    let answers: String = steps.unwrap_or_default().iter().map(answers_of).collect();
    if !answers.is_empty() {
        // Writing to a text cannot fail.
        let _ = write!(lines, "    answers:\n{answers}");
    }
    lines
}

/// The answers of a step that a rehearsal cannot make up, or should not.
fn answers_of(step: &Step) -> String {
    let id = &step.id;
    let own = match &step.action {
        Action::Http(_) => format!("      {id}: {{ status: 200, json: {{}} }}\n"),
        Action::Approval(_) => format!("      {id}: {{ approved: true }}\n"),
        Action::Wait(WaitStep::Callback { .. }) => format!("      {id}: {{ json: {{}} }}\n"),
        Action::Wait(_)
        | Action::Db(_)
        | Action::Ssh(_)
        | Action::Notify(_)
        | Action::Llm(_)
        | Action::Kv(_)
        | Action::Emit(_)
        | Action::Persist(_)
        | Action::Task(_)
        | Action::Call(_)
        | Action::Function(_)
        | Action::Fail(_)
        | Action::Return(_)
        | Action::Switch(_)
        | Action::Foreach(_)
        | Action::Parallel(_) => String::new(),
    };
    let probe = step.guard.probe().filter(|probe| probe.ask != Ask::Marker);
    let probe = probe.map(|_| {
        format!(
            "      {id}.probe:\n        absent: {{ status: 200, json: {{}} }}\n        \
             found: {{ status: 200, json: {{}} }}\n"
        )
    });
    own + &probe.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: &str = "
flow: pay
trigger: { webhook: { auth: none, key: input.id } }
keep: 30d
steps:
  - id: order
    http: { post: 'https://shop.example/orders', json: { id: '${{ input.id }}' } }
    guard: probe
    probe:
      http: { get: 'https://shop.example/orders?id=${{ input.id }}' }
      found: probe.json.items.size() > 0
  - id: told
    emit: { event: paid, data: {} }
";

    #[test]
    fn the_first_example_is_read_with_an_answer_for_each_request_and_probe() {
        let source = format!("{FLOW}{}", first_example(FLOW));

        let examples = semel_flow::examples(&source);

        let answers: Vec<&str> = examples[0].answers.keys().map(String::as_str).collect();
        assert_eq!(answers, ["order", "order.probe"], "{source}");
    }
}
