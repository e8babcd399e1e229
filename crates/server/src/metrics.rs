//! `/metrics`: what the server, the engine and the queue count, for Prometheus.
//!
//! On the public listener it needs a token with the right `instance`, because it reveals how busy all
//! namespaces are and the names of their flows; on the admin listener it needs none. Either way it does not
//! query the database.

mod services;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::{ConstCounter, Counter as ClassicCounter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use semel_engine::metrics::{Counter, Metrics};
use semel_store::outbox::OutboxDepth;

use crate::app::App;
use crate::error::ApiError;
use crate::pulse::Counted;

/// Upper bounds of the hooks' histogram, in seconds.
const HOOK_BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// For how long deliveries to hooks take.
pub(crate) fn hook_histogram() -> Histogram {
    Histogram::new(HOOK_BUCKETS)
}

/// `GET /metrics`.
pub(crate) async fn show(State(app): State<App>) -> Result<Response, ApiError> {
    let counted = app.pulse.counted();
    let mut registry = Registry::with_prefix("semel");
    registry.register(
        "hook_seconds",
        "How long deliveries to hooks take",
        app.hook_seconds.clone(),
    );
    register_engine(&mut registry, app.engine.metrics());
    services::register(
        &mut registry,
        app.engine.metrics(),
        &app.engine.list_services(),
    );
    register_auth_failures(&mut registry, app.engine.count_auth_failures());
    registry.register(
        "token_network_refusals",
        "Uses of tokens from outside their networks",
        app.outside.counter(),
    );
    registry.register(
        "token_auth_failures",
        "Requests whose token was missing or did not work, by reason",
        app.auth_failures.counts(),
    );
    let streams = i64::try_from(app.live.count_streams()).unwrap_or(i64::MAX);
    registry.register(
        "console_streams",
        "Browsers that follow pages of the console",
        ConstGauge::new(streams),
    );
    registry.register(
        "console_looks",
        "Looks at the database for whether a page of the console changed",
        ConstCounter::new(app.live.count_looks()),
    );
    register_counted(
        &mut registry,
        app.pulse.database_answers(),
        counted.as_ref(),
    );
    let mut text = String::new();
    if encode(&mut text, &registry).is_err() {
        return Err(ApiError::internal("metrics that cannot be written"));
    }
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text).into_response())
}

/// Deliveries whose signature or token did not verify, by the flow that they were for.
fn register_auth_failures(registry: &mut Registry, counts: Vec<(String, String, u64)>) {
    let family = Family::<Vec<(&str, String)>, ClassicCounter>::default();
    for (namespace, flow, count) in counts {
        let labels = vec![("namespace", namespace), ("flow", flow)];
        family.get_or_create(&labels).inc_by(count);
    }
    let help = "Deliveries whose signature or token did not verify";
    registry.register("auth_failures", help, family);
}

/// While the database does not answer, its numbers are left out: none is better than a wrong one.
fn register_counted(registry: &mut Registry, there: bool, counted: Option<&Counted>) {
    let mut gauge = |name: &str, help: &str, value: i64| {
        registry.register(name, help, ConstGauge::new(value));
    };
    gauge(
        "database_up",
        "Whether the database answers",
        i64::from(there),
    );
    if let Some(counted) = counted {
        let depth = &counted.depth;
        gauge("runs_held", "Runs that workers hold", depth.held);
        gauge(
            "runs_due",
            "Runs that wait for a worker, 10000 at most",
            depth.due,
        );
        gauge(
            "effects_in_doubt",
            "Effects in doubt now, 10000 at most",
            counted.doubts,
        );
        registry.register(
            "runs_due_oldest_seconds",
            "For how long the first waiting run has been due",
            ConstGauge::new(depth.oldest_secs),
        );
        register_outbox(registry, &counted.outbox);
    }
}

fn register_outbox(registry: &mut Registry, outbox: &OutboxDepth) {
    registry.register(
        "outbox_oldest_seconds",
        "Age of the oldest event or call that is not dispatched",
        ConstGauge::new(outbox.oldest_secs),
    );
    for (name, help, count) in [
        (
            "outbox_unread",
            "Events left for a newer version, or with waits of runs that cannot be read, 10000 at most",
            outbox.unread,
        ),
        (
            "outbox_unreadable",
            "Events that no version can read, 10000 at most",
            outbox.unreadable,
        ),
    ] {
        registry.register(name, help, ConstGauge::new(count));
    }
}

