//! Names that a step works out: what cannot be stored fails the step before its intent.

use semel_model::Fault;
use semel_model::request::Call;
use semel_model::storable::check_name;

/// Why a call cannot be recorded, where one of its names cannot be stored.
pub(super) fn find_fault(call: &Call) -> Option<Fault> {
    let (what, name) = match call {
        Call::Kv(operation) => ("the entry's name", operation.entry.as_str()),
        Call::Persist(request) => ("the resource's name", request.name.as_deref()?),
        Call::Http(_)
        | Call::Db(_)
        | Call::Ssh(_)
        | Call::Notify(_)
        | Call::Llm(_)
        | Call::Emit(_)
        | Call::Start(_)
        | Call::Task(_) => return None,
    };
    let unstorable = check_name(name).err()?;
    let message = format!("{what} cannot be stored: {unstorable}");
    Some(Fault::permanent("value-unstorable", message))
}
