//! What a timeline says.

use semel_model::event::Event;
use serde_json::{Value, json};

use crate::event::describe;

fn told(event: Value) -> String {
    describe(&serde_json::from_value::<Event>(event).unwrap())
}

#[test]
fn attempts_and_outcomes_are_described_in_plain_words() {
    let effect = "eff_00000000000000000000000000000001";
    let fault = json!({ "code": "http-503", "message": "busy", "retryable": true });
    let doubt = json!({ "code": "no-answer", "message": "no answer came" });
    let at = "2026-01-02T03:04:05Z";
    let cases = [
        (
            json!({ "event": "intended", "step": "a", "effect": effect, "attempt": 1 }),
            "a: attempt 1 started",
        ),
        (
            json!({ "event": "intended", "step": "a", "effect": effect, "attempt": 2, "licence": "absent" }),
            "a: attempt 2 started (repeat: a probe found nothing)",
        ),
        (
            json!({ "event": "done", "step": "a", "by": "commit", "result": 1 }),
            "a: done (committed)",
        ),
        (
            json!({ "event": "done", "step": "a", "by": "answer", "external_id": "inv_1",
                "status": 201, "result": {} }),
            "a: done with 201 as inv_1 (response received)",
        ),
        (
            json!({ "event": "done", "step": "a", "by": "found_before", "external_id": "inv_1",
                "result": {} }),
            "a: done as inv_1 (found before anything was sent)",
        ),
        (
            json!({ "event": "failed", "step": "a", "fault": fault, "retry_at": at }),
            "a: did not happen (http-503): busy; retry at 2026-01-02T03:04:05Z",
        ),
        (
            json!({ "event": "doubted", "step": "a", "doubt": doubt, "plan": { "by": "review" } }),
            "a: in doubt (no-answer): no answer came; an operator settles it",
        ),
        (
            json!({ "event": "stopped", "reason": "needs_review", "fault": fault }),
            "stopped, needs review (http-503): busy",
        ),
        (
            json!({ "event": "resumed", "by": "token:ada", "reason": "fixed" }),
            "resumed by token:ada: fixed",
        ),
    ];

    for (event, sentence) in cases {
        assert_eq!(told(event), sentence);
    }
}

#[test]
fn model_usage_and_stored_resources_are_described() {
    let digest = "ab".repeat(32);

    let sentence = told(json!({"event": "computed", "step": "ask",
        "result": {"resource": format!("res://{digest}"), "bytes": 70_000, "type": "text/csv"},
        "usage": {"tokens": {"input": 12, "output": 3}, "cost": 0.00042}}));

    assert_eq!(
        sentence,
        format!(
            "ask: result res://{digest} (70000 bytes of text/csv) \
             (12 tokens in, 3 out, cost 0.000420)"
        )
    );
}
