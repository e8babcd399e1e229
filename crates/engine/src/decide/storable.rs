//! Names that a step works out: what cannot be stored fails the step before its intent.

use semel_model::Fault;
use semel_model::request::{LocalChange, StepRequest};
use semel_model::storable::check_name;

/// Why a request cannot be recorded, where one of its names cannot be stored.
pub(super) fn find_fault(request: &StepRequest) -> Option<Fault> {
    let change = match request {
        StepRequest::Local(change) => change,
        StepRequest::External(_) | StepRequest::Task(_) => return None,
    };
    let (what, name) = match change {
        LocalChange::Kv(operation) => ("the entry's name", operation.entry.as_str()),
        LocalChange::Persist(request) => ("the resource's name", request.name.as_deref()?),
        LocalChange::Emit(_) | LocalChange::Start(_) => return None,
    };
    let unstorable = check_name(name).err()?;
    let message = format!("{what} cannot be stored: {unstorable}");
    Some(Fault::permanent("value-unstorable", message))
}
