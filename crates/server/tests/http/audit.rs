//! The audit record: listed by who and what, and sealed in a chain that shows every change.

mod owner;
mod removal;

use anyhow::{Context, Result};
use semel_api::types::{AuditFilter, AuditRecord, ChainFilter, PutConnection};
use semel_model::TokenId;
use semel_model::audit_chain::ChainEnd;
use semel_server::auth::token_format;
use semel_store::audit::{self, AuditEntry, chain};
use semel_store::namespaces;
use semel_testkit::until;

use crate::world::World;

async fn act(world: &World, namespace: &str, actor: &str, action: &'static str) -> Result<()> {
    let cell = world.engine.cell();
    let namespace_id = namespaces::ensure(cell.home(), &namespace.parse()?).await?;
    let act = AuditEntry::new(namespace_id, actor, action, "x").because("a test")?;
    audit::begin(cell.home(), &act).await?;
    Ok(())
}

/// Seals whatever is committed. The server does so too, and then this does nothing: hence the look.
async fn seal(world: &World) -> Result<()> {
    let client = world.database.connect().await?;
    let unsealed = "SELECT count(*) FROM audit a
                     WHERE NOT EXISTS (SELECT 1 FROM audit_chain c WHERE c.audit_id = a.id)";
    let look = async || {
        chain::seal(world.engine.cell().every()).await?;
        Ok(client.query_one(unsealed, &[]).await?.get::<_, i64>(0))
    };
    until("every act to be sealed", look, |left| *left == 0).await?;
    Ok(())
}

async fn list(world: &World, filter: AuditFilter) -> Result<Vec<String>> {
    let page = world.client.list_audit(&filter).await?;
    let shown = page
        .items
        .iter()
        .map(|it| format!("{} {}", it.actor, it.action));
    Ok(shown.collect())
}

/// The digest at the end, where every record follows from the one before it.
fn follow(records: &[AuditRecord]) -> Option<[u8; 32]> {
    follow_from(ChainEnd::START, records)
}

fn follow_from(mut end: ChainEnd, records: &[AuditRecord]) -> Option<[u8; 32]> {
    for record in records {
        let (act, digest) = record.sealed()?;
        end.follow(&act, &digest).ok()?;
    }
    Some(end.digest)
}

#[tokio::test]
async fn an_act_names_its_token_its_address_and_what_it_changed_and_all_of_it_is_sealed()
-> Result<()> {
    let world = World::start().await?;
    for host in ["https://one.example", "https://two.example"] {
        let connection = serde_json::json!({ "to": { "http": { "base_url": host } } });
        let put = PutConnection {
            connection: serde_json::from_value(connection)?,
            replace: true,
        };
        let name = "bank".parse()?;
        world.client.put_connection(&name, &put, None).await?;
    }
    let text = "trigger: { api: {} }\nsteps: [{ id: one, function: '1' }]\n";
    let flow = world.publish("count", text).await?;
    let digest = world.client.get_flow(&flow).await?.releases[0]
        .digest
        .clone();
    let of = async |action: &str| -> Result<Vec<AuditRecord>> {
        let filter = AuditFilter {
            action: Some(action.to_owned()),
            ..AuditFilter::default()
        };
        Ok(world.client.list_audit(&filter).await?.items)
    };

    let (puts, published) = (of("connection.put").await?, of("flow.publish").await?);
    let promoted = of("flow.promote").await?;
    seal(&world).await?;
    let filter = ChainFilter::default();
    let mut chain = world.client.read_audit_chain(&filter).await?.items;

    let token = token_format::parse(&world.token).context("a token")?;
    let token = Some(TokenId::from_uuid(token.id));
    for act in puts.iter().chain(&published).chain(&promoted) {
        assert_eq!(act.token, token, "{act:?}");
        assert_eq!(act.address.as_deref(), Some("127.0.0.1"), "{act:?}");
    }
    let [later, first] = puts.as_slice() else {
        anyhow::bail!("{puts:?}");
    };
    assert!(
        first.old_digest.is_none() && first.new_digest.is_some(),
        "{first:?}"
    );
    assert_eq!(later.old_digest, first.new_digest);
    assert_ne!(later.new_digest, later.old_digest);
    for act in [&published[0], &promoted[0]] {
        assert_eq!(act.old_digest, None);
        assert_eq!(act.new_digest.as_ref(), Some(&digest));
    }
    let end = follow(&chain).context("a whole chain")?;
    let cell = world.engine.cell();
    let main = namespaces::ensure(cell.home(), &"main".parse()?).await?;
    let heads = chain::list_heads(cell.every(), &[main]).await?;
    assert_eq!(heads.len(), 1);
    assert_eq!(heads[0].digest, end, "as it is logged");
    let last = chain.last_mut().context("an act")?;
    last.address = Some("192.0.2.1".to_owned());
    assert!(follow(&chain).is_none(), "an address is sealed, too");
    Ok(())
}

