//! PostgreSQL: every statement, every migration, the clock.
//!
//! No other crate speaks SQL. One module per table that matters, each the only one to name its
//! table in a write; [`journal`] is where a run's transition is made and therefore writes to
//! several in one transaction. Hot paths ([`claims`], [`journal`], [`waits`]) take many rows at
//! once through a [`writer`]: while one commit is in flight the next batch gathers.
//!
//! Code that locks several rows locks them in one order, so that there are no deadlocks: rows of
//! `queue` by their run's identity, whatever becomes of them (runs that continue, runs that end,
//! runs that are woken); after them `waits`, `tasks`, `approvals` and `child_runs`; after those the
//! entries of `kv` and `locks` together, by slot, namespace and name. A row of `named_effects` is
//! locked before its waiters, in a transaction that locks nothing else. Code that cannot keep an order
//! takes only rows that are not locked (`SKIP LOCKED`).
//!
//! A hot statement finds rows by their identity, whatever the statistics say. So where it names
//! rows and says more of them, it says so in words that fit no index: `holder IS NOT DISTINCT FROM`
//! for equality, `num_nulls(holder) = 1` for null. A test looks at the plans.
//!
//! A function says by the type of its first argument which rows it touches: those of one slot
//! ([`SlotCell`]), control data ([`HomeCell`]), those of all slots ([`EveryCell`]), or what belongs to
//! one database ([`Cell`]). See [`cell`].

pub mod alerts;
pub mod approvals;
pub mod archives;
pub mod attention;
pub mod audit;
pub mod broadcasts;
pub mod cell;
pub mod child_runs;
pub mod claims;
pub mod clock;
mod column_text;
pub mod commands;
pub mod connections;
pub mod duplicates;
mod durability;
pub mod duties;
pub mod effects;
pub mod event_waits;
pub mod flows;
pub mod gate_exits;
pub mod gates;
pub mod group_roles;
pub mod health;
pub mod invariants;
pub mod journal;
pub mod kept_generations;
pub mod key_audit;
pub mod key_presence;
pub mod key_story;
pub mod kv;
pub mod late_responses;
pub mod listed;
pub mod llm_answers;
mod locks;
pub mod marks;
pub mod migrate;
pub mod named_effects;
pub mod namespaces;
pub mod object_versions;
pub mod outbox;
pub mod overview;
pub mod partitions;
pub mod pauses;
pub mod people;
pub mod pool;
pub mod queue;
pub mod reconcile_passes;
pub mod refused_deliveries;
pub mod rehearsals;
pub mod replay_plans;
pub mod resources;
pub mod retention;
pub mod run_jobs;
pub mod runs;
pub mod schedules;
pub mod searches;
pub mod secrets;
pub mod seen_bodies;
pub mod sessions;
pub mod sign_ins;
pub mod subscriptions;
pub mod tallies;
pub mod tasks;
mod token_limits;
pub mod tokens;
pub mod turns;
pub mod waits;
mod wakes;
pub mod webhook_deliveries;
pub mod writer;

pub use cell::{
    Cell, CellOptions, ConnectError, EveryCell, HomeCell, OneCell, ReadError, SlotCell,
};
pub use migrate::{MigrateError, migrate};

/// The settings of the sessions that write, for the test that looks at their plans.
pub fn writer_session() -> &'static str {
    cell::WRITER_SESSION
}

/// The settings of the sessions that list for requests, for the test that looks at their plans.
pub fn list_session() -> &'static str {
    cell::LIST_SESSION
}

/// The statements of lists that grow with the number of runs, by module, for the same test.
pub fn list_statements() -> Vec<(&'static str, &'static str)> {
    let modules: [(&'static str, &[&'static str]); 9] = [
        ("approvals", approvals::VIEWS),
        ("duplicates", duplicates::LISTS),
        ("effects", effects::LISTS),
        ("key_story", key_story::STATEMENTS),
        ("named_effects", named_effects::LISTS),
        ("overview", overview::STATEMENTS),
        ("runs", runs::LISTS),
        ("tasks", tasks::VIEWS),
        ("waits", waits::LISTS),
    ];
    modules
        .into_iter()
        .flat_map(|(module, texts)| texts.iter().map(move |text| (module, *text)))
        .collect()
}

