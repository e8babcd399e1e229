//! The database: reachable, durable, migrated, on time, and not held back.

use semel_store::audit::guard;
use semel_store::health::{self, Health};
use semel_store::tokens::derived;
use semel_store::{Cell, migrate};

use super::Line;
use crate::answer::chain;
use crate::commands::serve::{Database, keys};
use crate::config::Key;
use crate::context::Context;
use crate::text::{self, printable};

/// A snapshot older than this keeps PostgreSQL from cleaning up, in seconds.
const SNAPSHOT_SECS_MAX: f64 = 60.0;

/// Clocks further apart than this are worth a look, in milliseconds.
const SKEW_MS_MAX: i64 = 2_000;

/// How many tokens that may have been derived are named.
const DERIVED_SHOWN_MAX: i64 = 20;

/// The oldest PostgreSQL that is supported.
const VERSION_MIN: i32 = 15;

pub(super) async fn look(ctx: &Context, database: &Database) -> Vec<Line> {
    if database.is_missing(ctx) {
        let env = Key::Database.env();
        let found = format!("{env} is not set; only serve and migrate need it");
        return vec![Line::ok("database", found)];
    }
    let cell = match database.connect(ctx).await {
        Ok(cell) => cell,
        Err(problem) => {
            let mend = "correct DATABASE_URL, start PostgreSQL, or fix the setting that it names";
            return vec![Line::fail("database", problem.message(), mend)];
        }
    };
    let mut lines = vec![Line::ok("database", "reachable, with durable commits")];
    lines.push(migrations(&cell).await);
    lines.push(vault(ctx, &cell).await);
    lines.push(derived_tokens(&cell).await);
    lines.push(record(&cell).await);
    match health::read(&cell).await {
        Ok(health) => lines.extend([
            version(&health),
            clock(&health),
            snapshots(&health),
            rehearsals(&health),
        ]),
        Err(error) => {
            let mend = "the role needs to read pg_stat_activity";
            lines.push(Line::fail("database", chain(&error), mend));
        }
    }
    lines
}

async fn migrations(cell: &Cell) -> Line {
    match migrate::list_pending(cell).await {
        Ok(pending) if pending.is_empty() => Line::ok("migrations", "up to date"),
        Ok(pending) => Line::fail(
            "migrations",
            format!("missing: {}", pending.join(", ")),
            "semel migrate",
        ),
        Err(error) => Line::fail("migrations", chain(&error), "semel migrate"),
    }
}

/// Whether the given keys decrypt the data keys.
async fn vault(ctx: &Context, cell: &Cell) -> Line {
    let Ok(secret) = keys::secret(ctx, None) else {
        return Line::ok("vault", "not checked: no secret key is set here");
    };
    let masters = match keys::masters(ctx, None, &secret) {
        Ok(masters) => masters,
        Err(problem) => return Line::fail("vault", problem.message(), "fix SEMEL_MASTER_KEYS"),
    };
    match masters.report(cell.home()).await {
        Ok(report) if !report.locked.is_empty() => Line::fail(
            "vault",
            format!(
                "{} data keys cannot be decrypted; encrypted with {}",
                report.locked.len(),
                report.locked.join(", ")
            ),
            "add the former master key behind the current one in SEMEL_MASTER_KEYS",
        ),
        Ok(report) if report.former > 0 => Line::warn(
            "vault",
            format!("{} data keys need a former master key", report.former),
            "semel secret rotate, in each namespace",
        ),
        Ok(report) => Line::ok(
            "vault",
            format!("{} data keys can be decrypted", report.current),
        ),
        Err(error) => Line::fail("vault", chain(&error), "semel migrate"),
    }
}

/// Which tokens may be computed by who has the secret key, or had a former one.
async fn derived_tokens(cell: &Cell) -> Line {
    let (found, count) = match derived::list(cell.home(), DERIVED_SHOWN_MAX).await {
        Ok(found) => found,
        Err(error) => return Line::fail("tokens", chain(&error), "semel migrate"),
    };
    if found.is_empty() {
        return Line::ok("tokens", "none was derived from the secret key");
    }
    let named = found.iter().map(|token| {
        let (name, namespace) = (printable(&token.name), &token.namespace);
        format!("{name} ({}, {namespace})", token.id)
    });
    let mut named = named.collect::<Vec<_>>().join(", ");
    let more = count.saturating_sub(found.len() as u64);
    if more > 0 {
        named = format!("{named} and {more} more");
    }
    Line::warn(
        "tokens",
        format!("{count} may have been derived from the secret key: {named}"),
        "create others, then semel token revoke --derived --database URL",
    )
}

/// Whether the audit record is guarded against the role that this looks with, which is the server's.
async fn record(cell: &Cell) -> Line {
    match guard::can_rewrite_record(cell).await {
        Ok(false) => Line::ok("audit", "the record belongs to another role than this one"),
        Ok(true) => Line::warn(
            "audit",
            "the database role that Semel uses could rewrite the audit record, or stop its sealing",
            "run packaging/audit-owner.sql, again where an earlier one was run; or keep exports elsewhere",
        ),
        Err(error) => Line::warn("audit", chain(&error), "semel migrate"),
    }
}

fn version(health: &Health) -> Line {
    let found = format!("PostgreSQL {}", health.version);
    if health.version_number / 10_000 < VERSION_MIN {
        Line::fail("postgresql", found, format!("use {VERSION_MIN} or later"))
    } else {
        Line::ok("postgresql", found)
    }
}

fn clock(health: &Health) -> Line {
    let skew = health.now.as_millisecond() - text::now().as_millisecond();
    let found = format!("the database is {skew} ms from this machine");
    if skew.abs() > SKEW_MS_MAX {
        Line::warn(
            "clock",
            found,
            "synchronise both clocks with NTP; Semel uses the database's",
        )
    } else {
        Line::ok("clock", found)
    }
}

fn snapshots(health: &Health) -> Line {
    match &health.oldest {
        Some(oldest) if oldest.age_secs > SNAPSHOT_SECS_MAX => Line::warn(
            "snapshots",
            format!(
                "process {} ({}) has had a transaction open for {:.0} s",
                oldest.pid, oldest.application, oldest.age_secs
            ),
            "end that transaction: while it is open, tables grow and taking work slows down",
        ),
        Some(_) | None => Line::ok("snapshots", "none is open for long"),
    }
}

/// Whether releases can be rehearsed, which is needed to promote them.
fn rehearsals(health: &Health) -> Line {
    match health.creates_schemas {
        true => Line::ok("rehearsals", "the role may create schemas for them"),
        false => Line::fail(
            "rehearsals",
            "the role may not create schemas, so no release can be rehearsed",
            "GRANT CREATE ON DATABASE … TO …",
        ),
    }
}