#[tokio::test]
async fn acts_are_listed_by_actor_action_and_time_in_pages() -> Result<()> {
    let world = World::start().await?;
    for (actor, action) in [
        ("token:ada", "key.drop"),
        ("token:ben", "key.drop"),
        ("token:ada", "run.cancel"),
    ] {
        act(&world, "main", actor, action).await?;
    }
    act(&world, "elsewhere", "token:eve", "key.drop").await?;
    let by = |actor: Option<&str>, action: Option<&str>| AuditFilter {
        actor: actor.map(str::to_owned),
        action: action.map(str::to_owned),
        ..AuditFilter::default()
    };

    let drops = list(&world, by(None, Some("key.drop"))).await?;
    let of_ada = list(&world, by(Some("token:ada"), None)).await?;
    let both = list(&world, by(Some("token:ada"), Some("key.drop"))).await?;
    let mut paged = Vec::new();
    let mut filter = AuditFilter {
        limit: Some(1),
        ..AuditFilter::default()
    };
    loop {
        let page = world.client.list_audit(&filter).await?;
        paged.extend(page.items.into_iter().map(|it| it.id));
        match page.next {
            Some(cursor) => filter.cursor = Some(cursor),
            None => break,
        }
    }
    let first = world.client.list_audit(&AuditFilter::default()).await?;
    let oldest = first.items.last().context("some")?.at;
    let since = AuditFilter {
        since: Some("9998-01-01T00:00:00Z".parse()?),
        ..AuditFilter::default()
    };
    let until = AuditFilter {
        until: Some(oldest),
        ..AuditFilter::default()
    };

    assert_eq!(drops, ["token:ben key.drop", "token:ada key.drop"]);
    assert_eq!(of_ada, ["token:ada run.cancel", "token:ada key.drop"]);
    assert_eq!(both, ["token:ada key.drop"]);
    let ids: Vec<i64> = first.items.iter().map(|it| it.id).collect();
    assert_eq!(paged, ids, "nothing twice, nothing left out");
    assert!(list(&world, since).await?.is_empty());
    assert!(list(&world, until).await?.is_empty());
    Ok(())
}

#[tokio::test]
async fn each_namespace_has_a_chain_of_its_own_without_gaps() -> Result<()> {
    let world = World::start().await?;
    for n in 0..20 {
        let namespace = if n % 3 == 0 { "elsewhere" } else { "main" };
        act(&world, namespace, "token:ada", "key.drop").await?;
        if n % 7 == 0 {
            seal(&world).await?;
        }
    }
    // Two servers at once.
    let cell = world.engine.cell();
    let (one, other) = tokio::join!(chain::seal(cell.every()), chain::seal(cell.every()));
    one?;
    other?;
    seal(&world).await?;

    let all = ChainFilter::default();
    let chain = world.client.read_audit_chain(&all).await?.items;
    let half = ChainFilter {
        after: 6,
        limit: Some(2),
        export: None,
    };
    let part = world.client.read_audit_chain(&half).await?;

    let drops = chain.iter().filter(|act| act.action == "key.drop");
    assert_eq!(drops.count(), 13);
    assert!(follow(&chain).is_some(), "{chain:?}");
    assert_eq!(part.items, chain[6..8]);
    assert_eq!(part.next.as_deref(), Some("8"));
    Ok(())
}

#[tokio::test]
async fn an_act_that_commits_after_later_numbers_is_sealed_too() -> Result<()> {
    let world = World::start().await?;
    let mut slow = world.database.connect().await?;
    let tx = slow.transaction().await?;
    let insert = "INSERT INTO audit (namespace_id, actor, action, subject) \
                  SELECT id, 'token:slow', 'key.drop', 'x' FROM namespaces WHERE name = 'main'";
    tx.execute(insert, &[]).await?;
    act(&world, "main", "token:quick", "key.drop").await?;
    seal(&world).await?;
    tx.commit().await?;
    seal(&world).await?;

    let chain = world
        .client
        .read_audit_chain(&ChainFilter::default())
        .await?
        .items;

    let drops = chain.iter().filter(|act| act.action == "key.drop");
    let actors: Vec<&str> = drops.map(|act| act.actor.as_str()).collect();
    assert_eq!(actors, ["token:quick", "token:slow"]);
    assert!(follow(&chain).is_some());
    Ok(())
}