/// Every statement that the store prepares, by module, for the test that prepares them all.
pub fn statements() -> Vec<(&'static str, &'static str)> {
    let modules: Vec<(&'static str, &[&'static str])> = vec![
        ("alerts", alerts::STATEMENTS),
        ("alerts", alerts::SETTINGS),
        ("alerts", alerts::GROUPS),
        ("alerts", alerts::MESSAGES),
        ("alerts", alerts::BURSTS),
        ("alerts", alerts::VIEWS),
        ("approvals", approvals::STATEMENTS),
        ("approvals", approvals::VIEWS),
        ("archives", archives::STATEMENTS),
        ("attention", attention::STATEMENTS),
        ("attention", attention::ATTENDED),
        ("named_effects", attention::named::STATEMENTS),
        ("audit", audit::STATEMENTS),
        ("broadcasts", broadcasts::STATEMENTS),
        ("claims", claims::STATEMENTS),
        ("clock", clock::STATEMENTS),
        ("commands", commands::STATEMENTS),
        ("connections", connections::STATEMENTS),
        ("gate_exits", gate_exits::STATEMENTS),
        ("duplicates", duplicates::STATEMENTS),
        ("duplicates", duplicates::LISTS),
        ("duties", duties::STATEMENTS),
        ("effects", effects::STATEMENTS),
        ("effects", effects::LISTS),
        ("late_responses", late_responses::STATEMENTS),
        ("flows", flows::STATEMENTS),
        ("flows", flows::PROMOTION),
        ("flows", flows::VIEWS),
        ("gates", gates::STATEMENTS),
        ("group_roles", group_roles::STATEMENTS),
        ("health", health::STATEMENTS),
        ("invariants", invariants::STATEMENTS),
        ("journal", journal::STATEMENTS),
        ("kept_generations", kept_generations::STATEMENTS),
        ("key_story", key_story::STATEMENTS),
        ("kv", kv::STATEMENTS),
        ("kv", kv::VIEWS),
        ("locks", locks::STATEMENTS),
        ("marks", marks::STATEMENTS),
        ("namespaces", namespaces::STATEMENTS),
        ("named_effects", named_effects::STATEMENTS),
        ("named_effects", named_effects::HOLDS),
        ("named_effects", named_effects::NOTICES),
        ("named_effects", named_effects::OPERATOR),
        ("named_effects", named_effects::REPORTS),
        ("named_effects", named_effects::REUSES),
        ("named_effects", named_effects::UNDO),
        ("named_effects", named_effects::NOTES),
        ("named_effects", named_effects::UPKEEP),
        ("named_effects", named_effects::VIEWS),
        ("named_effects", named_effects::LISTS),
        ("named_effects", named_effects::WAITERS),
        ("outbox", outbox::STATEMENTS),
        ("outbox", outbox::LEASES),
        ("outbox", outbox::RECEIVERS),
        ("outbox", outbox::DEPTH),
        ("overview", overview::STATEMENTS),
        ("webhook_deliveries", webhook_deliveries::STATEMENTS),
        ("llm_answers", llm_answers::STATEMENTS),
        ("event_waits", event_waits::STATEMENTS),
        ("partitions", partitions::STATEMENTS),
        ("pauses", pauses::STATEMENTS),
        ("pauses", pauses::VIEWS),
        ("people", people::STATEMENTS),
        ("people", people::views::STATEMENTS),
        ("child_runs", child_runs::STATEMENTS),
        ("queue", queue::STATEMENTS),
        ("refused_deliveries", refused_deliveries::STATEMENTS),
        ("rehearsals", rehearsals::STATEMENTS),
        ("rehearsals", rehearsals::CONTENTS),
        ("rehearsals", rehearsals::OBSERVATIONS),
        ("rehearsals", rehearsals::RECORDS),
        ("replay_plans", replay_plans::STATEMENTS),
        ("replay_plans", replay_plans::VIEWS),
        ("replay_plans", replay_plans::CANDIDATES),
        ("resources", resources::STATEMENTS),
        ("retention", retention::STATEMENTS),
        ("retention", retention::RUNS),
        ("retention", retention::JUDGED),
        ("retention", retention::ARCHIVED),
        ("retention", retention::CLAIMS),
        ("retention", retention::ERASE),
        ("run_jobs", run_jobs::STATEMENTS),
        ("runs", runs::STATEMENTS),
        ("runs", runs::LISTS),
        ("reconcile_passes", reconcile_passes::STATEMENTS),
        ("schedules", schedules::STATEMENTS),
        ("searches", searches::STATEMENTS),
        ("secrets", secrets::STATEMENTS),
        ("seen_bodies", seen_bodies::STATEMENTS),
        ("sessions", sessions::STATEMENTS),
        ("sign_ins", sign_ins::STATEMENTS),
        ("subscriptions", subscriptions::STATEMENTS),
        ("tallies", tallies::STATEMENTS),
        ("tasks", tasks::STATEMENTS),
        ("tasks", tasks::ANSWERS),
        ("tasks", tasks::VIEWS),
        ("tokens", tokens::STATEMENTS),
        ("tokens", tokens::derived::STATEMENTS),
        ("tokens", tokens::made::STATEMENTS),
        ("tokens", tokens::shown::STATEMENTS),
        ("key_audit", key_audit::STATEMENTS),
        ("key_presence", key_presence::STATEMENTS),
        ("object_versions", object_versions::STATEMENTS),
        ("waits", waits::STATEMENTS),
        ("waits", waits::LISTS),
    ];
    let shapes = journal::statement::examples();
    modules
        .into_iter()
        .flat_map(|(module, texts)| texts.iter().map(move |text| (module, *text)))
        .chain(shapes.into_iter().map(|text| ("journal", text)))
        .chain(claims::examples().into_iter().map(|text| ("claims", text)))
        .collect()
}
