//! The key that a trigger gives an input, for an operator who replays a run with another one.

use semel_model::event::Event;
use semel_model::{Key, TriggerKind};
use serde_json::Value;

use super::delivery::tell;
use super::inbound::{Request, describe};
use crate::catalogue::Release;

/// The key that a release's trigger gives an input that came as `accepted` did; nothing where the
/// caller names the runs.
///
/// # Errors
///
/// Where the trigger gives it none, or the runs of this trigger take no input of an operator.
pub(crate) fn key_of(
    release: &Release,
    accepted: &Event,
    input: &Value,
) -> Result<Option<Key>, String> {
    let Event::Accepted {
        trigger,
        headers,
        query,
        ..
    } = accepted
    else {
        return Err("its first delivery is not known".to_owned());
    };
    let request = Request {
        headers: headers.clone(),
        query: query.clone(),
    };
    let (kind, triggers) = (describe(*trigger), &release.flow.trigger);
    let scope = request.scope(release, &kind, input);
    let (when, key) = match trigger {
        TriggerKind::Webhook => match &triggers.webhook {
            Some(webhook) => (webhook.when.as_ref(), &webhook.key),
            None => return Err("its release has no webhook".to_owned()),
        },
        TriggerKind::Api | TriggerKind::Manual => match triggers.start(*trigger) {
            Some(start) => match &start.key {
                Some(key) => (None, key),
                None => return Ok(None),
            },
            None => return Err(format!("its release has no trigger `{trigger}`")),
        },
        TriggerKind::Schedule | TriggerKind::Event | TriggerKind::Call | TriggerKind::Reconcile => {
            return Err(format!("a run by `{trigger}` has the input that made it"));
        }
    };
    match tell(when, key, &scope)? {
        Some(key) => Ok(Some(key)),
        None => Err("the trigger's `when` is false for it".to_owned()),
    }
}
