//! Tables of a hundred thousand rows, or of twenty thousand where fewer are to be expected, brought
//! from one state to the next.

use anyhow::Result;
use tokio_postgres::Client;

/// What the statistics of the tables were made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing: the tables were never analysed.
    NeverAnalysed,
    /// A thousand runs are held, and as much of everything else is active.
    Busy,
    /// All runs sleep, and nothing is active.
    Sleepers,
    /// Nothing was there; it came afterwards.
    Quiet,
}

/// All states, in the order in which they are brought about.
pub(super) const STATES: [State; 4] = [
    State::NeverAnalysed,
    State::Busy,
    State::Sleepers,
    State::Quiet,
];

/// No statistics but those that the test asks for.
const ALONE: &str = "
    DO $$
    DECLARE name text;
    BEGIN
        FOR name IN SELECT oid::regclass::text FROM pg_class
                     WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
        END LOOP;
    END $$";

const ENDED: &str = "
    INSERT INTO claims (id, run_id, fingerprint, expires_at)
    SELECT id(n), id(n), id(n), now() + interval '30 days' FROM numbers;
    INSERT INTO runs (id, claim_id, namespace_id, release_id, partition_date, key, delivery_id, accepted_at)
    SELECT id(n), id(n), 1, 1, current_date, 'k', id(n), now() FROM numbers;
    INSERT INTO journal (partition_date, run_id, seq, epoch, at, events)
    SELECT current_date, id(n), 1, 1, now(), '[]' FROM numbers;
    INSERT INTO effects (partition_date, id, run_id, namespace_id, step, kind, guard, state, attempt, intended_at, settled_at)
    SELECT current_date, id(n), id(n), 1, 's', 'http', 'key', 'done', 1, now(), now() FROM numbers;
    INSERT INTO waits (id, run_id, namespace_id, state, opened_at, ended_at)
    SELECT id(n), id(n), 1, CASE WHEN n % 10 = 0 THEN 'open' ELSE 'answered' END::wait_state, now(),
           CASE WHEN n % 10 <> 0 THEN now() END
      FROM numbers;
    INSERT INTO child_runs (parent_id, step, index, run_id, namespace_id, key, state, ended_at)
    SELECT id(n / 100), 's', n, id(n), 1, 'k',
           CASE WHEN n % 10 = 0 THEN 'open' ELSE 'succeeded' END::child_state,
           CASE WHEN n % 10 <> 0 THEN now() END FROM fewer;
    INSERT INTO tasks (id, run_id, namespace_id, queue, step, state, attempt, lease_ms, opened_at, input)
    SELECT id(n), id(n), 1, 'q' || n % 10, 's',
           CASE WHEN n % 10 = 0 THEN 'open' ELSE 'done' END::task_state, 1, 1, now(), '{}'
      FROM numbers;
    INSERT INTO approvals (id, run_id, namespace_id, flow, step, state, people, escalate, shown,
                           digest, login, opened_at, ended_at)
    SELECT id(n), id(n), 1, 'f', 's',
           CASE WHEN n % 10 = 0 THEN 'open' ELSE 'withdrawn' END::approval_state, '{}', '{}', '{}',
           'd', false, now(), CASE WHEN n % 10 <> 0 THEN now() END FROM fewer;
    INSERT INTO attention (subject_id, kind, partition_date, namespace_id, run_id, flow_id, step, since,
                           accepted_at, is_child)
    SELECT id(n), 'doubt', current_date, 1, id(n), 1, 's', now(), now(), n % 10 = 0 FROM fewer;
    INSERT INTO duplicates (subject, stopped_by, fingerprint, namespace_id, run_id, verdict, count, first_at,
                            last_at)
    SELECT id(n), 'claim', id(n), 1, id(n), CASE WHEN n % 10 = 0 THEN 'held' ELSE 'repeat' END, 1, now(), now()
      FROM numbers;
    INSERT INTO late_responses (run_id, effect_id, attempt, epoch, response)
    SELECT id(n), id(n), 1, 1, '{}' FROM fewer;
    INSERT INTO kv (slot, namespace_id, entry, value)
    SELECT n % 4096, 1, 'e' || n, '1' FROM fewer;
    INSERT INTO locks (slot, namespace_id, name) SELECT n % 4096, 1, 'e' || n FROM fewer;
    INSERT INTO webhook_deliveries (event_id, namespace_id, subscription, connection, event, state, body,
                          emitted_at, due_at, settled_at)
    SELECT id(n), 1, 's' || n % 10, 'c', 'e',
           CASE WHEN n % 10 = 0 THEN 'due' ELSE 'delivered' END::webhook_delivery_state, '{}', now(), now(),
           CASE WHEN n % 10 <> 0 THEN now() END FROM fewer;
    INSERT INTO subscriptions (namespace_id, name, event, connection)
    SELECT 1, 's' || n, 'e', 'c' FROM generate_series(0, 9) AS n;
    INSERT INTO object_versions (gate_id, kind, rank, shown, claim_id, expires_at)
    SELECT id(n), 'number', n::text, n::text, id(n), now() FROM fewer;
    INSERT INTO gates (id) SELECT id(n) FROM fewer;
    INSERT INTO gate_starts (gate_id, number, at) SELECT id(n), 1, now() FROM fewer;
    INSERT INTO sessions (id, process, expires_at) VALUES (id(0), 'test', now() + interval '1 hour')";

