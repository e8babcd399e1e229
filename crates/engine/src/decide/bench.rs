//! What attempts are judged by.

use semel_flow::Step;
use semel_model::Guard;
use semel_model::connection::{Connection, KEY_REFUSALS};

use super::Sight;
use crate::fold::Standing;
use crate::settle::Bench;

/// What the current attempt is judged by.
pub fn bench<'a>(sight: &Sight<'a>, step: &'a Step, standing: &Standing) -> Bench<'a> {
    let name = standing.call.connection();
    let connection = name.and_then(|name| sight.linked.connection(name));
    Bench {
        step,
        window: standing.window,
        held_back: standing.held_back,
        since: standing.since,
        landed_by: sight.landing.over(standing, connection, sight.now),
        final_refusals: connection.map_or(KEY_REFUSALS, Connection::final_refusals),
        now: sight.now,
        chance: sight.chance,
    }
}

/// Whether the destination may have forgotten the key by now: a repeat could be a first request.
pub(super) fn is_forgotten(sight: &Sight<'_>, step: &Step, standing: &Standing) -> bool {
    standing.entry.guard() == Guard::Key
        && !bench(sight, step, standing).key_is_remembered(sight.now)
}
