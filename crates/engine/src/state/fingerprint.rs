//! Whether a step asks for the same as in an earlier run of the key.

use semel_model::Fingerprint;
use semel_model::approval::ApprovalRequest;
use semel_model::request::StepRequest;
use serde_json::json;

/// The fingerprint of a request. When a task's time is over does not belong to what is asked for.
pub fn fingerprint(request: &StepRequest) -> Fingerprint {
    if let StepRequest::Task(task) = request {
        let mut task = task.clone();
        task.until = None;
        return fingerprint_of(&StepRequest::Task(task));
    }
    fingerprint_of(request)
}

fn fingerprint_of(request: &StepRequest) -> Fingerprint {
    Fingerprint::of(&serde_json::to_value(request).unwrap_or_default())
}

/// The fingerprint of what people were shown.
pub(crate) fn shown(asked: &ApprovalRequest) -> Fingerprint {
    Fingerprint::of(&json!(asked.digest))
}
