//! The `locks` table: named locks with leases and fencing tokens.
//!
//! A lock is taken in the commit of the step that takes it. It is free when it was dropped or its
//! lease ran out. The next holder gets a higher token, so that a destination that keeps the highest
//! one it saw can refuse a late holder.

use jiff::Timestamp;
use semel_model::Fault;
use serde_json::{Value, json};
use tokio_postgres::Row;

/// Taken again by its holder in time, it keeps its token and is held for longer.
pub(crate) const TAKE: &str = "
    INSERT INTO locks (slot, namespace_id, name, holder, until)
    VALUES ($1, $2, $3, $4, moment() + make_interval(secs => $5))
        ON CONFLICT (slot, namespace_id, name) DO UPDATE
       SET token = CASE WHEN locks.holder = $4 AND locks.until > moment() THEN locks.token
                        ELSE locks.token + 1 END,
           holder = EXCLUDED.holder, until = EXCLUDED.until
     WHERE locks.holder IS NULL OR locks.holder = $4 OR locks.until <= moment()
 RETURNING token, until";

pub(crate) const RELEASE: &str = "
    UPDATE locks SET holder = NULL, until = NULL
     WHERE slot = $1 AND namespace_id = $2 AND name = $3 AND holder = $4
 RETURNING 1";

pub(crate) const STATEMENTS: &[&str] = &[TAKE, RELEASE];

/// A lock that was taken, as the step's result.
pub(crate) fn describe(row: &Row) -> Value {
    let (token, until): (i64, Timestamp) = (row.get(0), row.get(1));
    json!({ "token": token, "until": until.to_string() })
}

/// Another run has the lock.
pub(crate) fn held(name: &str) -> Fault {
    Fault::passing("lock-held", format!("another run has the lock {name}"))
}