const UNDER_WAY: &str = "
    INSERT INTO queue (run_id, due_at, holder, epoch, seq, partition_date, namespace_id, stage)
    SELECT id(n), now() + interval '30 days', CASE WHEN n <= 1000 THEN id(0) END, 1, 1,
           current_date, 1, CASE WHEN n <= 1000 THEN 'ready' ELSE 'waiting' END::queue_stage
      FROM numbers;
    INSERT INTO event_waits (wait_id, run_id, namespace_id, event, path, value)
    SELECT id(n), id(n), 1, 'e' || n % 100, 'id', n::text FROM fewer;
    INSERT INTO outbox (id, namespace_id, run_id, event, data, emitted_at)
    SELECT id(n), 1, id(n), 'e', '{}', now() FROM fewer;
    INSERT INTO outbox_receivers (event_id, flow_id, release_id, run_max)
    SELECT id(n), 1, 1, 0 FROM fewer;
    INSERT INTO broadcasts (event_id, namespace_id, run_id, event, data, emitted_at, begun_at, due_at)
    SELECT id(n), 1, id(n), 'e', '{}', now(), now(), now() FROM fewer;
    INSERT INTO gate_exits (run_id, gate_id, seq, at) SELECT id(n), id(n), 1, now() FROM fewer;
    INSERT INTO gate_entries (gate_id, run_id, place, accepted_at, after_seq)
    SELECT id(n / 10), id(n), 'waiting', now(), 1 FROM fewer";

const FALL_ASLEEP: &str = "
    UPDATE queue SET holder = NULL, stage = 'waiting' WHERE holder IS NOT NULL;
    UPDATE waits SET state = 'answered', ended_at = now() WHERE state = 'open';
    UPDATE child_runs SET state = 'succeeded', ended_at = now() WHERE state = 'open';
    UPDATE tasks SET state = 'done' WHERE state = 'open';
    UPDATE approvals SET state = 'withdrawn', ended_at = now() WHERE state = 'open';
    UPDATE webhook_deliveries SET state = 'delivered', settled_at = now() WHERE state = 'due'";

const EMPTY: &str =
    "TRUNCATE queue, event_waits, outbox, outbox_receivers, broadcasts, gate_exits, gate_entries";

/// Brings the tables to a state, from the one before it.
pub(super) async fn bring_to(client: &Client, state: State) -> Result<()> {
    match state {
        State::NeverAnalysed => {
            client.batch_execute(ALONE).await?;
            client
                .batch_execute(
                    "CREATE FUNCTION pg_temp.id(n int8) RETURNS uuid LANGUAGE sql IMMUTABLE
                     AS $$ SELECT md5(n::text)::uuid $$;
                     CREATE TEMPORARY TABLE numbers AS
                     SELECT n FROM generate_series(1, 100000) AS n;
                     CREATE TEMPORARY TABLE fewer AS
                     SELECT n FROM generate_series(1, 20000) AS n",
                )
                .await?;
            fill(client, ENDED).await?;
            fill(client, UNDER_WAY).await?;
        }
        State::Busy => client.batch_execute("ANALYZE").await?,
        State::Sleepers => {
            client.batch_execute(FALL_ASLEEP).await?;
            client.batch_execute("VACUUM ANALYZE").await?;
        }
        State::Quiet => {
            client.batch_execute(EMPTY).await?;
            client.batch_execute("VACUUM ANALYZE").await?;
            fill(client, UNDER_WAY).await?;
        }
    }
    Ok(())
}

/// Temporary functions are only found by their schema's name.
async fn fill(client: &Client, text: &str) -> Result<()> {
    let text = text
        .replace("id(n", "pg_temp.id(n")
        .replace("id(0)", "pg_temp.id(0)");
    client.batch_execute("SET statement_timeout = 0").await?;
    Ok(client.batch_execute(&text).await?)
}
