//! What the store is told in its own words.

use semel_flow::release::Wait;
use semel_flow::{Action, Flow};
use semel_model::{Fault, FaultKind};
use semel_store::event_waits::Topic;
use serde_json::Value;

pub(super) fn is_callback(flow: &Flow, step: &str) -> bool {
    let action = flow.find_step(step).map(|step| &step.action);
    matches!(
        action,
        Some(Action::Wait(Wait::Callback { .. } | Wait::Event { .. }))
    )
}

/// Which event a wait is for, where it is for one.
pub(super) fn topic(flow: &Flow, step: &str, about: Option<&Value>) -> Option<Topic> {
    let Action::Wait(Wait::Event { name, topic, .. }) = &flow.find_step(step)?.action else {
        return None;
    };
    let (path, value) = match (topic, about) {
        (Some(topic), Some(about)) => (topic.path.clone(), about.to_string()),
        _ => (String::new(), String::new()),
    };
    Some(Topic {
        event: name.clone(),
        path,
        value,
    })
}

/// A fault as the record shows it: what decisions go by is for the journal alone.
pub(super) fn to_text(fault: &Fault) -> String {
    let shown = fault.clone().of(FaultKind::Other);
    serde_json::to_value(shown)
        .unwrap_or(Value::Null)
        .to_string()
}
