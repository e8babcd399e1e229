-- The foundation: claims, runs, their queue, journal, effects and waits, and the control data.
--
-- Everything a key touches carries the key's slot in the first twelve bits of its identity and is
-- only ever reached through that identity. No foreign key, no join and no constraint crosses slots,
-- so slots can move between databases.

-- ---------------------------------------------------------------------------------- the clock

CREATE TABLE clock (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    ahead    interval NOT NULL DEFAULT '0'
);
COMMENT ON TABLE clock IS 'How far the clock stands ahead of the server''s. Zero in production; tests move it.';
COMMENT ON COLUMN clock.only_row IS 'Keeps the table at one row.';
COMMENT ON COLUMN clock.ahead IS 'Added to the server''s clock by moment().';
INSERT INTO clock DEFAULT VALUES;

CREATE FUNCTION moment() RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED
    AS $$ BEGIN RETURN clock_timestamp() + (SELECT ahead FROM clock); END $$;
COMMENT ON FUNCTION moment() IS 'The only clock. Not frozen at the start of a transaction, as now() is.';

CREATE FUNCTION all_or_nothing(happened bigint, wanted bigint) RETURNS void
    LANGUAGE plpgsql
    AS $$ BEGIN
        IF happened <> wanted THEN
            RAISE EXCEPTION 'only % of % writes passed the fence', happened, wanted
                USING ERRCODE = 'SM001';
        END IF;
    END $$;
COMMENT ON FUNCTION all_or_nothing(bigint, bigint) IS
    'Refuses the whole transaction when one write of a batch was fenced off, so that a batch can travel in one flight.';

-- ------------------------------------------------------------------------------- control data

CREATE TABLE namespaces (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT moment()
);
COMMENT ON TABLE namespaces IS 'Who flows, runs and tokens belong to.';
COMMENT ON COLUMN namespaces.id IS 'Short form of the name, for rows that there are many of.';
COMMENT ON COLUMN namespaces.name IS 'The name; it enters into every derived identity and never changes.';
COMMENT ON COLUMN namespaces.created_at IS 'When it was made.';

CREATE TABLE flows (
    id            integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id  integer NOT NULL REFERENCES namespaces,
    name          text NOT NULL,
    draft         text,
    draft_at      timestamptz,
    live_release  integer,
    created_at    timestamptz NOT NULL DEFAULT moment(),
    UNIQUE (namespace_id, name)
);
COMMENT ON TABLE flows IS 'What authors write. Small; written to the home cell and cached by every server.';
COMMENT ON COLUMN flows.id IS 'Short form of namespace and name.';
COMMENT ON COLUMN flows.namespace_id IS 'Who it belongs to.';
COMMENT ON COLUMN flows.name IS 'The flow''s name; it enters into every derived identity and never changes.';
COMMENT ON COLUMN flows.draft IS 'The working copy, as its author wrote it.';
COMMENT ON COLUMN flows.draft_at IS 'When the working copy was last pushed.';
COMMENT ON COLUMN flows.live_release IS 'The number of the release that new runs start on; null before the first promotion.';
COMMENT ON COLUMN flows.created_at IS 'When it was first pushed.';

CREATE TABLE releases (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow_id      integer NOT NULL REFERENCES flows,
    number       integer NOT NULL,
    digest       text NOT NULL,
    source       text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT moment(),
    UNIQUE (flow_id, number),
    UNIQUE (flow_id, digest)
);
COMMENT ON TABLE releases IS 'Frozen, numbered copies of flows. A run stays on the release that it started on.';
COMMENT ON COLUMN releases.id IS 'Short form of flow and number, carried by every run.';
COMMENT ON COLUMN releases.flow_id IS 'The flow.';
COMMENT ON COLUMN releases.number IS 'r1, r2 and so on, within the flow.';
COMMENT ON COLUMN releases.digest IS 'SHA-256 of the canonical form: publishing the same flow twice gives one release.';
COMMENT ON COLUMN releases.source IS 'The text, as its author wrote it.';
COMMENT ON COLUMN releases.published_at IS 'When it was frozen.';

