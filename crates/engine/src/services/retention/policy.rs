//! How long the runs of a release are kept.

use std::collections::BTreeMap;

use semel_flow::Step;
use semel_model::Span;
use semel_store::ReadError;
use semel_store::kept_generations::KeyMemory;
use semel_store::retention::ClaimRule;

use crate::catalogue::Release;
use crate::key_memory::key_memory;
use crate::runtime::Runtime;

/// What holds for the runs of a release.
pub(super) struct Policy {
    pub(super) history: Span,
    pub(super) claims: ClaimRule,
}

/// What the live release of the flow says, for the runs of all of its releases, or else what the namespace or the server
/// says; never shorter than the run's own release keeps its keys. A release that cannot be read keeps everything that it might need.
/// `releases` are those that runs are on: a key may have runs on any of its flow's.
pub(super) async fn policy_of(
    runtime: &Runtime,
    release: i32,
    releases: &[i32],
) -> Result<Policy, ReadError> {
    let default = runtime.options.history;
    let Some(own) = runtime.catalogue.get(release).await? else {
        return Ok(Policy {
            history: default.max(KEEP_MAX),
            claims: ClaimRule {
                counts: true,
                memories: BTreeMap::new(),
            },
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
        claims: ClaimRule {
            counts: is_new(&own.flow) || live.as_ref().is_some_and(|it| is_new(&it.flow)),
            memories: memories(runtime, &own, live.as_deref(), releases).await?,
        },
    })
}

/// How long destinations remember the keys of runs, by the release: what that says, or the live one where it says longer.
async fn memories(
    runtime: &Runtime,
    own: &Release,
    live: Option<&Release>,
    releases: &[i32],
) -> Result<BTreeMap<i32, KeyMemory>, ReadError> {
    let of_live = live.map(|live| longest_memory(runtime, live));
    let mut memories = BTreeMap::new();
    for id in releases {
        // One that cannot be read is not named.
        let Some(release) = runtime.catalogue.get(*id).await? else {
            continue;
        };
        if release.namespace_id == own.namespace_id && release.flow.name == own.flow.name {
            let memory = longest_memory(runtime, &release);
            memories.insert(*id, of_live.map_or(memory, |live| live.max(memory)));
        }
    }
    Ok(memories)
}

/// The longest that a destination of a release's steps remembers a key, by what it and the connections say now.
fn longest_memory(runtime: &Runtime, release: &Release) -> KeyMemory {
    let destinations = runtime.destinations(release);
    let of_step = |step: &Step| {
        let connection = step.connection();
        key_memory(
            step,
            connection.and_then(|name| destinations.connection(name)),
        )
    };
    let memories = release.flow.steps.iter().filter_map(of_step);
    let nothing = KeyMemory::For(Span::from_const_secs(0));
    memories.max().unwrap_or(nothing)
}

/// The longest time that keys are kept.
const KEEP_MAX: Span = Span::from_const_secs(366 * 86_400);
