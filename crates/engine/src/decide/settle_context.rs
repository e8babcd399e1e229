//! What attempts are judged by.

use semel_flow::Step;
use semel_model::Guard;
use semel_model::connection::{Connection, KEY_REFUSALS};

use super::DecideContext;
use crate::settle::SettleContext;
use crate::state::PendingEffect;

/// What the current attempt is judged by.
pub fn settle_context<'a>(
    context: &DecideContext<'a>,
    step: &'a Step,
    pending: &PendingEffect,
) -> SettleContext<'a> {
    let name = pending.request.connection();
    let connection = name.and_then(|name| context.destinations.connection(name));
    SettleContext {
        step,
        window: pending.window,
        held_back: pending.held_back,
        since: pending.since,
        deferred: pending.deferred,
        landed_by: context.landing.over(pending, connection, context.now),
        repeat_from: context.landing.repeat_from(pending),
        final_refusals: connection.map_or(KEY_REFUSALS, Connection::final_refusals),
        now: context.now,
        jitter: context.jitter,
    }
}

/// Whether the destination may have forgotten the key by now: a repeat could be a first request.
pub(super) fn is_forgotten(
    context: &DecideContext<'_>,
    step: &Step,
    pending: &PendingEffect,
) -> bool {
    pending.entry.guard() == Guard::Key
        && !settle_context(context, step, pending).key_is_remembered(context.now)
}