CREATE TABLE control (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  bigint NOT NULL DEFAULT 1
);
COMMENT ON TABLE control IS 'Counts changes of control data, so that servers can tell a stale cache by one number.';
COMMENT ON COLUMN control.only_row IS 'Keeps the table at one row.';
COMMENT ON COLUMN control.version IS 'Grows with every change of flows, releases, namespaces or tokens.';
INSERT INTO control DEFAULT VALUES;

CREATE TABLE tokens (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL REFERENCES namespaces,
    name         text NOT NULL,
    digest       bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    expires_at   timestamptz NOT NULL,
    revoked_at   timestamptz
);
COMMENT ON TABLE tokens IS 'Who may use the API. The secret itself is never kept.';
COMMENT ON COLUMN tokens.id IS 'The part of the token that is no secret.';
COMMENT ON COLUMN tokens.namespace_id IS 'The one namespace that it opens.';
COMMENT ON COLUMN tokens.name IS 'What its owner calls it.';
COMMENT ON COLUMN tokens.digest IS 'SHA-256 of the secret part, which has 256 random bits.';
COMMENT ON COLUMN tokens.created_at IS 'When it was made.';
COMMENT ON COLUMN tokens.expires_at IS 'When it stops working.';
COMMENT ON COLUMN tokens.revoked_at IS 'When somebody took it back.';

CREATE TABLE commands (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    fingerprint  uuid NOT NULL,
    begun_at     timestamptz NOT NULL,
    holder_until timestamptz NOT NULL,
    status       smallint,
    answer       json
);
COMMENT ON TABLE commands IS 'The first answer to each API command that came with an Idempotency-Key.';
COMMENT ON COLUMN commands.id IS 'Digest of namespace, route and key.';
COMMENT ON COLUMN commands.namespace_id IS 'Whose command it was.';
COMMENT ON COLUMN commands.fingerprint IS 'The payload that came first; another one under the same key is refused.';
COMMENT ON COLUMN commands.begun_at IS 'When it came first; forgotten a day later.';
COMMENT ON COLUMN commands.holder_until IS 'Until when the first is taken to be under way; a later one may then carry it out.';
COMMENT ON COLUMN commands.status IS 'The HTTP status that was answered; null while under way.';
COMMENT ON COLUMN commands.answer IS 'The body that was answered.';
CREATE INDEX commands_by_age ON commands (begun_at);

CREATE TABLE audit (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id integer NOT NULL,
    at           timestamptz NOT NULL DEFAULT moment(),
    actor        text NOT NULL,
    action       text NOT NULL,
    subject      text NOT NULL,
    reason       text
);
COMMENT ON TABLE audit IS 'What people did that changes what Semel would have done by itself. Only ever added to.';
COMMENT ON COLUMN audit.id IS 'In order of writing.';
COMMENT ON COLUMN audit.namespace_id IS 'Where.';
COMMENT ON COLUMN audit.at IS 'When.';
COMMENT ON COLUMN audit.actor IS 'The token''s name.';
COMMENT ON COLUMN audit.action IS 'What was done, e.g. doubt.settle or key.drop.';
COMMENT ON COLUMN audit.subject IS 'What it was done to.';
COMMENT ON COLUMN audit.reason IS 'Why, in the person''s words.';

-- --------------------------------------------------------------------------- claims and runs

CREATE TABLE claims (
    id          uuid PRIMARY KEY,
    run_id      uuid NOT NULL,
    fingerprint uuid NOT NULL,
    expires_at  timestamptz NOT NULL
);
COMMENT ON TABLE claims IS 'Our hold on a key. The primary key is the promise: one key, one run.';
COMMENT ON COLUMN claims.id IS 'Digest of namespace, flow and key; slot in front.';
COMMENT ON COLUMN claims.run_id IS 'The run that answers for the key.';
COMMENT ON COLUMN claims.fingerprint IS 'The payload of the first delivery, to tell a repeat from a mismatch.';
COMMENT ON COLUMN claims.expires_at IS 'When the key may be forgotten, once its run has ended; rounded up to the minute, so that the index stays small.';
CREATE INDEX claims_by_expiry ON claims (expires_at);

CREATE TYPE run_state AS ENUM
    ('active', 'in_doubt', 'needs_review', 'quarantined', 'succeeded', 'failed', 'cancelled');

