//! The audit record in a role of its own: what the role that Semel uses can do with it, and what it cannot.

use anyhow::{Context, Result};
use semel_model::Span;
use semel_store::audit::removal::{Removal, remove_old};
use semel_store::audit::{self, AuditEntry, chain, guard};
use semel_store::{Cell, namespaces};

use super::removal::{acts, age};
use super::seal;
use crate::world::{World, few_connections};

/// As operators run it, with names in place of psql's variables.
const SCRIPT: &str = include_str!("../../../../../packaging/audit-owner.sql");

/// Statements that an attacker with the credential of Semel's role would try.
const ATTEMPTS: &[&str] = &[
    "UPDATE audit SET actor = 'token:eve'",
    "DELETE FROM audit",
    "TRUNCATE audit",
    "DROP TABLE audit",
    "ALTER TABLE audit RENAME TO other",
    "ALTER TABLE audit DISABLE TRIGGER USER",
    "ALTER TABLE audit_chain DISABLE TRIGGER USER",
    "UPDATE audit_chain SET digest = sha256('x')",
    "DELETE FROM audit_chain",
    "DELETE FROM audit_removed",
    "INSERT INTO audit_removed
         (namespace_id, first_position, last_position, digest_before, digest, latest_at)
     VALUES (1, 1, 1, sha256('x'), sha256('x'), now())",
    "INSERT INTO audit (id, namespace_id, actor, action, subject) OVERRIDING SYSTEM VALUE
     VALUES (9223372036854775807, 1, 'token:eve', 'x', 'x')",
    "INSERT INTO audit (namespace_id, at, actor, action, subject)
     VALUES (1, 'infinity', 'token:eve', 'x', 'x')",
    "SELECT setval('audit_id_seq', 9223372036854775806)",
    "INSERT INTO audit_chain (namespace_id, position, audit_id, digest, sealed_at)
     SELECT namespace_id, position + 1, 9223372036854775807, digest, 'infinity'
       FROM audit_chain ORDER BY position DESC LIMIT 1",
    "INSERT INTO audit_chain (namespace_id, position, audit_id, digest)
     SELECT namespace_id, position + 1, 9223372036854775807, digest
       FROM audit_chain ORDER BY position DESC LIMIT 1",
    "WITH act AS (
         INSERT INTO audit (namespace_id, actor, action, subject)
         SELECT namespace_id, 'token:eve', 'x', 'x'
           FROM audit_chain ORDER BY position DESC LIMIT 1
         RETURNING id, namespace_id)
     INSERT INTO audit_chain (namespace_id, position, audit_id, digest)
     SELECT namespace_id, 1000, id, sha256('x') FROM act",
    "DROP TRIGGER audit_chain_continues ON audit_chain",
    "ALTER FUNCTION refuse_other_seal RENAME TO other",
    "CREATE OR REPLACE FUNCTION refuse_audit_change() RETURNS trigger
         LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
    "ALTER FUNCTION remove_audit_stretch RENAME TO other",
    "SET session_replication_role = replica",
    "DROP SCHEMA public CASCADE",
];

/// Would run with the rights of the record's owner, if anything of the owner's called it.
const TROJAN: &str = "
    CREATE OR REPLACE FUNCTION moment() RETURNS timestamptz LANGUAGE plpgsql AS $$
    BEGIN
        EXECUTE 'ALTER TABLE audit DISABLE TRIGGER USER';
        RETURN clock_timestamp();
    EXCEPTION WHEN insufficient_privilege THEN
        RETURN clock_timestamp();
    END $$";

/// Another record, in schemas that PostgreSQL would search before that of the record. Semel's role may make it: each
/// rehearsal has a schema of its own.
const DECOY: &str = "
    CREATE SCHEMA SERVING;
    CREATE TABLE SERVING.audit (LIKE public.audit INCLUDING ALL);
    CREATE TABLE SERVING.audit_chain (LIKE public.audit_chain INCLUDING ALL);
    CREATE TABLE SERVING.audit_removed (LIKE public.audit_removed INCLUDING ALL);
    ALTER ROLE SERVING SET search_path = SERVING, public";

