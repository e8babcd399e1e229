//! Runs through the batched writer, from delivery to finish, as many at a time as there are runners.

use std::net::SocketAddr;

use anyhow::{Result, ensure};

use super::desk::{Change, Desk};
use super::{Delivery, STEPS};
use crate::load::{Sender, payload};
use crate::load_connection::LoadConnection;

/// Carries one run at a time; its steps are calls where it has a peer, and nothing otherwise.
pub(crate) struct Runner {
    desk: Desk,
    peer: Option<LoadConnection>,
    prefix: String,
    next: u64,
}

impl Runner {
    /// So many runners at one desk. `tag` tells the keys of slices apart.
    pub(crate) async fn crowd(
        desk: &Desk,
        count: usize,
        tag: &str,
        peer: Option<SocketAddr>,
    ) -> Result<Vec<Self>> {
        let mut crowd = Vec::with_capacity(count);
        for index in 0..count {
            let peer = match peer {
                Some(address) => Some(LoadConnection::connect(address).await?),
                None => None,
            };
            crowd.push(Self {
                desk: desk.clone(),
                peer,
                prefix: format!("{tag}-{index}"),
                next: 0,
            });
        }
        Ok(crowd)
    }

    async fn act(&mut self, number: u64, step: i16) -> Result<()> {
        let Some(wire) = &mut self.peer else {
            return Ok(());
        };
        let key = format!("idempotency-key: {}-{number}-{step}\r\n", self.prefix);
        let body = format!(r#"{{"order":"{}-{number}","step":{step}}}"#, self.prefix);
        let answer = wire.post("/keyed/orders", &key, &body).await?;
        ensure!(
            answer.status == 201,
            "the peer answered {}: {}",
            answer.status,
            String::from_utf8_lossy(answer.body)
        );
        Ok(())
    }
}

impl Sender for Runner {
    async fn send(&mut self) -> Result<()> {
        let number = self.next;
        self.next += 1;
        let delivery = Delivery::read(payload(&self.prefix, number, false).as_bytes())?;
        let run = delivery.run;
        self.desk.write(Change::Accept(delivery)).await?;
        self.desk.write(Change::Begin(run)).await?;
        for step in 0..STEPS - 1 {
            self.act(number, step).await?;
            self.desk.write(Change::Step(run, step)).await?;
        }
        self.act(number, STEPS - 1).await?;
        self.desk.write(Change::Finish(run, STEPS - 1)).await
    }
}