CREATE TABLE runs (
    id           uuid PRIMARY KEY,
    claim_id     uuid NOT NULL,
    namespace_id integer NOT NULL,
    release_id   integer NOT NULL,
    born         date NOT NULL,
    state        run_state NOT NULL DEFAULT 'active',
    key          bytea NOT NULL,
    delivery_id  uuid NOT NULL,
    accepted_at  timestamptz NOT NULL,
    ended_at     timestamptz,
    result       json,
    fault        json
) WITH (fillfactor = 85);
COMMENT ON TABLE runs IS 'One row per run: what it is, and how it ended. What changes often is in the queue.';
COMMENT ON COLUMN runs.id IS 'Derived from the claim; slot in front.';
COMMENT ON COLUMN runs.claim_id IS 'The claim that made it.';
COMMENT ON COLUMN runs.namespace_id IS 'Whose run it is.';
COMMENT ON COLUMN runs.release_id IS 'The release that it started on, and stays on.';
COMMENT ON COLUMN runs.born IS 'The day it was accepted (UTC): which partition holds its journal and effects.';
COMMENT ON COLUMN runs.state IS 'Active covers queued, running and waiting: the queue tells which.';
COMMENT ON COLUMN runs.key IS 'The key, as it came.';
COMMENT ON COLUMN runs.delivery_id IS 'The delivery that made it, so that a server can recognise its own write after a lost answer.';
COMMENT ON COLUMN runs.accepted_at IS 'When the delivery was accepted.';
COMMENT ON COLUMN runs.ended_at IS 'When it ended.';
COMMENT ON COLUMN runs.result IS 'What it gave, where it succeeded.';
COMMENT ON COLUMN runs.fault IS 'What was wrong, where it failed or is parked.';
CREATE INDEX runs_by_age ON runs (namespace_id, accepted_at);

CREATE TYPE queue_stage AS ENUM ('ready', 'retrying', 'waiting', 'parked');

