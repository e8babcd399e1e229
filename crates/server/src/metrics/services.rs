//! Background services: their counts, and how long ago each was done.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter as ClassicCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge as ClassicGauge;
use prometheus_client::registry::Registry;
use semel_engine::metrics::{Metrics, NamedCounters};
use semel_engine::{ServiceView, Timeliness};

/// The label that says which service is meant.
type OfService = [(&'static str, &'static str); 1];

/// Counts of the passes of this server; and when each service was last done, duties by any server.
pub(super) fn register(registry: &mut Registry, metrics: &Metrics, services: &[ServiceView]) {
    let counters: [(&str, &str, &NamedCounters); 3] = [
        (
            "service_passes",
            "Passes of background services that were finished on this server",
            &metrics.service_passes,
        ),
        (
            "service_failures",
            "Passes of background services that failed",
            &metrics.service_failures,
        ),
        (
            "service_panics",
            "Passes of background services that panicked, each of which began its service anew",
            &metrics.service_panics,
        ),
    ];
    for (name, help, counts) in counters {
        let family = Family::<OfService, ClassicCounter>::default();
        for (service, count) in counts.list() {
            family.get_or_create(&[("service", service)]).inc_by(count);
        }
        registry.register(name, help, family);
    }
    let silent = Family::<OfService, ClassicGauge<f64, AtomicU64>>::default();
    let late = Family::<OfService, ClassicGauge>::default();
    for service in services {
        let label = [("service", service.name)];
        let is_late = service.timeliness == Timeliness::Late;
        silent
            .get_or_create(&label)
            .set(service.silent.as_secs_f64());
        late.get_or_create(&label).set(i64::from(is_late));
    }
    registry.register(
        "service_finished_seconds",
        "How long ago a background service last finished a pass: of duties on any server, of others on this one",
        silent,
    );
    registry.register(
        "service_late",
        "Whether a background service has finished no pass for too long",
        late,
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn each_service_says_how_long_ago_it_was_done_and_whether_that_is_too_long() {
        let view = |name, timeliness, secs| ServiceView {
            name,
            is_duty: true,
            is_held_here: false,
            timeliness,
            silent: Duration::from_secs(secs),
            late_after: Duration::from_secs(90),
            finished_by: None,
            covered_by: None,
            failure: None,
            is_failing: false,
        };
        let metrics = Metrics::default();
        metrics.service_failures.add_one("retention");
        metrics.service_panics.add_one("retention");
        let services = [
            view("retention", Timeliness::Late, 120),
            view("alerts", Timeliness::Covered, 2),
        ];
        let mut registry = Registry::with_prefix("semel");

        register(&mut registry, &metrics, &services);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();

        for line in [
            "semel_service_failures_total{service=\"retention\"} 1",
            "semel_service_panics_total{service=\"retention\"} 1",
            "semel_service_finished_seconds{service=\"retention\"} 120.0",
            "semel_service_late{service=\"retention\"} 1",
            "semel_service_late{service=\"alerts\"} 0",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}
