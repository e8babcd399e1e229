//! What the database reports about itself, for health checks and `semel doctor`.

use jiff::Timestamp;
use semel_model::DatabaseIdentity;

use crate::cell::{Cell, ReadError};

const READ: &str = "
    SELECT current_setting('server_version'), current_setting('server_version_num')::int4,
           clock_timestamp(), has_database_privilege(current_database(), 'CREATE')";

/// The transaction that has kept its snapshot longest: while it is open, nothing that died since
/// can be cleaned away.
const OLDEST: &str = "
    SELECT pid, application_name, extract(epoch FROM clock_timestamp() - xact_start)::float8
      FROM pg_stat_activity
     WHERE backend_xmin IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
       AND backend_type = 'client backend'
     ORDER BY xact_start
     LIMIT 1";

/// The identity that the connections of flows are compared with, so that none leads here.
const IDENTITY: &str = "
    SELECT s.system_identifier, d.oid
      FROM pg_control_system() s, pg_database d
     WHERE d.datname = current_database()";

pub(crate) const STATEMENTS: &[&str] = &[READ, OLDEST, IDENTITY];

/// What the database says of itself.
#[derive(Clone, Debug)]
pub struct Health {
    /// Its version, as people write it.
    pub version: String,
    /// Its version as a number: 150004 is 15.4.
    pub version_number: i32,
    /// What its clock says.
    pub now: Timestamp,
    /// Whether this role may create schemas, which rehearsals need.
    pub creates_schemas: bool,
    /// The snapshot that has been open longest, its own aside.
    pub oldest: Option<Snapshot>,
}

/// A snapshot that some transaction holds.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The server process.
    pub pid: i32,
    /// What its client calls itself.
    pub application: String,
    /// How long it has been open.
    pub age_secs: f64,
}

/// Asks the database how it is.
pub async fn read(cell: &Cell) -> Result<Health, ReadError> {
    let client = cell.reader().await?;
    let row = client.query_one(READ, &[]).await?;
    let oldest = client.query_opt(OLDEST, &[]).await?;
    Ok(Health {
        version: row.get(0),
        version_number: row.get(1),
        now: row.get(2),
        creates_schemas: row.get(3),
        oldest: oldest.map(|row| Snapshot {
            pid: row.get(0),
            application: row.get(1),
            age_secs: row.get(2),
        }),
    })
}

/// Which database this is.
pub async fn read_identity(cell: &Cell) -> Result<DatabaseIdentity, ReadError> {
    let row = cell.reader().await?.query_one(IDENTITY, &[]).await?;
    Ok(DatabaseIdentity {
        system: row.get(0),
        database: row.get(1),
    })
}