#[tokio::test]
async fn a_record_of_another_role_is_added_to_and_removed_by_retention_and_not_rewritten()
-> Result<()> {
    let world = World::start().await?;
    acts(
        &world,
        "elsewhere",
        &["token:ada", "token:ben", "token:cid"],
    )
    .await?;
    age(&world, 40).await?;
    seal(&world).await?;
    let client = world.database.connect().await?;
    let name = world.database.name();
    let (serving, guardian) = (
        format!("\"serving_{name}\""),
        format!("\"guardian_{name}\""),
    );
    // As an installation with one role has it.
    let single = format!(
        "CREATE ROLE {serving} LOGIN; CREATE ROLE {guardian};
         GRANT ALL ON ALL TABLES IN SCHEMA public TO {serving};
         GRANT ALL ON SCHEMA public TO {serving};
         GRANT CREATE ON DATABASE \"{name}\" TO {serving};
         ALTER TABLE audit OWNER TO {serving};
         ALTER TABLE audit_chain OWNER TO {serving};
         ALTER TABLE audit_removed OWNER TO {serving};
         ALTER FUNCTION moment() OWNER TO {serving}"
    );
    client.batch_execute(&single).await?;
    let url = world.database.url();
    let (_, place) = url.rsplit_once('@').context("a user")?;
    let url = format!("postgresql://serving_{name}@{place}");
    let cell = Cell::connect(&url, few_connections()).await?;
    let before = guard::can_rewrite_record(&cell).await?;

    let script = SCRIPT.replace(":\"owner\"", &guardian);
    let script = script.replace(":\"serving\"", &serving);
    client.batch_execute(&script).await?;
    // Again: no harm.
    client.batch_execute(&script).await?;
    let after = guard::can_rewrite_record(&cell).await?;
    client.batch_execute(&format!("SET ROLE {serving}")).await?;
    for attempt in ATTEMPTS {
        let refused = client.batch_execute(attempt).await;
        assert!(refused.is_err(), "{attempt}");
    }
    client.batch_execute(TROJAN).await?;
    client
        .batch_execute(&DECOY.replace("SERVING", &serving))
        .await?;
    drop(cell);
    let cell = Cell::connect(&url, few_connections()).await?;

    let namespace_id = namespaces::ensure(cell.home(), &"elsewhere".parse()?).await?;
    let act = AuditEntry::new(namespace_id, "token:dan", "key.drop", "x");
    audit::begin(cell.home(), &act).await?;
    chain::seal(cell.every()).await?;
    let keep = Span::from_secs(30 * 86_400);
    let removed = remove_old(cell.every(), namespace_id, keep).await?;

    assert!(
        before,
        "an installation with one role is not guarded, and is told so"
    );
    assert!(!after);
    let recorded =
        "SELECT count(*) FROM public.audit_chain c JOIN public.audit a ON a.id = c.audit_id
                     WHERE a.actor = 'token:dan'";
    let sealed: i64 = client.query_one(recorded, &[]).await?.get(0);
    assert_eq!(sealed, 1, "in the guarded record, and sealed");
    assert_eq!(removed, Removal::Removed(3), "the last act stays");
    let off = "SELECT count(*) FROM pg_trigger
                WHERE tgrelid IN ('public.audit'::regclass, 'public.audit_chain'::regclass)
                  AND tgenabled = 'D'";
    assert_eq!(client.query_one(off, &[]).await?.get::<_, i64>(0), 0);
    drop(cell);
    let leave = format!(
        "RESET ROLE;
         REASSIGN OWNED BY {serving}, {guardian} TO CURRENT_USER;
         DROP OWNED BY {serving}, {guardian};
         DROP ROLE {serving}, {guardian}"
    );
    client.batch_execute(&leave).await?;
    Ok(())
}
