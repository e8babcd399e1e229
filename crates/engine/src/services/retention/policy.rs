//! How long the runs of a release are kept.

use semel_model::Span;
use semel_store::ReadError;

use crate::runtime::Runtime;

/// What holds for the runs of a release.
pub(super) struct Policy {
    pub(super) history: Span,
    pub(super) keeps_claims: bool,
}

/// What the live release of the flow says, for the runs of all of its releases, or else what the namespace or the server
/// says; never shorter than the run's own release keeps its keys. A release that cannot be read keeps everything that it might need.
pub(super) async fn policy_of(runtime: &Runtime, release: i32) -> Result<Policy, ReadError> {
    let default = runtime.options.history;
    let Some(own) = runtime.catalogue.get(release).await? else {
        return Ok(Policy {
            history: default.max(KEEP_MAX),
            keeps_claims: true,
        });
    };
    let live = runtime
        .catalogue
        .find_flow(own.namespace_id, &own.flow.name);
    let said = live.as_ref().map_or(own.flow.history, |it| it.flow.history);
    let namespaces = runtime.catalogue.namespaces();
    let namespace = namespaces.iter().find(|it| it.id == own.namespace_id);
    let of_namespace = namespace.and_then(|namespace| namespace.history);
    let is_new = |flow: &semel_flow::Flow| flow.expires_as_new;
    Ok(Policy {
        history: said.or(of_namespace).unwrap_or(default).max(own.flow.keep),
        keeps_claims: is_new(&own.flow) || live.is_some_and(|it| is_new(&it.flow)),
    })
}

/// The longest time that keys are kept.
const KEEP_MAX: Span = Span::from_const_secs(366 * 86_400);
