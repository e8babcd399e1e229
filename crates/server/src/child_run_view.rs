//! A child run as the API shows it, and as the archive writes it.

use semel_api::types::{ChildRun, RunStatus};
use semel_store::child_runs::ChildRunView;

use crate::answer::read_json;

/// A child run in its wire form. None where its state is not known to this version.
pub(crate) fn view(child: &ChildRunView) -> Option<ChildRun> {
    Some(ChildRun {
        step: child.step.clone(),
        index: child.index,
        key: child.key.clone(),
        run: child.run,
        state: child.state.parse().ok()?,
        run_state: child.run_state.map(RunStatus::from),
        result: read_json(child.result.as_deref()),
        fault: read_json(child.fault.as_deref()),
    })
}
