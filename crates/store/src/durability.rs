//! What a database must promise before it is written to: that it is a primary, and that it keeps what
//! it acknowledges.
//!
//! After a failover another server may answer at the same address. So every connection asks, in the
//! round trip that carries its settings, and a server that must not be written to answers with an
//! error of its own.

use tokio_postgres::{Error, SimpleQueryMessage};

/// The code of the error that a standby answers with.
pub(crate) const STANDBY: &str = "SM002";

/// The code of the error that a server answers with that may lose commits.
pub(crate) const UNSAFE: &str = "SM003";

/// Whether a server may be written to: what [`ASSERT_DURABLE`] asserts, at a tenth of its cost.
pub(crate) const IS_DURABLE: &str = "
    SELECT NOT pg_is_in_recovery()
           AND current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on'
           AND current_setting('synchronous_commit') IN ('on', 'remote_apply')";

/// Reads the answer to [`IS_DURABLE`].
pub(crate) fn is_shown(answers: &[SimpleQueryMessage]) -> bool {
    answers.iter().any(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
        SimpleQueryMessage::CommandComplete(_) | SimpleQueryMessage::RowDescription(_) | _ => false,
    })
}

/// Raises an error where a server must not be written to. The error names the setting, its value
/// and what to do.
pub(crate) const ASSERT_DURABLE: &str = "
    DO $durable$
    DECLARE
        rule record;
    BEGIN
        IF pg_is_in_recovery() THEN
            RAISE EXCEPTION 'the database is a standby: connect to the primary'
                USING ERRCODE = 'SM002', COLUMN = 'pg_is_in_recovery', DETAIL = 'true',
                      HINT = 'connect to the primary';
        END IF;
        FOR rule IN
            SELECT *
              FROM (VALUES ('fsync', '{on}'::text[], 'set it to on'),
                           ('full_page_writes', '{on}', 'set it to on'),
                           ('synchronous_commit', '{on,remote_apply}', 'set it to on or remote_apply'))
                AS rules (setting, allowed, fix)
        LOOP
            IF current_setting(rule.setting) <> ALL (rule.allowed) THEN
                RAISE EXCEPTION 'the database could lose what it acknowledged: % = %',
                                rule.setting, current_setting(rule.setting)
                    USING ERRCODE = 'SM003', COLUMN = rule.setting,
                          DETAIL = current_setting(rule.setting), HINT = rule.fix;
            END IF;
        END LOOP;
    END $durable$";

/// A setting with which a server must not be written to.
#[derive(Debug)]
pub(crate) struct Unsafe {
    pub(crate) setting: String,
    pub(crate) value: String,
    pub(crate) fix: String,
}

impl Unsafe {
    /// Reads the error that [`ASSERT_DURABLE`] raises; nothing if it is another.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        let raised = error.as_db_error()?;
        let text = |part: Option<&str>| part.unwrap_or_default().to_owned();
        [STANDBY, UNSAFE]
            .contains(&raised.code().code())
            .then(|| Self {
                setting: text(raised.column()),
                value: text(raised.detail()),
                fix: text(raised.hint()),
            })
    }
}
