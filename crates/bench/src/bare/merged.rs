//! The merged pattern: one run at a time, one commit and one round trip per transition.

use anyhow::Result;
use tokio_postgres::{Client, Statement};

use super::{Delivery, STEPS};
use crate::load::{Sender, payload};

const ACCEPT: &str = "
    WITH claimed AS (
        INSERT INTO claims (id, run_id, fingerprint, expires_at)
        VALUES ($1, $2, $3, now() + interval '30 days') ON CONFLICT (id) DO NOTHING
     RETURNING run_id)
    INSERT INTO runs (id, key, input, accepted_at)
    SELECT run_id, $4, $5::text::json, now() FROM claimed";

const BEGIN: &str = "
    WITH taken AS (UPDATE runs SET state = 1 WHERE id = $1 AND state = 0 RETURNING id)
    INSERT INTO steps (run_id, step, intended_at) SELECT id, 0, now() FROM taken";

const STEP: &str = "
    WITH settled AS (
        UPDATE steps SET settled_at = now(), outcome = '{\"ok\":true}'
         WHERE run_id = $1 AND step = $2
     RETURNING run_id)
    INSERT INTO steps (run_id, step, intended_at) SELECT run_id, $2 + 1, now() FROM settled";

const FINISH: &str = "
    WITH settled AS (
        UPDATE steps SET settled_at = now(), outcome = '{\"ok\":true}'
         WHERE run_id = $1 AND step = $2
     RETURNING run_id)
    UPDATE runs SET state = 2, ended_at = now(), result = '{\"ok\":true}'
      FROM settled WHERE id = run_id";

/// Carries runs from delivery to finish, one after the other.
pub(crate) struct Merged {
    client: Client,
    accept: Statement,
    begin: Statement,
    step: Statement,
    finish: Statement,
    tag: String,
    next: u64,
}

impl Merged {
    /// A driver on a connection of its own.
    pub(crate) async fn new(client: Client, tag: String) -> Result<Self> {
        Ok(Self {
            accept: client.prepare(ACCEPT).await?,
            begin: client.prepare(BEGIN).await?,
            step: client.prepare(STEP).await?,
            finish: client.prepare(FINISH).await?,
            client,
            tag,
            next: 0,
        })
    }
}

impl Sender for Merged {
    async fn send(&mut self) -> Result<()> {
        let delivery = Delivery::read(payload(&self.tag, self.next, false).as_bytes())?;
        self.next += 1;
        let Delivery {
            claim,
            run,
            fingerprint,
            key,
            input,
        } = &delivery;
        self.client
            .execute(&self.accept, &[claim, run, fingerprint, key, input])
            .await?;
        self.client.execute(&self.begin, &[run]).await?;
        for step in 0..STEPS - 1 {
            self.client.execute(&self.step, &[run, &step]).await?;
        }
        self.client
            .execute(&self.finish, &[run, &(STEPS - 1)])
            .await?;
        Ok(())
    }
}