/// While no server runs, an hour passes and nothing is sealed: what committed before that is not old.
#[tokio::test]
async fn an_act_is_sealed_however_long_no_server_ran() -> Result<()> {
    let world = World::start().await?;
    let mut slow = world.database.connect().await?;
    let tx = slow.transaction().await?;
    let insert = "INSERT INTO audit (namespace_id, actor, action, subject) \
                  SELECT id, 'token:slow', 'key.drop', 'x' FROM namespaces WHERE name = 'main'";
    tx.execute(insert, &[]).await?;
    act(&world, "main", "token:quick", "key.drop").await?;
    seal(&world).await?;
    let ahead = "UPDATE clock SET time_offset = time_offset + interval '2 hours'";
    tx.batch_execute(ahead).await?;
    tx.commit().await?;

    seal(&world).await
}

#[tokio::test]
async fn an_export_of_the_chain_is_an_act_and_reading_it_is_none() -> Result<()> {
    let world = World::start().await?;
    for actor in ["token:ada", "token:ben", "token:cid"] {
        act(&world, "main", actor, "key.drop").await?;
    }
    world.engine.suspend();
    seal(&world).await?;
    let exports = async || -> Result<Vec<AuditRecord>> {
        let filter = AuditFilter {
            action: Some("audit.export".to_owned()),
            ..AuditFilter::default()
        };
        Ok(world.client.list_audit(&filter).await?.items)
    };
    let read = async |after: i64, export: Option<bool>| -> Result<Option<String>> {
        let filter = ChainFilter {
            after,
            limit: Some(1),
            export,
        };
        Ok(world.client.read_audit_chain(&filter).await?.next)
    };

    let all = ChainFilter::default();
    let whole = world.client.read_audit_chain(&all).await?.items;
    let last = whole.last().and_then(|act| act.position);
    let last = last.context("a sealed act")?;
    read(0, Some(false)).await?;
    let by_reading = exports().await?;
    let mut next = read(0, Some(true)).await?;
    while let Some(position) = next {
        next = read(position.parse()?, None).await?;
    }
    let by_exporting = exports().await?;
    read(2, Some(true)).await?;
    read(last, Some(true)).await?;
    let all = exports().await?;
    let owner = world.database.connect().await?;
    let refuse = "ALTER TABLE audit ADD CONSTRAINT none CHECK (false) NOT VALID";
    owner.batch_execute(refuse).await?;
    let unrecorded = read(0, Some(true)).await;

    assert!(by_reading.is_empty(), "pages and polls are no exports");
    let [export] = by_exporting.as_slice() else {
        anyhow::bail!("once, and not once for each page: {by_exporting:?}");
    };
    let token = token_format::parse(&world.token).context("a token")?;
    assert_eq!(export.actor, "token:test");
    assert_eq!(export.token, Some(TokenId::from_uuid(token.id)));
    assert_eq!(export.address.as_deref(), Some("127.0.0.1"));
    let subjects: Vec<&str> = all.iter().map(|act| act.subject.as_str()).collect();
    let nothing = format!("nothing behind no. {last}");
    let (rest, every) = (format!("no. 3 to {last}"), format!("no. 1 to {last}"));
    assert_eq!(subjects, [nothing, rest, every], "the latest first");
    assert!(unrecorded.is_err(), "what cannot be recorded is not sent");
    Ok(())
}

#[tokio::test]
async fn a_change_behind_the_database_s_back_breaks_the_chain() -> Result<()> {
    let world = World::start().await?;
    for actor in ["token:ada", "token:ben", "token:cid"] {
        act(&world, "main", actor, "key.drop").await?;
    }
    seal(&world).await?;
    let all = ChainFilter::default();
    let before = world.client.read_audit_chain(&all).await?.items;
    let owner = world.database.connect().await?;
    let changed = owner
        .execute("UPDATE audit_chain SET digest = digest", &[])
        .await;
    owner
        .batch_execute(
            "ALTER TABLE audit DISABLE TRIGGER audit_append_only;
             UPDATE audit SET actor = 'token:eve' WHERE actor = 'token:ben'",
        )
        .await?;
    let after = world.client.read_audit_chain(&all).await?.items;

    assert!(changed.is_err(), "the chain is append-only too");
    assert!(follow(&before).is_some());
    assert_eq!(follow(&after), None);
    Ok(())
}
