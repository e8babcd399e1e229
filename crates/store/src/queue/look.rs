//! The look: what a server without work asks for, in one statement.

use std::time::Duration;

use jiff::Timestamp;
use semel_model::SessionId;
use tokio_postgres::Error;
use uuid::Uuid;

use super::Taker;
use super::fair::first_runs;

/// One statement for all that a server has to know of the others, because each server makes it twice a
/// second, work or not. Sessions are few.
pub(super) const LOOK: &str = concat!(
    first_runs!(""),
    ",
    present AS MATERIALIZED (
        SELECT clock_timestamp() + time_offset AS now, pause_version FROM clock)
    SELECT p.now, p.pause_version, c.version,
           ARRAY(SELECT s.id
                   FROM sessions s
                  WHERE s.lost_at IS NULL AND s.leaving_at IS NULL AND s.expires_at > p.now),
           (SELECT extract(epoch FROM min(f.due_at) - p.now)::float8
              FROM firsts f
             WHERE f.due_at < 'infinity'),
           ARRAY(SELECT n.id FROM namespaces n ORDER BY n.id LIMIT 2),
           (SELECT count(*) FROM sessions s WHERE s.lost_at IS NULL AND s.expires_at > p.now)
      FROM present p, config_version c"
);

/// What a server without work has to know.
#[derive(Clone, Debug)]
pub struct Look {
    /// The database's time.
    pub now: Timestamp,
    /// The version of what operators paused.
    pub pause_version: i64,
    /// The version of the configuration.
    pub config_version: i64,
    /// The sessions that are live and do not stop.
    pub sessions: Vec<SessionId>,
    /// How long until a run is due that no session holds, where one is known.
    pub next_due: Option<Duration>,
    /// Whether there is more than one namespace.
    pub has_several_namespaces: bool,
    /// How many sessions are live, those that stop included.
    pub servers: usize,
}

impl Taker {
    /// Looks whether there is work, and what has changed.
    pub async fn look(&mut self) -> Result<Look, Error> {
        let ready = self.connection.prepare(&[LOOK]).await?;
        let row = ready.client.query_one(ready.statement(LOOK), &[]).await?;
        let sessions: Vec<Uuid> = row.get(3);
        let next_due: Option<f64> = row.get(4);
        let namespaces: Vec<i32> = row.get(5);
        self.only_namespace = match namespaces.as_slice() {
            [only] => Some(*only),
            _ => None,
        };
        Ok(Look {
            now: row.get(0),
            pause_version: row.get(1),
            config_version: row.get(2),
            sessions: sessions.into_iter().map(SessionId::from_uuid).collect(),
            next_due: next_due.map(|secs| Duration::from_secs_f64(secs.max(0.0))),
            has_several_namespaces: namespaces.len() > 1,
            servers: usize::try_from(row.get::<_, i64>(6)).unwrap_or_default(),
        })
    }
}
