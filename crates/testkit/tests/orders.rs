//! Two commands in every order: one that loses an update is red, and one that takes a lock is not.

use std::sync::Arc;

use anyhow::{Result, ensure};
use semel_testkit::{Command, Connection, Database, Orders, Scene, Stage, orders};
use tokio_postgres::NoTls;

const READ: &str = "SELECT amount FROM accounts";

const LOCK: &str = "SELECT amount FROM accounts FOR UPDATE";

/// Two clients that each read an amount and write one more.
struct Adding {
    read: &'static str,
    clients: [Arc<Connection>; 2],
    admin: Connection,
}

impl Adding {
    async fn on(database: &Database, stage: &Stage, read: &'static str) -> Result<Self> {
        let admin = database.connect().await?;
        Ok(Self {
            read,
            clients: [connect(stage, 0).await?, connect(stage, 1).await?],
            admin,
        })
    }
}

async fn connect(stage: &Stage, actor: usize) -> Result<Arc<Connection>> {
    let (client, connection) = tokio_postgres::connect(&stage.url(actor), NoTls).await?;
    tokio::spawn(connection);
    Ok(Arc::new(client))
}

async fn add(client: Arc<Connection>, read: &'static str) -> Result<()> {
    client.batch_execute("BEGIN").await?;
    let amount: i64 = client.query_one(read, &[]).await?.get(0);
    let write = "UPDATE accounts SET amount = $1";
    client.execute(write, &[&(amount + 1)]).await?;
    client.batch_execute("COMMIT").await?;
    Ok(())
}

impl Scene for Adding {
    async fn begin(&mut self) -> Result<[Command; 2]> {
        self.admin
            .batch_execute("UPDATE accounts SET amount = 0")
            .await?;
        let [first, second] = self.clients.clone();
        let read = self.read;
        Ok([Box::pin(add(first, read)), Box::pin(add(second, read))])
    }

    async fn judge(&mut self) -> Result<()> {
        let amount: i64 = self.admin.query_one(READ, &[]).await?.get(0);
        ensure!(amount == 2, "both added one, and the amount is {amount}");
        Ok(())
    }
}

async fn accounts() -> Result<(Database, Stage)> {
    let database = Database::empty().await?;
    let table = "CREATE TABLE accounts (amount bigint NOT NULL); INSERT INTO accounts VALUES (0)";
    database.connect().await?.batch_execute(table).await?;
    let stage = Stage::of(&database).await?;
    Ok((database, stage))
}

#[tokio::test]
async fn an_update_that_is_lost_is_red_and_its_order_is_told() -> Result<()> {
    let (database, stage) = accounts().await?;
    let mut adding = Adding::on(&database, &stage, READ).await?;
    let pair = Orders {
        pair: "two additions",
        red: &[&[0, 1, 0, 0, 1, 1]],
        least: 6,
    };

    let red = stage.play(pair, &mut adding).await.unwrap_err();

    let red = format!("{red:#}");
    assert!(red.contains("the amount is 1"), "{red}");
    let told = format!("{}=0,1,0,0,1,1 plays it alone", orders::VARIABLE);
    assert!(red.contains(&told), "{red}");
    assert!(red.contains(&format!("  1: {READ}")), "{red}");
    Ok(())
}

#[tokio::test]
async fn an_actor_that_waits_for_the_other_yields_and_every_order_is_seen_on_the_wire() -> Result<()>
{
    let (database, stage) = accounts().await?;
    let mut adding = Adding::on(&database, &stage, LOCK).await?;
    let pair = Orders {
        pair: "two additions under a lock",
        red: &[],
        least: 6,
    };

    let seen = stage.play(pair, &mut adding).await?;

    assert_eq!(seen.groups, [3, 3], "what begins a transaction passes");
    // The second reads before the first writes, before it commits, or afterwards; and the other way round.
    assert_eq!(seen.seen, 6, "of twenty");
    Ok(())
}
