//! `db` and a PostgreSQL that is prepared for markers.

use std::net::SocketAddr;

use anyhow::Result;
use semel_model::request::{DbRequest, ExternalRequest};
use semel_model::{Guard, Span};
use semel_steps::Destination;
use semel_testkit::Proxy;

use crate::conformance::subject::{AskedFor, At, Repeat, Subject, Wanted};
use crate::db::world::{World, order, request};

pub(crate) struct Db {
    world: World,
}

impl Subject for Db {
    const KIND: &'static str = "db";
    const ASKED_FOR: AskedFor = AskedFor::Effects(Guard::Transaction);
    const REPEAT: Repeat = Repeat::Once;

    async fn start() -> Result<Self> {
        let world = World::new().await?;
        Ok(Self { world })
    }

    fn server(&self) -> SocketAddr {
        self.world.database.server().address()
    }

    fn destination(&self, at: At, _: Wanted) -> Result<Destination> {
        Ok(self.world.destination_at(at.address))
    }

    fn request(&self, _: At, wanted: Wanted, timeout: Span) -> ExternalRequest {
        let statement = match wanted {
            Wanted::Done | Wanted::Slow => order(1),
            Wanted::Refused => request("INSERT INTO nowhere (id) VALUES (1)", &[]),
        };
        ExternalRequest::Db(DbRequest {
            timeout,
            ..statement
        })
    }

    fn hold_answer(&self, proxy: &Proxy) {
        proxy.hold_commits();
    }

    async fn effects(&self) -> Result<usize> {
        Ok(usize::try_from(self.world.orders().await?)?)
    }
}
