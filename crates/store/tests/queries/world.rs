//! A migrated database, and deliveries to put into it.

use std::time::Duration;

use anyhow::Result;
use semel_model::{ClaimId, DeliveryId, Fingerprint, Key, RunId, SessionId, Span, TriggerKind};
use semel_store::claims::Delivery;
use semel_store::{Cell, CellOptions, migrate};
use semel_testkit::{Connection, Database, Proxy, Server, until};
use uuid::Uuid;

/// A cell of its own.
pub(crate) struct World {
    pub(crate) cell: Cell,
    database: Database,
}

impl World {
    pub(crate) async fn start() -> Result<Self> {
        let database = Database::new(async |url| {
            let cell = Cell::connect(&url, CellOptions::default()).await?;
            migrate(&cell).await?;
            Ok(())
        })
        .await?;
        let cell = Cell::connect(&database.url(), CellOptions::default()).await?;
        Ok(Self { cell, database })
    }

    /// Another cell on the database, whose connections a proxy counts. It gives no write up.
    pub(crate) async fn counted(&self) -> Result<(Cell, Proxy)> {
        let proxy = Proxy::start(self.database.server().address()).await?;
        let url = Server::url_at(proxy.address(), self.database.name());
        let options = CellOptions {
            write_give_up: Duration::MAX,
            ..CellOptions::default()
        };
        Ok((Cell::connect(&url, options).await?, proxy))
    }

    /// A connection that has nothing to do with the cell's.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        self.database.connect().await
    }

    /// Changes a setting for sessions that begin from now on, and ends those that are there.
    pub(crate) async fn set_for_new_sessions(&self, name: &str, value: &str) -> Result<()> {
        // The one that asks may itself be read-only by default.
        let client = self.connect().await?;
        let database = self.database.name();
        client
            .batch_execute("SET default_transaction_read_only = off")
            .await?;
        client
            .batch_execute(&format!(
                r#"ALTER DATABASE "{database}" SET {name} = {value}"#
            ))
            .await?;
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                       WHERE datname = current_database() AND pid <> pg_backend_pid()";
        client.query(others, &[]).await?;
        Ok(())
    }

    /// How many connections of the cell there are.
    pub(crate) async fn count_connections(&self) -> Result<i64> {
        let client = self.connect().await?;
        let count = "SELECT count(*) FROM pg_stat_activity
                      WHERE datname = current_database() AND application_name = 'semel'";
        Ok(client.query_one(count, &[]).await?.get(0))
    }

    /// Waits until a statement waits for a lock.
    pub(crate) async fn until_waiting_for_a_lock(&self) -> Result<()> {
        let client = self.connect().await?;
        let waiting = "SELECT count(*) FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let look =
            async || -> Result<i64> { Ok(client.query_one(waiting, &[]).await?.get::<_, i64>(0)) };
        until("a statement that waits for a lock", look, |count| {
            *count > 0
        })
        .await?;
        Ok(())
    }

    /// Ends a run, as its last transition would.
    pub(crate) async fn end(&self, run: RunId, state: &str) -> Result<()> {
        let client = self.cell.reader().await?;
        let record =
            "UPDATE runs SET state = $2::text::run_state, ended_at = moment() WHERE id = $1";
        client.execute(record, &[run.as_uuid(), &state]).await?;
        let queue = "DELETE FROM queue WHERE run_id = $1";
        client.execute(queue, &[run.as_uuid()]).await?;
        Ok(())
    }

    /// Leaves what a key leaves that came and was forgotten: runs 0 to `last`, and a free claim.
    pub(crate) async fn bring_back(&self, delivery: &Delivery, last: i32) -> Result<()> {
        let claim = delivery.claim;
        let number = |n: i32| *RunId::derive(claim, n.unsigned_abs()).as_uuid();
        let ids: Vec<Uuid> = (0..=last).map(number).collect();
        let client = self.cell.reader().await?;
        client
            .execute(
                "INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, state, key,
                                   delivery_id, accepted_at, ended_at)
                 SELECT id, $2, 1, 1, moment()::date, 'succeeded', $3, id, moment(), moment()
                   FROM unnest($1::uuid[]) AS t (id)",
                &[&ids, claim.as_uuid(), &delivery.key.as_bytes()],
            )
            .await?;
        client
            .execute(
                "INSERT INTO claims (id, run_id, fingerprint, run_number, last_run, last_partition_date)
                 VALUES ($1, $2, $3, $4, $2, moment()::date)",
                &[
                    claim.as_uuid(),
                    &number(last),
                    delivery.fingerprint.as_uuid(),
                    &last,
                ],
            )
            .await?;
        Ok(())
    }
}

/// A delivery of a key, with a payload.
pub(crate) fn delivery(key: &str, payload: &str, holder: Option<SessionId>) -> Result<Delivery> {
    let key = Key::new(key.as_bytes())?;
    let claim = ClaimId::derive(&"default".parse()?, &"hello".parse()?, &key);
    let input = semel_model::json::parse_strict(payload.as_bytes())?;
    let trigger = TriggerKind::Webhook;
    Ok(Delivery {
        claim,
        key,
        fingerprint: Fingerprint::of(&input),
        namespace_id: 1,
        release_id: 1,
        keep: Span::from_secs(3600),
        expires_as_new: false,
        delivery: DeliveryId::generate(),
        events: format!(r#"[{{"event":"accepted","trigger":"{trigger}","input":{payload}}}]"#),
        holder,
        first_effect: None,
        seems_known: false,
        run_max: None,
        lease: None,
    })
}