CREATE TABLE queue (
    run_id uuid PRIMARY KEY,
    due_at timestamptz NOT NULL,
    holder uuid,
    epoch  bigint NOT NULL,
    seq    integer NOT NULL,
    takes  smallint NOT NULL DEFAULT 0,
    stage  queue_stage NOT NULL DEFAULT 'ready',
    cancel boolean NOT NULL DEFAULT false,
    born   date NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE queue IS 'Runs that have not ended: who holds each, and when it is due. Narrow, because it churns.';
COMMENT ON COLUMN queue.run_id IS 'The run.';
COMMENT ON COLUMN queue.due_at IS 'When a worker may take it. Far ahead for sleepers, infinity for what only a person or a callback wakes.';
COMMENT ON COLUMN queue.holder IS 'The session that holds it; null when nobody does.';
COMMENT ON COLUMN queue.epoch IS 'Grows with every take. A write that carries an older one is refused.';
COMMENT ON COLUMN queue.seq IS 'The number of the journal''s last row: the next write must follow on it.';
COMMENT ON COLUMN queue.takes IS 'Takes since the last progress; five quarantine the run.';
COMMENT ON COLUMN queue.stage IS 'Why it is not held: ready, retrying, waiting or parked.';
COMMENT ON COLUMN queue.cancel IS 'A person asked for its end; its holder sees this with its next write.';
COMMENT ON COLUMN queue.born IS 'Copied from the run, to find its journal.';
CREATE INDEX queue_by_due ON queue (due_at) WHERE holder IS NULL;
CREATE INDEX queue_by_holder ON queue (holder) WHERE holder IS NOT NULL;

CREATE TABLE sessions (
    id         uuid PRIMARY KEY,
    process    text NOT NULL,
    started_at timestamptz NOT NULL DEFAULT moment(),
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE sessions IS 'Workers that are alive. The session is renewed, not the runs that it holds.';
COMMENT ON COLUMN sessions.id IS 'One stretch of a process''s life: a lost lease ends it, and the process begins another.';
COMMENT ON COLUMN sessions.process IS 'Host and process number, for people.';
COMMENT ON COLUMN sessions.started_at IS 'When it began.';
COMMENT ON COLUMN sessions.expires_at IS 'When its runs may be taken by others, unless it is renewed before.';

-- -------------------------------------------------------------------- journal, effects, waits

CREATE TABLE journal (
    born   date NOT NULL,
    run_id uuid NOT NULL,
    seq    integer NOT NULL,
    epoch  bigint NOT NULL,
    at     timestamptz NOT NULL,
    events json NOT NULL,
    PRIMARY KEY (born, run_id, seq)
) PARTITION BY RANGE (born);
COMMENT ON TABLE journal IS 'What happened to each run, one row per write. Only ever added to; dropped by partition.';
COMMENT ON COLUMN journal.born IS 'The run''s first day.';
COMMENT ON COLUMN journal.run_id IS 'The run.';
COMMENT ON COLUMN journal.seq IS '1, 2, 3 … without a gap.';
COMMENT ON COLUMN journal.epoch IS 'The lease under which it was written.';
COMMENT ON COLUMN journal.at IS 'When it was written.';
COMMENT ON COLUMN journal.events IS 'The events of this write, in order.';

CREATE TYPE effect_state AS ENUM ('pending', 'retrying', 'done', 'failed', 'in_doubt');

CREATE TABLE effects (
    born         date NOT NULL,
    id           uuid NOT NULL,
    run_id       uuid NOT NULL,
    namespace_id integer NOT NULL,
    step         text NOT NULL,
    kind         text NOT NULL,
    guard        text NOT NULL,
    state        effect_state NOT NULL,
    attempt      integer NOT NULL,
    intended_at  timestamptz NOT NULL,
    settled_at   timestamptz,
    external_id  text,
    note         text,
    PRIMARY KEY (born, id)
) PARTITION BY RANGE (born);
COMMENT ON TABLE effects IS 'The ledger: one row per change to the outside world, written before the change is made.';
COMMENT ON COLUMN effects.born IS 'The run''s first day.';
COMMENT ON COLUMN effects.id IS 'The key that the destination is sent. Begins with the run''s first eight bytes.';
COMMENT ON COLUMN effects.run_id IS 'The run.';
COMMENT ON COLUMN effects.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN effects.step IS 'The step''s path in the flow.';
COMMENT ON COLUMN effects.kind IS 'The kind of step, e.g. http or kv.';
COMMENT ON COLUMN effects.guard IS 'How it is made safe to meet twice.';
COMMENT ON COLUMN effects.state IS 'Pending from before the first byte leaves until the outcome is known.';
COMMENT ON COLUMN effects.attempt IS 'The number of the latest attempt.';
COMMENT ON COLUMN effects.intended_at IS 'When the latest attempt''s intent was written.';
COMMENT ON COLUMN effects.settled_at IS 'When its outcome was written.';
COMMENT ON COLUMN effects.external_id IS 'The destination''s identity for what was made.';
COMMENT ON COLUMN effects.note IS 'What was seen, where it did not simply succeed.';
CREATE INDEX effects_in_doubt ON effects (namespace_id, intended_at) WHERE state = 'in_doubt';

CREATE TABLE journal_default PARTITION OF journal DEFAULT;
COMMENT ON TABLE journal_default IS 'Rows whose month has no partition yet.';
CREATE TABLE effects_default PARTITION OF effects DEFAULT
    WITH (fillfactor = 70);
COMMENT ON TABLE effects_default IS 'Rows whose month has no partition yet.';

CREATE TYPE wait_state AS ENUM ('open', 'answered', 'elapsed', 'cancelled');

CREATE TABLE waits (
    id         uuid PRIMARY KEY,
    run_id     uuid NOT NULL,
    state      wait_state NOT NULL,
    step       text,
    opened_at  timestamptz,
    until      timestamptz,
    ended_at   timestamptz,
    payload    json
);
COMMENT ON TABLE waits IS 'Waits that a callback can end. A row may stand before its wait opens: then the callback was early.';
COMMENT ON COLUMN waits.id IS 'Derived from run and step. Begins with the run''s first eight bytes.';
COMMENT ON COLUMN waits.run_id IS 'The run.';
COMMENT ON COLUMN waits.state IS 'Left once, from open, by whoever is first.';
COMMENT ON COLUMN waits.step IS 'The step''s path; null until the wait opens.';
COMMENT ON COLUMN waits.opened_at IS 'When the run came to it; null for an early callback.';
COMMENT ON COLUMN waits.until IS 'When it ends by itself.';
COMMENT ON COLUMN waits.ended_at IS 'When it ended.';
COMMENT ON COLUMN waits.payload IS 'What the callback brought.';

CREATE TABLE evidence (
    run_id    uuid NOT NULL,
    effect_id uuid NOT NULL,
    attempt   integer NOT NULL,
    epoch     bigint NOT NULL,
    at        timestamptz NOT NULL DEFAULT moment(),
    response  json NOT NULL,
    PRIMARY KEY (run_id, effect_id, attempt)
);
COMMENT ON TABLE evidence IS 'Answers that came to a worker whose lease was lost. They may turn doubt into done, nothing else.';
COMMENT ON COLUMN evidence.run_id IS 'The run.';
COMMENT ON COLUMN evidence.effect_id IS 'The effect that was answered.';
COMMENT ON COLUMN evidence.attempt IS 'The attempt that was answered.';
COMMENT ON COLUMN evidence.epoch IS 'The lease that the worker had lost.';
COMMENT ON COLUMN evidence.at IS 'When it was handed in.';
COMMENT ON COLUMN evidence.response IS 'What the destination answered.';

CREATE TABLE duplicates (
    subject      uuid NOT NULL,
    place        text NOT NULL,
    fingerprint  uuid NOT NULL,
    namespace_id integer NOT NULL,
    run_id       uuid NOT NULL,
    verdict      text NOT NULL,
    count        bigint NOT NULL,
    first_at     timestamptz NOT NULL,
    last_at      timestamptz NOT NULL,
    payload      json,
    PRIMARY KEY (subject, place, fingerprint)
) WITH (fillfactor = 80);
COMMENT ON TABLE duplicates IS 'Repeats that were stopped: a row per place and payload, so that a storm costs a row and not a disk.';
COMMENT ON COLUMN duplicates.subject IS 'The claim or the wait that stopped it.';
COMMENT ON COLUMN duplicates.place IS 'Where it was stopped: claim or wait.';
COMMENT ON COLUMN duplicates.fingerprint IS 'The payload of the repeat.';
COMMENT ON COLUMN duplicates.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN duplicates.run_id IS 'The run that answered.';
COMMENT ON COLUMN duplicates.verdict IS 'repeat, mismatch (refused or accepted by policy) or quarantined (kept for a person).';
COMMENT ON COLUMN duplicates.count IS 'How many.';
COMMENT ON COLUMN duplicates.first_at IS 'When the first came.';
COMMENT ON COLUMN duplicates.last_at IS 'When the latest came.';
COMMENT ON COLUMN duplicates.payload IS 'The payload, where it differs from the first delivery''s.';
CREATE INDEX duplicates_by_age ON duplicates (namespace_id, last_at);

CREATE TABLE refusals (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    at           timestamptz NOT NULL DEFAULT moment(),
    code         text NOT NULL,
    message      text NOT NULL
);
COMMENT ON TABLE refusals IS 'Deliveries that were refused because their key could not be told: dedupe cannot be bypassed silently.';
COMMENT ON COLUMN refusals.id IS 'In order of writing.';
COMMENT ON COLUMN refusals.namespace_id IS 'Where.';
COMMENT ON COLUMN refusals.flow IS 'The flow.';
COMMENT ON COLUMN refusals.at IS 'When.';
COMMENT ON COLUMN refusals.code IS 'The error code that the sender was told.';
COMMENT ON COLUMN refusals.message IS 'What was wrong.';

CREATE TABLE kv (
    slot         smallint NOT NULL,
    namespace_id integer NOT NULL,
    entry        text NOT NULL,
    value        json NOT NULL,
    version      bigint NOT NULL DEFAULT 1,
    expires_at   timestamptz,
    PRIMARY KEY (slot, namespace_id, entry)
) WITH (fillfactor = 80);
COMMENT ON TABLE kv IS 'Small state that the flows of a namespace share.';
COMMENT ON COLUMN kv.slot IS 'The slot of namespace and entry.';
COMMENT ON COLUMN kv.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN kv.entry IS 'The entry''s name.';
COMMENT ON COLUMN kv.value IS 'Its value.';
COMMENT ON COLUMN kv.version IS 'Grows with every write.';
COMMENT ON COLUMN kv.expires_at IS 'When it vanishes.';
CREATE INDEX kv_by_expiry ON kv (expires_at) WHERE expires_at IS NOT NULL;