fn register_engine(registry: &mut Registry, metrics: &Metrics) {
    let counters: [(&str, &str, &Counter); 45] = [
        ("accepted", "Deliveries that made a run", &metrics.accepted),
        (
            "duplicates",
            "Deliveries that were repeats",
            &metrics.duplicates,
        ),
        (
            "mismatches",
            "Known keys with another payload",
            &metrics.mismatches,
        ),
        (
            "replays",
            "Signed bodies under another key",
            &metrics.replays,
        ),
        (
            "refused",
            "Deliveries refused because their key could not be computed or their input does not fit",
            &metrics.refused,
        ),
        (
            "backlog_refused",
            "Deliveries refused because too many runs of their namespace wait",
            &metrics.backlog_refused,
        ),
        (
            "ignored",
            "Deliveries that a trigger's `when` ignored",
            &metrics.ignored,
        ),
        (
            "stale",
            "Deliveries older than what was accepted",
            &metrics.stale,
        ),
        (
            "callbacks",
            "Callbacks that resumed a run",
            &metrics.callbacks,
        ),
        (
            "callback_repeats",
            "Callbacks that came again",
            &metrics.callback_repeats,
        ),
        ("runs_taken", "Runs taken from the queue", &metrics.taken),
        (
            "runs_put_back",
            "Runs taken and returned to the queue because there was no place or memory for them",
            &metrics.runs_put_back,
        ),
        (
            "runs_without_memory",
            "Runs that began although there was no memory for them",
            &metrics.runs_without_memory,
        ),
        (
            "runs_recovered",
            "Runs returned to the queue from dead sessions, or held by a session without a turn",
            &metrics.recovered,
        ),
        (
            "wakes_repaired",
            "Runs that slept although what they waited for was recorded, made due again",
            &metrics.wakes_repaired,
        ),
        (
            "fenced",
            "Writes that a lost lease refused",
            &metrics.fenced,
        ),
        (
            "writes_refused",
            "Writes whose values the database refused",
            &metrics.writes_refused,
        ),
        (
            "runs_unreadable",
            "Takes of runs that could not be read",
            &metrics.runs_unreadable,
        ),
        (
            "journals_inconsistent",
            "Runs whose journal or next event does not fit their state",
            &metrics.journals_inconsistent,
        ),
        ("transitions", "Transitions committed", &metrics.transitions),
        (
            "runs_succeeded",
            "Runs that succeeded",
            &metrics.runs_succeeded,
        ),
        ("runs_failed", "Runs that failed", &metrics.runs_failed),
        (
            "runs_cancelled",
            "Runs that were cancelled",
            &metrics.runs_cancelled,
        ),
        (
            "runs_superseded",
            "Runs that ended because another run of their object took their place",
            &metrics.runs_superseded,
        ),
        (
            "runs_stopped",
            "Runs that stopped until an operator acts",
            &metrics.runs_stopped,
        ),
        (
            "effects_done",
            "Effects that happened",
            &metrics.effects_done,
        ),
        (
            "effects_failed",
            "Attempts that did not happen",
            &metrics.effects_failed,
        ),
        (
            "effects_doubted",
            "Attempts that ended in doubt",
            &metrics.effects_doubted,
        ),
        (
            "effects_reused",
            "Effects that an earlier run of the key had performed: their results were reused",
            &metrics.effects_reused,
        ),
        (
            "keys_forgotten",
            "Keys that expired",
            &metrics.keys_forgotten,
        ),
        (
            "audit_removed",
            "Acts of the audit record that were removed as past their time",
            &metrics.audit_removed,
        ),
        (
            "runs_deleted",
            "Runs that were deleted because they were past their history",
            &metrics.runs_deleted,
        ),
        (
            "runs_archived",
            "Runs that were archived before they were deleted",
            &metrics.runs_archived,
        ),
        (
            "archive_failures",
            "Files that could not be written to the archive or removed from it",
            &metrics.archive_failures,
        ),
        (
            "ticks_fired",
            "Instants of schedules that have their run",
            &metrics.ticks_fired,
        ),
        (
            "ticks_skipped",
            "Instants of schedules that started nothing",
            &metrics.ticks_skipped,
        ),
        (
            "events_dispatched",
            "Events that left the outbox",
            &metrics.events_dispatched,
        ),
        (
            "events_unread",
            "Tries of events that met something which could not be read",
            &metrics.events_unread,
        ),
        (
            "deliveries_made",
            "Deliveries of events that a webhook took",
            &metrics.deliveries_made,
        ),
        (
            "deliveries_failed",
            "Deliveries of events that Semel stopped retrying",
            &metrics.deliveries_failed,
        ),
        (
            "once_begun",
            "Effects of scripts that were begun",
            &metrics.once_begun,
        ),
        (
            "once_repeats",
            "Effects of scripts that were done before",
            &metrics.once_repeats,
        ),
        (
            "once_lapsed",
            "Scripts that were lost",
            &metrics.once_lapsed,
        ),
        (
            "alerts_sent",
            "Messages about alerts that were delivered",
            &metrics.alerts_sent,
        ),
        (
            "alerts_undelivered",
            "Messages about alerts that failed or are in doubt",
            &metrics.alerts_undelivered,
        ),
    ];
    for (name, help, counter) in counters {
        registry.register(name, help, ConstCounter::new(counter.get()));
    }
    let failing = i64::try_from(metrics.alerts_failing.get()).unwrap_or(i64::MAX);
    registry.register(
        "alerts_failing",
        "Namespaces whose alerts do not arrive",
        ConstGauge::new(failing),
    );
    let missing = i64::try_from(metrics.partitions_missing.get()).unwrap_or(i64::MAX);
    registry.register(
        "partitions_missing",
        "Partitions of this month and the next that could not be created yet",
        ConstGauge::new(missing),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unavailable_database_leaves_its_metrics_out() {
        let mut registry = Registry::with_prefix("semel");
        let metrics = Metrics::default();
        register_engine(&mut registry, &metrics);
        register_counted(&mut registry, false, None);

        let mut text = String::new();
        encode(&mut text, &registry).unwrap();

        assert!(text.contains("semel_database_up 0"), "{text}");
        assert!(text.contains("semel_accepted_total 0"), "{text}");
        assert!(!text.contains("effects_in_doubt"), "{text}");
    }
}
