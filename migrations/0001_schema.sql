-- The schema: configuration, runs with their journal and ledger, and everything that they wait for.
--
-- Every row that belongs to a key carries the key's slot in the first twelve bits of its identity and
-- is reached through that identity alone. No foreign key, no join and no constraint crosses slots, so
-- that slots can move between databases. docs/schema.sql is this schema as the database describes it.

-- --------------------------------------------------------------------------------------------- Time

CREATE TABLE clock (
    only_row    boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    time_offset interval NOT NULL DEFAULT '0',
    pause_version bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE clock IS 'What every write of the journal reads: the offset of Semel''s clock from the server''s, and the version of what is paused.';
COMMENT ON COLUMN clock.only_row IS 'Keeps the table at one row.';
COMMENT ON COLUMN clock.time_offset IS 'Added to the server''s clock by moment(). Zero in production; tests move it.';
COMMENT ON COLUMN clock.pause_version IS 'Rises with every pause and resume. An intent that was decided under another version is refused.';
INSERT INTO clock DEFAULT VALUES;

CREATE FUNCTION moment() RETURNS timestamptz
    LANGUAGE plpgsql VOLATILE PARALLEL RESTRICTED
    AS $$ BEGIN RETURN clock_timestamp() + (SELECT time_offset FROM clock); END $$;
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
    'Rolls the whole transaction back when one write of a batch was fenced off, so that a batch can be sent in one round trip.';

-- -------------------------------------------- Configuration: written rarely, cached by every server

CREATE TABLE namespaces (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT moment(),
    weight     integer NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    backlog_max integer CHECK (backlog_max > 0),
    history_ms bigint CHECK (history_ms > 0),
    UNIQUE (name)
);
COMMENT ON TABLE namespaces IS 'The owners of flows, runs and tokens.';
COMMENT ON COLUMN namespaces.id IS 'Short form of the name, carried by rows of which there are many.';
COMMENT ON COLUMN namespaces.name IS 'The name; it enters into every derived identity and never changes.';
COMMENT ON COLUMN namespaces.created_at IS 'When it was made.';
COMMENT ON COLUMN namespaces.weight IS 'Its share where servers are short of room: of two namespaces with due runs, one of weight 2 has twice as many taken as one of weight 1.';
COMMENT ON COLUMN namespaces.backlog_max IS 'How many of its runs may be due and wait for a server before new deliveries are refused; null where as many as come.';
COMMENT ON COLUMN namespaces.history_ms IS 'How long its ended runs are kept whose flow does not say; null where as long as the server says.';

CREATE TABLE flows (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id integer NOT NULL REFERENCES namespaces,
    name         text NOT NULL,
    draft        text,
    draft_at     timestamptz,
    live_release integer CHECK (live_release > 0),
    created_at   timestamptz NOT NULL DEFAULT moment(),
    live_at      timestamptz,
    UNIQUE (namespace_id, name)
);
COMMENT ON TABLE flows IS 'What authors write. Written to the home cell and cached by every server.';
COMMENT ON COLUMN flows.id IS 'Short form of namespace and name.';
COMMENT ON COLUMN flows.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN flows.name IS 'The flow''s name; it enters into every derived identity and never changes.';
COMMENT ON COLUMN flows.draft IS 'The working copy, as its author wrote it.';
COMMENT ON COLUMN flows.draft_at IS 'When the working copy was last pushed.';
COMMENT ON COLUMN flows.live_release IS 'The number of the release that new runs start on; null before the first promotion.';
COMMENT ON COLUMN flows.created_at IS 'When it was first pushed.';
COMMENT ON COLUMN flows.live_at IS 'When the live release replaced another; instants of its schedule count from here. Null before the first promotion.';

CREATE TABLE releases (
    id           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    flow_id      integer NOT NULL REFERENCES flows,
    number       integer NOT NULL CHECK (number > 0),
    digest       text NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    source       text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT moment(),
    first_live_at timestamptz,
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
COMMENT ON COLUMN releases.first_live_at IS 'When it first became live: going back to it is never refused. Null before.';

CREATE TABLE config_version (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version  bigint NOT NULL DEFAULT 1 CHECK (version > 0)
);
COMMENT ON TABLE config_version IS 'Counts changes of the configuration, so that a server can recognise a stale cache by one number.';
COMMENT ON COLUMN config_version.only_row IS 'Keeps the table at one row.';
COMMENT ON COLUMN config_version.version IS 'Grows with every change of flows, releases, namespaces or tokens.';
INSERT INTO config_version DEFAULT VALUES;

CREATE TABLE tokens (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL REFERENCES namespaces,
    name         text NOT NULL,
    digest       bytea NOT NULL CHECK (octet_length(digest) = 32),
    created_at   timestamptz NOT NULL DEFAULT moment(),
    expires_at   timestamptz NOT NULL,
    revoked_at   timestamptz,
    last_used_at timestamptz,
    groups       text[] NOT NULL DEFAULT '{}',
    role         text CHECK (role IN ('observer', 'viewer', 'operator', 'approver', 'editor', 'admin', 'worker')),
    rights       text[] NOT NULL CHECK (cardinality(rights) > 0 AND rights <@ ARRAY[
        'read', 'payload', 'start', 'operate', 'settle', 'replay', 'approve', 'write', 'promote',
        'connect', 'secret', 'override', 'redo', 'once', 'work', 'admin', 'audit', 'instance']),
    networks     cidr[] NOT NULL DEFAULT '{}' CHECK (array_position(networks, NULL) IS NULL),
    queues       text[] NOT NULL DEFAULT '{}' CHECK (array_position(queues, NULL) IS NULL),
    kind         text NOT NULL DEFAULT 'api' CHECK (kind IN ('api', 'person')),
    issuer       text,
    subject      text,
    derived      boolean NOT NULL DEFAULT true,
    made_by      uuid REFERENCES tokens,
    person       uuid REFERENCES tokens,
    ends_at      timestamptz,
    sealed       bytea,
    sealed_until timestamptz,
    CHECK (cardinality(queues) = 0 OR 'work' = ANY (rights)),
    CHECK ((kind = 'person') = (issuer IS NOT NULL) AND (kind = 'person') = (subject IS NOT NULL)),
    CHECK ((person IS NULL) = (ends_at IS NULL)),
    CHECK ((sealed IS NULL) = (sealed_until IS NULL))
);
COMMENT ON TABLE tokens IS 'API tokens, and the people who sign in through an identity provider. Only a digest of the secret is kept; for 10 minutes after a keyed request the token is also kept, encrypted with the master key.';
COMMENT ON COLUMN tokens.id IS 'The public part of the token.';
COMMENT ON COLUMN tokens.namespace_id IS 'The one namespace that it gives access to.';
COMMENT ON COLUMN tokens.name IS 'What its owner calls it.';
COMMENT ON COLUMN tokens.digest IS 'SHA-256 of the secret part, which has 256 random bits.';
COMMENT ON COLUMN tokens.created_at IS 'When it was made.';
COMMENT ON COLUMN tokens.expires_at IS 'When it stops working.';
COMMENT ON COLUMN tokens.revoked_at IS 'When an operator revoked it.';
COMMENT ON COLUMN tokens.last_used_at IS 'When it was last used, to the minute.';
COMMENT ON COLUMN tokens.groups IS 'The groups that its owner belongs to: an approval may be from one of them.';
COMMENT ON COLUMN tokens.role IS 'The role that it was made with; its rights are in rights, as they were then.';
COMMENT ON COLUMN tokens.rights IS 'What it may do: every route of the API needs one of them.';
COMMENT ON COLUMN tokens.networks IS 'The networks that it is accepted from; none listed is anywhere.';
COMMENT ON COLUMN tokens.queues IS 'The queues whose tasks it may work on; none listed is every queue.';
COMMENT ON COLUMN tokens.kind IS 'An API token, or a person: nobody has the secret of a person''s row, which only sign-ins stand for.';
COMMENT ON COLUMN tokens.issuer IS 'The identity provider that knows the person; null for an API token.';
COMMENT ON COLUMN tokens.subject IS 'What the provider knows the person by; null for an API token.';
COMMENT ON COLUMN tokens.derived IS 'Whether its secret may have been derived from the installation''s secret key, so that whoever has that key can compute it: true unless the binary that stored it says that it was drawn at random.';
COMMENT ON COLUMN tokens.made_by IS 'The token or the person that made it; null where somebody did with access to the database itself.';
COMMENT ON COLUMN tokens.person IS 'The person that made it, or the token that made it; null where no person of the namespace did. It works no longer than for a while after the last sign-in of that person.';
COMMENT ON COLUMN tokens.ends_at IS 'When it stops working at the latest, however often that person signs in; null where no person made it.';
COMMENT ON COLUMN tokens.sealed IS 'The token, encrypted with the master key, for a repeat of the request that made it; null soon after.';
COMMENT ON COLUMN tokens.sealed_until IS 'Until when a repeat of that request is shown the token.';
CREATE INDEX tokens_by_age ON tokens (namespace_id, created_at, id);
CREATE INDEX tokens_by_maker ON tokens (made_by) WHERE made_by IS NOT NULL;
CREATE INDEX tokens_by_owner ON tokens (person) WHERE person IS NOT NULL;
CREATE UNIQUE INDEX tokens_by_person ON tokens (issuer, subject, namespace_id) WHERE kind = 'person';
CREATE INDEX tokens_by_seal ON tokens (sealed_until) WHERE sealed_until IS NOT NULL;

CREATE TABLE group_roles (
    namespace_id integer NOT NULL REFERENCES namespaces,
    group_name   text NOT NULL,
    role         text NOT NULL CHECK (role IN ('observer', 'viewer', 'operator', 'approver', 'editor', 'admin', 'worker')),
    rights       text[] NOT NULL DEFAULT '{}',
    changed_at   timestamptz NOT NULL DEFAULT moment(),
    PRIMARY KEY (namespace_id, group_name)
);
COMMENT ON TABLE group_roles IS 'Which role the members of a group have who sign in through an identity provider.';
COMMENT ON COLUMN group_roles.namespace_id IS 'The namespace that they have it in.';
COMMENT ON COLUMN group_roles.group_name IS 'The group, as the identity provider calls it.';
COMMENT ON COLUMN group_roles.role IS 'The role.';
COMMENT ON COLUMN group_roles.rights IS 'What they may do besides: rights that are given one by one.';
COMMENT ON COLUMN group_roles.changed_at IS 'When the group got this role.';
CREATE INDEX group_roles_by_group ON group_roles (group_name);

CREATE TABLE sign_in_codes (
    digest     bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
    token_id   uuid NOT NULL REFERENCES tokens,
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE sign_in_codes IS 'Codes that people sign in to the console with, each once. The code itself is never stored.';
COMMENT ON COLUMN sign_in_codes.digest IS 'SHA-256 of the code, which has 256 random bits.';
COMMENT ON COLUMN sign_in_codes.token_id IS 'The token that made it, whose rights the sign-in has.';
COMMENT ON COLUMN sign_in_codes.expires_at IS 'When it stops working.';
CREATE INDEX sign_in_codes_by_expiry ON sign_in_codes (expires_at);

CREATE TABLE sign_ins (
    digest     bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
    token_id   uuid NOT NULL REFERENCES tokens,
    created_at timestamptz NOT NULL DEFAULT moment(),
    seen_at    timestamptz NOT NULL DEFAULT moment(),
    expires_at timestamptz NOT NULL,
    provider_session bytea CHECK (octet_length(provider_session) = 32)
);
COMMENT ON TABLE sign_ins IS 'Browsers that are signed in to the console. What a browser holds is never stored.';
COMMENT ON COLUMN sign_ins.digest IS 'SHA-256 of the cookie, which has 256 random bits.';
COMMENT ON COLUMN sign_ins.token_id IS 'The token whose rights it has; it works while the token does.';
COMMENT ON COLUMN sign_ins.created_at IS 'When the person signed in.';
COMMENT ON COLUMN sign_ins.seen_at IS 'When it was last used, to the minute.';
COMMENT ON COLUMN sign_ins.expires_at IS 'When it stops working, however often it is used. That of a person who signed in through an identity provider moves each time that the provider names their groups.';
COMMENT ON COLUMN sign_ins.provider_session IS 'SHA-256 of the issuer and of what the identity provider knows its session with the browser by, where it says so. The provider can end the sign-in by it.';
CREATE INDEX sign_ins_by_expiry ON sign_ins (expires_at);
CREATE INDEX sign_ins_by_token ON sign_ins (token_id);
CREATE INDEX sign_ins_by_provider_session ON sign_ins (provider_session) WHERE provider_session IS NOT NULL;

CREATE TABLE logout_tokens (
    digest     bytea PRIMARY KEY CHECK (octet_length(digest) = 32),
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE logout_tokens IS 'Logout tokens of identity providers that were used: each works once.';
COMMENT ON COLUMN logout_tokens.digest IS 'SHA-256 of the issuer and the token''s identity.';
COMMENT ON COLUMN logout_tokens.expires_at IS 'When a token of this identity would be too old anyway.';
CREATE INDEX logout_tokens_by_expiry ON logout_tokens (expires_at);

CREATE TABLE searches (
    namespace_id integer NOT NULL REFERENCES namespaces,
    owner        uuid NOT NULL,
    name         text NOT NULL,
    query        text NOT NULL,
    saved_by     text NOT NULL,
    saved_at     timestamptz NOT NULL DEFAULT moment(),
    PRIMARY KEY (namespace_id, owner, name)
);
COMMENT ON TABLE searches IS 'Searches of runs that people saved in the console.';
COMMENT ON COLUMN searches.namespace_id IS 'The namespace that is searched.';
COMMENT ON COLUMN searches.owner IS 'The token or the person whose it is; zero where everybody in the namespace has it.';
COMMENT ON COLUMN searches.name IS 'What it is called.';
COMMENT ON COLUMN searches.query IS 'What is searched for, as in the search box.';
COMMENT ON COLUMN searches.saved_by IS 'Who saved it.';
COMMENT ON COLUMN searches.saved_at IS 'When it was saved.';

CREATE TABLE connections (
    namespace_id integer NOT NULL,
    name         text NOT NULL,
    version      bigint NOT NULL DEFAULT 1 CHECK (version > 0),
    connection   json NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    changed_at   timestamptz NOT NULL DEFAULT moment(),
    PRIMARY KEY (namespace_id, name)
);
COMMENT ON TABLE connections IS 'Destinations as their owners describe them. They name secrets and hold none.';
COMMENT ON COLUMN connections.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN connections.name IS 'What flows call it.';
COMMENT ON COLUMN connections.version IS 'Grows with every change.';
COMMENT ON COLUMN connections.connection IS 'Address, authentication, limits.';
COMMENT ON COLUMN connections.created_at IS 'When it was made.';
COMMENT ON COLUMN connections.changed_at IS 'When it was changed last.';

CREATE TABLE data_keys (
    namespace_id integer NOT NULL,
    number       integer NOT NULL CHECK (number > 0),
    wrapped      bytea NOT NULL,
    wrapped_by   text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    PRIMARY KEY (namespace_id, number)
);
COMMENT ON TABLE data_keys IS 'The keys that encrypt secrets, each itself encrypted with a key from outside the database.';
COMMENT ON COLUMN data_keys.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN data_keys.number IS '1, 2, 3 …; the highest encrypts new secrets.';
COMMENT ON COLUMN data_keys.wrapped IS 'Nonce and encrypted key.';
COMMENT ON COLUMN data_keys.wrapped_by IS 'Which outer key encrypted it: eight bytes of that key''s digest, in hex.';
COMMENT ON COLUMN data_keys.created_at IS 'When it was made.';

CREATE TABLE secrets (
    namespace_id integer NOT NULL,
    name         text NOT NULL,
    version      integer NOT NULL CHECK (version > 0),
    data_key     integer NOT NULL CHECK (data_key > 0),
    sealed       bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    retires_at   timestamptz,
    hosts        text[] NOT NULL DEFAULT '{}',
    PRIMARY KEY (namespace_id, name, version)
);
COMMENT ON TABLE secrets IS 'Secrets, encrypted. They can be set and used, and never read back.';
COMMENT ON COLUMN secrets.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN secrets.name IS 'What connections and triggers call it.';
COMMENT ON COLUMN secrets.version IS '1, 2, 3 …; the highest is used for sending.';
COMMENT ON COLUMN secrets.data_key IS 'The number of the key that encrypted it.';
COMMENT ON COLUMN secrets.sealed IS 'Nonce and encrypted text; bound to namespace, name and version.';
COMMENT ON COLUMN secrets.created_at IS 'When it was set.';
COMMENT ON COLUMN secrets.retires_at IS 'Until when an older version still verifies deliveries; null for the latest.';
COMMENT ON COLUMN secrets.hosts IS 'The hosts that it may be sent to; empty means any host.';

CREATE TABLE subscriptions (
    namespace_id integer NOT NULL,
    name         text NOT NULL,
    event        text NOT NULL,
    connection   text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    PRIMARY KEY (namespace_id, name)
);
COMMENT ON TABLE subscriptions IS 'Webhooks that receive events.';
COMMENT ON COLUMN subscriptions.namespace_id IS 'The namespace whose events it receives.';
COMMENT ON COLUMN subscriptions.name IS 'What its owner calls it.';
COMMENT ON COLUMN subscriptions.event IS 'The event; a trailing .* matches every event with that prefix.';
COMMENT ON COLUMN subscriptions.connection IS 'The webhook connection that deliveries go to.';
COMMENT ON COLUMN subscriptions.created_at IS 'When it was made. Earlier events are not delivered.';

-- ---------------------------------------------- Runs: claims, the queue, the journal and the ledger
--
-- These five tables are written with every run. PostgreSQL reads and plans the text of a CHECK again in each
-- statement that writes its table, which takes it about 5 µs; enums cost nothing. So the tables have enums for their
-- words, and a CHECK only for what a wrong statement could break without being noticed.

CREATE TABLE claims (
    id                  uuid PRIMARY KEY,
    run_id              uuid NOT NULL,
    fingerprint         uuid NOT NULL,
    expires_at          timestamptz,
    run_number          integer,
    last_run            uuid,
    last_partition_date date,
    counted_from        timestamptz,
    dropped_at          timestamptz,
    intent              integer,
    kept_until          timestamptz
);
COMMENT ON TABLE claims IS 'Which run answers for each key. The primary key is the promise: one key, one run.';
COMMENT ON COLUMN claims.id IS 'Digest of namespace, flow and key; slot in front.';
COMMENT ON COLUMN claims.run_id IS 'The run that answers for the key; where the key is free, the last that did.';
COMMENT ON COLUMN claims.fingerprint IS 'The payload of the delivery that made the run, to tell a repeat from a mismatch.';
COMMENT ON COLUMN claims.expires_at IS 'When retention looks at the key: its run must have ended, and keep counts from that end. Null where the key is free. Rounded up to the minute, so that the index stays small.';
COMMENT ON COLUMN claims.run_number IS 'How many runs of the key expired or were dropped before run_id. Null for the first.';
COMMENT ON COLUMN claims.last_run IS 'The run before run_id; where the key is free, run_id itself.';
COMMENT ON COLUMN claims.last_partition_date IS 'Which partition holds the history of last_run. The row stays for as long as that history.';
COMMENT ON COLUMN claims.counted_from IS 'From when keep counts, where that is not the acceptance of the run: expires_at less this is keep.';
COMMENT ON COLUMN claims.intent IS 'How many times the key came back as a new intent, whose effects have new keys. Null for never.';
COMMENT ON COLUMN claims.kept_until IS 'Until when destinations remember keys of runs that are gone, without end at infinity: then the row goes, unless runs are left. Null where nothing is remembered.';
COMMENT ON COLUMN claims.dropped_at IS 'When an operator freed the key. Null where the key is held, or is free because it expired.';
CREATE INDEX claims_by_expiry ON claims (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX claims_by_memory ON claims (kept_until) WHERE kept_until IS NOT NULL;

CREATE TABLE kept_generations (
    first_run  uuid NOT NULL,
    step       text NOT NULL,
    generation integer NOT NULL CHECK (generation >= 0),
    intent     integer NOT NULL CHECK (intent >= 0),
    undone     boolean NOT NULL,
    kept_until timestamptz NOT NULL,
    PRIMARY KEY (first_run, step)
);
COMMENT ON TABLE kept_generations IS 'Effects that were undone, or performed again under another key: the next run of their key must know of them when the history is gone. Removed with the claim.';
COMMENT ON COLUMN kept_generations.first_run IS 'The first run of the key, or the child run at the same place of it: the keys of effects derive from it.';
COMMENT ON COLUMN kept_generations.step IS 'The step''s path in the flow.';
COMMENT ON COLUMN kept_generations.generation IS 'The latest generation of the effect.';
COMMENT ON COLUMN kept_generations.intent IS 'How many times the key had come back as a new intent by then.';
COMMENT ON COLUMN kept_generations.undone IS 'Whether the effect of that generation was undone: the next one has another.';
COMMENT ON COLUMN kept_generations.kept_until IS 'Until when the destination may remember the key of that generation: infinity for a marker of a db step.';

CREATE TYPE run_state AS ENUM
    ('active', 'in_doubt', 'needs_review', 'quarantined', 'succeeded', 'failed', 'cancelled', 'superseded');
CREATE TABLE runs (
    id             uuid PRIMARY KEY,
    claim_id       uuid NOT NULL,
    namespace_id   integer NOT NULL,
    release_id     integer NOT NULL,
    partition_date date NOT NULL,
    state          run_state NOT NULL DEFAULT 'active',
    key            bytea NOT NULL,
    delivery_id    uuid NOT NULL,
    accepted_at    timestamptz NOT NULL,
    ended_at       timestamptz,
    result         json,
    fault          json,
    fault_code     text,
    parent_id      uuid,
    has_inherited  boolean NOT NULL DEFAULT false,
    closed_at      timestamptz,
    erased_at      timestamptz,
    CONSTRAINT ended_when_final
        CHECK ((ended_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled', 'superseded')))
) WITH (fillfactor = 85);
COMMENT ON TABLE runs IS 'One row per run: what it is, and how it ended. What changes often is in the queue.';
COMMENT ON COLUMN runs.id IS 'Derived from the claim; slot in front.';
COMMENT ON COLUMN runs.claim_id IS 'The claim that made it.';
COMMENT ON COLUMN runs.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN runs.release_id IS 'The release that it started on, and stays on.';
COMMENT ON COLUMN runs.partition_date IS 'The day it was accepted (UTC): which partition holds its journal and effects.';
COMMENT ON COLUMN runs.state IS 'Active covers queued, running and waiting: the queue says which.';
COMMENT ON COLUMN runs.key IS 'The key, as it came.';
COMMENT ON COLUMN runs.delivery_id IS 'The delivery that made it, so that a server can recognise its own write after a lost answer.';
COMMENT ON COLUMN runs.accepted_at IS 'When the delivery was accepted.';
COMMENT ON COLUMN runs.ended_at IS 'When it ended.';
COMMENT ON COLUMN runs.result IS 'Its result, if it succeeded.';
COMMENT ON COLUMN runs.fault IS 'Why it failed or stopped.';
COMMENT ON COLUMN runs.fault_code IS 'The code of the fault. A column, because no statement reads JSON that others wrote: the character zero in it is an error there.';
COMMENT ON COLUMN runs.parent_id IS 'The run that it is a child of, where it is an item of foreach or a branch of parallel.';
COMMENT ON COLUMN runs.has_inherited IS 'Whether it read what earlier runs of its key did. Written when it ends: retention lets those go then.';
COMMENT ON COLUMN runs.closed_at IS 'Since when it is not resumed or replayed any more: an erasure of its payloads began, or a part of its child runs was deleted.';
COMMENT ON COLUMN runs.erased_at IS 'When the erasure of its payloads was complete. Null while one goes on, or failed.';
CREATE INDEX runs_by_age ON runs (namespace_id, accepted_at, id) WHERE parent_id IS NULL;
CREATE INDEX runs_by_release ON runs (release_id, accepted_at, id) WHERE parent_id IS NULL;

CREATE TYPE queue_stage AS ENUM ('ready', 'retrying', 'waiting', 'stopped');
CREATE TABLE queue (
    run_id         uuid PRIMARY KEY,
    due_at         timestamptz NOT NULL,
    holder         uuid,
    epoch          bigint NOT NULL,
    seq            integer NOT NULL,
    stalled_takes  smallint NOT NULL DEFAULT 0,
    suspects       smallint NOT NULL DEFAULT 0,
    stage          queue_stage NOT NULL DEFAULT 'ready',
    cancel         boolean NOT NULL DEFAULT false,
    partition_date date NOT NULL,
    woken          boolean NOT NULL DEFAULT false,
    namespace_id   integer NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE queue IS 'Runs that have not ended: who holds each, and when it is due. Narrow, because it churns.';
COMMENT ON COLUMN queue.run_id IS 'The run.';
COMMENT ON COLUMN queue.due_at IS 'When a worker may take it. In the future for sleeping runs; infinity for runs that only an operator or a callback wakes.';
COMMENT ON COLUMN queue.holder IS 'The session that holds it; null when it is not held.';
COMMENT ON COLUMN queue.epoch IS 'Grows with every take. A write that carries an older one is refused.';
COMMENT ON COLUMN queue.seq IS 'The number of the journal''s last row: the next write must follow it.';
COMMENT ON COLUMN queue.stalled_takes IS 'Takes since the last progress; five quarantine the run. From the third on, only takes of this run alone count.';
COMMENT ON COLUMN queue.suspects IS 'How many runs without progress its last take as one of them took together; negative where it was put back before it began. 0 where there was none since its last progress.';
COMMENT ON COLUMN queue.stage IS 'Why it is not held: ready, retrying, waiting, or stopped until an operator acts.';
COMMENT ON COLUMN queue.cancel IS 'An operator asked for its end; its holder sees this with its next write.';
COMMENT ON COLUMN queue.partition_date IS 'Copied from the run, to find its journal.';
COMMENT ON COLUMN queue.woken IS 'Whether something came for the run while a worker held it: the run is due at once when the worker lets it sleep.';
COMMENT ON COLUMN queue.namespace_id IS 'The namespace that owns the run: namespaces with due runs take turns.';
CREATE INDEX queue_by_due ON queue (namespace_id, due_at) WHERE holder IS NULL;
CREATE INDEX queue_by_holder ON queue (holder) WHERE holder IS NOT NULL;

CREATE TABLE sessions (
    id         uuid PRIMARY KEY,
    process    text NOT NULL,
    version    text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL DEFAULT moment(),
    expires_at timestamptz NOT NULL,
    lost_at    timestamptz,
    leaving_at timestamptz,
    boot_id     uuid,
    lock_device bigint,
    lock_inode  bigint
);
COMMENT ON TABLE sessions IS 'Live workers. The session is renewed, not the runs that it holds.';
COMMENT ON COLUMN sessions.id IS 'One stretch of a process''s life: a lost lease ends it, and the process begins another.';
COMMENT ON COLUMN sessions.process IS 'Host and process number, for operators.';
COMMENT ON COLUMN sessions.version IS 'The version of the program, for operators.';
COMMENT ON COLUMN sessions.started_at IS 'When it began.';
COMMENT ON COLUMN sessions.expires_at IS 'When its runs may be taken by others, unless it is renewed before.';
COMMENT ON COLUMN sessions.lost_at IS 'When its runs began to be freed; it is never renewed after that, whatever the clock says.';
COMMENT ON COLUMN sessions.leaving_at IS 'When its process began to stop: it completes what it holds, and others do its background duties.';
COMMENT ON COLUMN sessions.boot_id IS 'The boot of the machine on which its process holds the lock of a state folder. Null where it holds none: then only the lease ends the session.';
COMMENT ON COLUMN sessions.lock_device IS 'The device of the lock''s file, as the system numbers it. Null where boot_id is.';
COMMENT ON COLUMN sessions.lock_inode IS 'The number of the lock''s file on its device. Null where boot_id is.';

CREATE TABLE journal (
    partition_date date NOT NULL,
    run_id         uuid NOT NULL,
    seq            integer NOT NULL,
    epoch          bigint NOT NULL,
    at             timestamptz NOT NULL,
    events         json NOT NULL,
    PRIMARY KEY (partition_date, run_id, seq)
) PARTITION BY RANGE (partition_date);
COMMENT ON TABLE journal IS 'What happened to each run, one row per write. Append-only; dropped by partition.';
COMMENT ON COLUMN journal.partition_date IS 'The day on which the run was accepted.';
COMMENT ON COLUMN journal.run_id IS 'The run.';
COMMENT ON COLUMN journal.seq IS '1, 2, 3 … without a gap.';
COMMENT ON COLUMN journal.epoch IS 'The lease under which it was written.';
COMMENT ON COLUMN journal.at IS 'When it was written.';
COMMENT ON COLUMN journal.events IS 'The events of this write, in order.';
CREATE TABLE journal_default PARTITION OF journal DEFAULT;
COMMENT ON TABLE journal_default IS 'Rows whose month has no partition: not created yet, or dropped.';

CREATE TYPE effect_state AS ENUM ('pending', 'retrying', 'done', 'failed', 'in_doubt');
CREATE TYPE effect_guard AS ENUM ('transaction', 'key', 'natural', 'probe', 'repeat', 'review');
CREATE TABLE effects (
    partition_date date NOT NULL,
    id             uuid NOT NULL,
    run_id         uuid NOT NULL,
    namespace_id   integer NOT NULL,
    step           text NOT NULL,
    kind           text NOT NULL,
    guard          effect_guard NOT NULL,
    state          effect_state NOT NULL,
    attempt        integer NOT NULL,
    intended_at    timestamptz NOT NULL,
    settled_at     timestamptz,
    external_id    text,
    note           text,
    PRIMARY KEY (partition_date, id),
    CONSTRAINT attempted_and_settled_unless_pending
        CHECK ((attempt > 0 OR (attempt = 0 AND state = 'done'))
               AND (settled_at IS NULL) = (state = 'pending'))
) PARTITION BY RANGE (partition_date);
COMMENT ON TABLE effects IS 'The ledger: one row per change to the outside world, written before the change is made; an effect on kv has its row from the commit that makes it.';
COMMENT ON COLUMN effects.partition_date IS 'The day on which the run was accepted.';
COMMENT ON COLUMN effects.id IS 'The key that the destination is sent. Begins with the run''s first eight bytes.';
COMMENT ON COLUMN effects.run_id IS 'The run.';
COMMENT ON COLUMN effects.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN effects.step IS 'The step''s path in the flow.';
COMMENT ON COLUMN effects.kind IS 'The kind of step, e.g. http or kv.';
COMMENT ON COLUMN effects.guard IS 'What makes a repeat safe.';
COMMENT ON COLUMN effects.state IS 'Pending from before the first byte leaves until the outcome is known.';
COMMENT ON COLUMN effects.attempt IS 'The number of the latest attempt; 0 where this run sent nothing: a probe found the effect, or another holder of its business key had made it.';
COMMENT ON COLUMN effects.intended_at IS 'When the latest attempt''s intent was written.';
COMMENT ON COLUMN effects.settled_at IS 'When its outcome was written.';
COMMENT ON COLUMN effects.external_id IS 'The destination''s identity for what was made: with the run''s key, the map from source to destination.';
COMMENT ON COLUMN effects.note IS 'What was seen, if it did not simply succeed.';
CREATE INDEX effects_by_time ON effects USING brin (intended_at) WITH (autosummarize = on, pages_per_range = 32);
CREATE INDEX effects_by_external_id ON effects (namespace_id, external_id) WHERE external_id IS NOT NULL;
CREATE TABLE effects_default PARTITION OF effects DEFAULT
    WITH (fillfactor = 70);
COMMENT ON TABLE effects_default IS 'Rows whose month has no partition: not created yet, or dropped.';

CREATE TYPE attention_kind AS ENUM ('doubt', 'needs_review', 'quarantined', 'named_effect');
CREATE TABLE attention (
    subject_id     uuid NOT NULL,
    kind           attention_kind NOT NULL,
    partition_date date NOT NULL,
    namespace_id   integer NOT NULL,
    run_id         uuid,
    flow_id        integer,
    step           text NOT NULL,
    since          timestamptz NOT NULL,
    accepted_at    timestamptz,
    is_child       boolean NOT NULL,
    assignee       text,
    note           text,
    snoozed_until  timestamptz,
    PRIMARY KEY (subject_id, kind, partition_date),
    CONSTRAINT of_a_run_or_a_name CHECK ((kind = 'named_effect') = (run_id IS NULL) AND (kind = 'named_effect') = (flow_id IS NULL) AND (kind = 'named_effect') = (accepted_at IS NULL))
);
COMMENT ON TABLE attention IS 'Effects in doubt, runs that need review or are quarantined, and names of effects that are in doubt. Written and removed in the commits that make it so; an index on the states themselves would cost every effect and every run.';
COMMENT ON COLUMN attention.subject_id IS 'The effect, for a doubt; the named effect, for a name; otherwise the run.';
COMMENT ON COLUMN attention.kind IS 'What is the matter.';
COMMENT ON COLUMN attention.partition_date IS 'Copied from the run, to find the effect; -infinity for a name.';
COMMENT ON COLUMN attention.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN attention.run_id IS 'The run. Null for a name, which belongs to none.';
COMMENT ON COLUMN attention.flow_id IS 'The flow. Null for a name.';
COMMENT ON COLUMN attention.step IS 'The step''s path in the flow, for a doubt and for a name that a run holds; otherwise empty.';
COMMENT ON COLUMN attention.since IS 'When the latest attempt was intended, for a doubt; when its holder began it, for a name; otherwise when the run was stopped.';
COMMENT ON COLUMN attention.accepted_at IS 'Copied from the run, by which runs are listed. Null for a name.';
COMMENT ON COLUMN attention.is_child IS 'Whether the run is a child of another.';
COMMENT ON COLUMN attention.assignee IS 'Who looks into a doubt, as an operator said.';
COMMENT ON COLUMN attention.note IS 'What operators noted about a doubt.';
COMMENT ON COLUMN attention.snoozed_until IS 'Until when a doubt is put off.';
CREATE INDEX attention_by_age ON attention (kind, namespace_id, since, subject_id);
CREATE INDEX attention_by_step ON attention (flow_id, step, since, subject_id) WHERE kind = 'doubt';
CREATE INDEX attention_of_flow ON attention (flow_id, kind, accepted_at, run_id);
CREATE INDEX attention_by_run ON attention (namespace_id, kind, accepted_at, run_id);
CREATE INDEX attention_snoozed ON attention (namespace_id, since, subject_id) WHERE snoozed_until IS NOT NULL;
CREATE INDEX attention_of_children ON attention (namespace_id, accepted_at, run_id) WHERE is_child;

CREATE TABLE late_responses (
    run_id    uuid NOT NULL,
    effect_id uuid NOT NULL,
    attempt   integer NOT NULL CHECK (attempt > 0),
    epoch     bigint NOT NULL CHECK (epoch >= 0),
    at        timestamptz NOT NULL DEFAULT moment(),
    response  json NOT NULL,
    PRIMARY KEY (run_id, effect_id, attempt)
);
COMMENT ON TABLE late_responses IS 'Responses that reached a worker after its lease was lost. They may turn doubt into done, nothing else.';
COMMENT ON COLUMN late_responses.run_id IS 'The run.';
COMMENT ON COLUMN late_responses.effect_id IS 'The effect that was answered.';
COMMENT ON COLUMN late_responses.attempt IS 'The attempt that was answered.';
COMMENT ON COLUMN late_responses.epoch IS 'The lease that the worker had lost.';
COMMENT ON COLUMN late_responses.at IS 'When it was recorded.';
COMMENT ON COLUMN late_responses.response IS 'What the destination answered.';

CREATE TYPE child_state AS ENUM ('pending', 'open', 'succeeded', 'failed', 'cancelled');
CREATE TABLE child_runs (
    parent_id uuid NOT NULL,
    step      text NOT NULL,
    index     integer NOT NULL CHECK (index >= 0),
    run_id    uuid NOT NULL,
    namespace_id integer NOT NULL,
    key       text NOT NULL,
    state     child_state NOT NULL DEFAULT 'pending',
    item      json,
    ended_at  timestamptz,
    first_id  uuid,
    last_id   uuid,
    UNIQUE (run_id),
    PRIMARY KEY (parent_id, step, index),
    CONSTRAINT ended_when_final CHECK ((ended_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled')))
) WITH (fillfactor = 70);
COMMENT ON TABLE child_runs IS 'Items of foreach and branches of parallel, each with the run that performs its steps.';
COMMENT ON COLUMN child_runs.parent_id IS 'The parent run.';
COMMENT ON COLUMN child_runs.step IS 'The step of the parent run.';
COMMENT ON COLUMN child_runs.index IS 'Its position in the list.';
COMMENT ON COLUMN child_runs.run_id IS 'The child run; derived from parent, step and key, so that a repeat finds the same run.';
COMMENT ON COLUMN child_runs.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN child_runs.key IS 'What distinguishes the item from the others, for operators.';
COMMENT ON COLUMN child_runs.state IS 'Pending until its run starts, open until it ends.';
COMMENT ON COLUMN child_runs.item IS 'The item, until its run starts; then the journal has it.';
COMMENT ON COLUMN child_runs.ended_at IS 'When it ended.';
COMMENT ON COLUMN child_runs.first_id IS 'The child run at the same place of the first run of the key: its effects have the keys of that one. Null where the parent is the first.';
COMMENT ON COLUMN child_runs.last_id IS 'The last child run at this place before this one, whose ledger it reads. Null where there was none.';
CREATE INDEX child_runs_left ON child_runs (parent_id, step, state, index) WHERE state <> 'succeeded';
CREATE INDEX child_runs_by_key ON child_runs (namespace_id, hashtextextended(key, 0));

-- ------------------------------------------- What runs wait for: callbacks, events, workers, people

CREATE TYPE wait_state AS ENUM ('open', 'answered', 'elapsed', 'cancelled');
CREATE TABLE waits (
    id        uuid PRIMARY KEY,
    run_id    uuid NOT NULL,
    namespace_id integer,
    state     wait_state NOT NULL,
    step      text,
    opened_at timestamptz,
    until     timestamptz,
    ended_at  timestamptz,
    payload   json,
    CONSTRAINT ended_unless_open CHECK ((ended_at IS NULL) = (state = 'open'))
);
COMMENT ON TABLE waits IS 'Waits that a callback can end. A callback may come before its wait opens: its row then comes first.';
COMMENT ON COLUMN waits.id IS 'Derived from the first run of the key and the step, so that the address of a callback holds for every run of the key.';
COMMENT ON COLUMN waits.run_id IS 'The run.';
COMMENT ON COLUMN waits.namespace_id IS 'The namespace that owns it; null until the wait opens.';
COMMENT ON COLUMN waits.state IS 'The first writer ends it; it opens again if its run is resumed.';
COMMENT ON COLUMN waits.step IS 'The step''s path; null until the wait opens.';
COMMENT ON COLUMN waits.opened_at IS 'When the run came to it; null for an early callback.';
COMMENT ON COLUMN waits.until IS 'When it times out.';
COMMENT ON COLUMN waits.ended_at IS 'When it ended.';
COMMENT ON COLUMN waits.payload IS 'What the callback brought; a wait that opened again keeps it until the next one.';
CREATE INDEX waits_by_run ON waits (run_id);
CREATE INDEX waits_by_age ON waits (namespace_id, opened_at, id) WHERE opened_at IS NOT NULL;

CREATE TABLE event_waits (
    wait_id      uuid PRIMARY KEY,
    run_id       uuid NOT NULL,
    namespace_id integer NOT NULL,
    event        text NOT NULL,
    path         text NOT NULL,
    value        text NOT NULL
);
COMMENT ON TABLE event_waits IS 'Open waits for events: finds the runs that an event may wake, without reading each.';
COMMENT ON COLUMN event_waits.wait_id IS 'The wait.';
COMMENT ON COLUMN event_waits.run_id IS 'Its run.';
COMMENT ON COLUMN event_waits.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN event_waits.event IS 'The event.';
COMMENT ON COLUMN event_waits.path IS 'The part of the event that the wait matches on; empty where it matches every event of the name.';
COMMENT ON COLUMN event_waits.value IS 'The value at that path, as JSON text; empty where there is none.';
CREATE INDEX event_waits_by_event ON event_waits (namespace_id, event, path, value, wait_id);
CREATE INDEX event_waits_by_value ON event_waits (namespace_id, value);

CREATE TYPE task_state AS ENUM ('open', 'held', 'done', 'failed', 'lost', 'withdrawn');
CREATE TABLE tasks (
    id             uuid PRIMARY KEY,
    run_id         uuid NOT NULL,
    namespace_id   integer NOT NULL,
    queue          text NOT NULL,
    step           text NOT NULL,
    state          task_state NOT NULL DEFAULT 'open',
    attempt        integer NOT NULL CHECK (attempt > 0),
    token          bigint NOT NULL DEFAULT 0 CHECK (token >= 0),
    lease_ms       bigint NOT NULL CHECK (lease_ms > 0),
    lease_until    timestamptz,
    worker         text,
    claim_id       uuid,
    claimed_by     uuid[] NOT NULL DEFAULT '{}' CHECK (cardinality(claimed_by) <= 16),
    opened_at      timestamptz NOT NULL,
    until          timestamptz,
    ended_at       timestamptz,
    answered_token bigint,
    input          json NOT NULL,
    answer         json,
    CONSTRAINT leased_while_held CHECK (lease_until IS NOT NULL OR state <> 'held')
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE tasks IS 'Work that external workers take from a queue. The run opens it; a worker answers under the token of its claim.';
COMMENT ON COLUMN tasks.id IS 'The effect: the key that the worker passes on. Begins with the run''s first eight bytes.';
COMMENT ON COLUMN tasks.run_id IS 'The run.';
COMMENT ON COLUMN tasks.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN tasks.queue IS 'The queue that workers take it from.';
COMMENT ON COLUMN tasks.step IS 'The step''s path in the flow.';
COMMENT ON COLUMN tasks.state IS 'Open until a worker claims it, held until the worker answers or its lease is over.';
COMMENT ON COLUMN tasks.attempt IS 'The number of the latest attempt, as the ledger has it.';
COMMENT ON COLUMN tasks.token IS 'The fencing token: grows with every claim. An answer under an older one is recorded as a late response.';
COMMENT ON COLUMN tasks.lease_ms IS 'How long a worker may be silent, in milliseconds.';
COMMENT ON COLUMN tasks.lease_until IS 'When the worker that holds it is taken to be lost.';
COMMENT ON COLUMN tasks.worker IS 'What the latest worker calls itself.';
COMMENT ON COLUMN tasks.claim_id IS 'The request that claimed it, so that a repeat of the request gets the same tasks.';
COMMENT ON COLUMN tasks.claimed_by IS 'The API tokens of the latest claims, at most 16: the last one belongs to the latest fencing token, the one before to the one before it. Nobody else answers under it.';
COMMENT ON COLUMN tasks.opened_at IS 'When the latest attempt was opened: the oldest is claimed first.';
COMMENT ON COLUMN tasks.until IS 'When the task times out.';
COMMENT ON COLUMN tasks.ended_at IS 'When the latest attempt ended.';
COMMENT ON COLUMN tasks.answered_token IS 'The token under which the latest answer was given.';
COMMENT ON COLUMN tasks.input IS 'What the worker gets.';
COMMENT ON COLUMN tasks.answer IS 'What the worker answered: its result, or why it failed.';
CREATE INDEX tasks_to_claim ON tasks (namespace_id, queue, opened_at) WHERE state = 'open';
CREATE INDEX tasks_by_lease ON tasks (lease_until) WHERE state = 'held';
CREATE INDEX tasks_by_claim ON tasks (claim_id) WHERE state = 'held';
CREATE INDEX tasks_by_age ON tasks (namespace_id, opened_at, id);

CREATE TYPE approval_state AS ENUM ('open', 'decided', 'elapsed', 'withdrawn');
CREATE TABLE approvals (
    id           uuid PRIMARY KEY,
    run_id       uuid NOT NULL,
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    step         text NOT NULL,
    state        approval_state NOT NULL DEFAULT 'open',
    people       text[] NOT NULL,
    escalate     text[] NOT NULL,
    escalate_at  timestamptz,
    shown        json NOT NULL,
    digest       text NOT NULL,
    login        boolean NOT NULL,
    not_by       text,
    opened_at    timestamptz NOT NULL,
    until        timestamptz,
    ended_at     timestamptz,
    approved     boolean,
    decided_by   text,
    comment      text,
    round        integer NOT NULL DEFAULT 0 CHECK (round >= 0),
    CONSTRAINT ended_unless_open CHECK ((ended_at IS NULL) = (state = 'open')),
    CONSTRAINT decision_when_decided CHECK ((approved IS NOT NULL AND decided_by IS NOT NULL) = (state = 'decided'))
);
COMMENT ON TABLE approvals IS 'Decisions that people are asked for, and what they decided. Leaves open once; the first writer wins.';
COMMENT ON COLUMN approvals.id IS 'The wait: derived from run and step. Begins with the run''s first eight bytes.';
COMMENT ON COLUMN approvals.run_id IS 'The run.';
COMMENT ON COLUMN approvals.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN approvals.flow IS 'The flow''s name.';
COMMENT ON COLUMN approvals.step IS 'The step''s path in the flow.';
COMMENT ON COLUMN approvals.state IS 'Open until decided, timed out (elapsed) or withdrawn with its run.';
COMMENT ON COLUMN approvals.people IS 'Who may decide: names of tokens or of their groups.';
COMMENT ON COLUMN approvals.escalate IS 'Who else may decide from escalate_at on.';
COMMENT ON COLUMN approvals.escalate_at IS 'When half of the time is over.';
COMMENT ON COLUMN approvals.shown IS 'What is decided about, as it was when people were asked.';
COMMENT ON COLUMN approvals.digest IS 'SHA-256 of the canonical form of what is shown; a decision has to name it.';
COMMENT ON COLUMN approvals.login IS 'Whether a decision needs a token besides the link.';
COMMENT ON COLUMN approvals.not_by IS 'Who may not decide, because they started the run.';
COMMENT ON COLUMN approvals.opened_at IS 'When people were asked.';
COMMENT ON COLUMN approvals.until IS 'When it times out.';
COMMENT ON COLUMN approvals.ended_at IS 'When it was decided, or ended otherwise.';
COMMENT ON COLUMN approvals.approved IS 'Yes or no, if it is decided.';
COMMENT ON COLUMN approvals.decided_by IS '`token:` and its name, or `person:` and theirs; or, by link, an unverified name.';
COMMENT ON COLUMN approvals.comment IS 'The comment of the person who decided.';
COMMENT ON COLUMN approvals.round IS 'How many times the run had asked for the same decision before.';
CREATE INDEX approvals_open ON approvals (namespace_id, opened_at, id) WHERE state = 'open';
CREATE INDEX approvals_by_age ON approvals (namespace_id, opened_at, id);

-- ---------------------------------------------------------------------------------------- Schedules

CREATE TABLE schedules (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    release_id   integer,
    version      bigint NOT NULL,
    zones        text NOT NULL,
    decided_to   timestamptz NOT NULL,
    due_at       timestamptz,
    paused_at    timestamptz,
    paused_by    text,
    holder       uuid,
    leased_until timestamptz,
    CONSTRAINT leased_while_held CHECK ((holder IS NULL) = (leased_until IS NULL))
) WITH (fillfactor = 70);
COMMENT ON TABLE schedules IS 'One row for each flow whose live release has, or had, a schedule.';
COMMENT ON COLUMN schedules.id IS 'Digest of namespace and flow; its first 12 bits are the slot.';
COMMENT ON COLUMN schedules.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN schedules.flow IS 'The flow''s name.';
COMMENT ON COLUMN schedules.release_id IS 'The release whose recurrence is in force; null where the live one has none.';
COMMENT ON COLUMN schedules.version IS 'The config_version that it was last decided by. A server with an older configuration leaves the row alone.';
COMMENT ON COLUMN schedules.zones IS 'The edition of the time zone database that due_at was computed with.';
COMMENT ON COLUMN schedules.decided_to IS 'Every instant up to here is decided. It never decreases, whatever the clock does.';
COMMENT ON COLUMN schedules.due_at IS 'When a server must look at it: the next instant, or at once. Null while it is paused or has no recurrence.';
COMMENT ON COLUMN schedules.paused_at IS 'Since when its instants start nothing.';
COMMENT ON COLUMN schedules.paused_by IS 'Who paused it.';
COMMENT ON COLUMN schedules.holder IS 'The session that decides it. Null while none does.';
COMMENT ON COLUMN schedules.leased_until IS 'When that session''s lease on it ends, and another may decide it.';
CREATE INDEX schedules_by_due ON schedules (due_at) WHERE due_at IS NOT NULL;

CREATE TYPE tick_verdict AS ENUM ('fired', 'skipped');
CREATE TABLE ticks (
    schedule_id uuid NOT NULL,
    nominal     timestamptz NOT NULL,
    verdict     tick_verdict NOT NULL,
    last        timestamptz NOT NULL,
    instants    bigint NOT NULL CHECK (instants > 0),
    reason      text,
    run_id      uuid,
    fired_by    text,
    decided_at  timestamptz NOT NULL,
    PRIMARY KEY (schedule_id, nominal, verdict),
    CONSTRAINT first_before_last CHECK (nominal <= last),
    CONSTRAINT reason_when_skipped CHECK (reason IS NULL OR verdict = 'skipped')
);
COMMENT ON TABLE ticks IS 'What happened to the instants of schedules: each is in one row, fired alone or skipped with its neighbours. An instant that was skipped and then fired manually is in both.';
COMMENT ON COLUMN ticks.schedule_id IS 'The schedule.';
COMMENT ON COLUMN ticks.nominal IS 'The instant; the first where several were skipped together.';
COMMENT ON COLUMN ticks.verdict IS 'Whether it started a run.';
COMMENT ON COLUMN ticks.last IS 'The last of the instants that the row covers.';
COMMENT ON COLUMN ticks.instants IS 'How many instants the row covers.';
COMMENT ON COLUMN ticks.reason IS 'Why it was skipped: missed, capped, paused or refused.';
COMMENT ON COLUMN ticks.run_id IS 'The run that it started.';
COMMENT ON COLUMN ticks.fired_by IS 'Who fired it manually.';
COMMENT ON COLUMN ticks.decided_at IS 'When that was decided.';
CREATE INDEX ticks_by_age ON ticks (decided_at);

CREATE TYPE pass_state AS ENUM ('open', 'done', 'failed');
CREATE TABLE reconcile_passes (
    schedule_id  uuid NOT NULL,
    nominal      timestamptz NOT NULL,
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    release_id   integer NOT NULL,
    window_start timestamptz NOT NULL,
    dry_run      boolean NOT NULL,
    asked_by     text,
    state        pass_state NOT NULL DEFAULT 'open',
    epoch        bigint NOT NULL DEFAULT 0 CHECK (epoch >= 0),
    due_at       timestamptz,
    attempt      integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    page         integer NOT NULL DEFAULT 0 CHECK (page >= 0),
    next_page    text,
    marked_page  text,
    page_at      timestamptz NOT NULL DEFAULT moment(),
    listed       bigint NOT NULL DEFAULT 0,
    known        bigint NOT NULL DEFAULT 0,
    started      bigint NOT NULL DEFAULT 0,
    differing    bigint NOT NULL DEFAULT 0,
    unreadable   bigint NOT NULL DEFAULT 0,
    left_out     bigint NOT NULL DEFAULT 0,
    fault        text,
    opened_at    timestamptz NOT NULL DEFAULT moment(),
    ended_at     timestamptz,
    PRIMARY KEY (schedule_id, nominal),
    CONSTRAINT due_while_open CHECK ((due_at IS NOT NULL) = (state = 'open')),
    CONSTRAINT ended_unless_open CHECK ((ended_at IS NULL) = (state = 'open')),
    CONSTRAINT window_before_pass CHECK (window_start <= nominal)
) WITH (fillfactor = 70);
COMMENT ON TABLE reconcile_passes IS 'Passes of reconcile: each compares what its source lists with the runs of its flow, page by page.';
COMMENT ON COLUMN reconcile_passes.schedule_id IS 'Digest of namespace and flow; its first 12 bits are the slot.';
COMMENT ON COLUMN reconcile_passes.nominal IS 'The instant of the recurrence, or when an operator asked for the pass.';
COMMENT ON COLUMN reconcile_passes.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN reconcile_passes.flow IS 'The flow''s name.';
COMMENT ON COLUMN reconcile_passes.release_id IS 'The release that was live when the pass was opened.';
COMMENT ON COLUMN reconcile_passes.window_start IS 'Older items start nothing.';
COMMENT ON COLUMN reconcile_passes.dry_run IS 'Whether the pass only reports what it would start.';
COMMENT ON COLUMN reconcile_passes.asked_by IS 'The operator who asked for it; null where the recurrence named it.';
COMMENT ON COLUMN reconcile_passes.state IS 'Open until its last page is compared, or it is given up.';
COMMENT ON COLUMN reconcile_passes.epoch IS 'How often a server took it. A page is recorded only by the server that took it last.';
COMMENT ON COLUMN reconcile_passes.due_at IS 'When a server may take it: a server that dies leaves it to the next.';
COMMENT ON COLUMN reconcile_passes.attempt IS 'How many reads of the page failed.';
COMMENT ON COLUMN reconcile_passes.page IS 'How many pages are compared.';
COMMENT ON COLUMN reconcile_passes.next_page IS 'The address of the next page; null for the first.';
COMMENT ON COLUMN reconcile_passes.marked_page IS 'The address that followed the latest page whose number is a power of two: a list that comes back to it repeats itself.';
COMMENT ON COLUMN reconcile_passes.page_at IS 'When the latest page was recorded; before the first, when the pass was opened.';
COMMENT ON COLUMN reconcile_passes.listed IS 'How many items the source listed.';
COMMENT ON COLUMN reconcile_passes.known IS 'How many of them had a run.';
COMMENT ON COLUMN reconcile_passes.started IS 'How many started one; in a dry run, would have.';
COMMENT ON COLUMN reconcile_passes.differing IS 'How many of the known ones differ from the result of their run.';
COMMENT ON COLUMN reconcile_passes.unreadable IS 'How many have no usable key, time or input.';
COMMENT ON COLUMN reconcile_passes.left_out IS 'How many are too young, older than the window, or excluded by when.';
COMMENT ON COLUMN reconcile_passes.fault IS 'What went wrong last.';
COMMENT ON COLUMN reconcile_passes.opened_at IS 'When it was opened.';
COMMENT ON COLUMN reconcile_passes.ended_at IS 'When it ended.';
CREATE INDEX reconcile_passes_by_due ON reconcile_passes (namespace_id, due_at) WHERE due_at IS NOT NULL;
-- Whoever asks again is shown the open pass.
CREATE UNIQUE INDEX reconcile_passes_asked ON reconcile_passes (schedule_id, dry_run) WHERE state = 'open' AND asked_by IS NOT NULL;
CREATE INDEX reconcile_passes_by_age ON reconcile_passes (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE reconcile_items (
    schedule_id uuid NOT NULL,
    nominal     timestamptz NOT NULL,
    page        integer NOT NULL CHECK (page >= 0),
    index       integer NOT NULL CHECK (index >= 0),
    verdict     text NOT NULL CHECK (verdict IN ('started', 'would_start', 'differing', 'unreadable')),
    key         text,
    run_id      uuid,
    note        text,
    PRIMARY KEY (schedule_id, nominal, page, index)
);
COMMENT ON TABLE reconcile_items IS 'The items of a pass that are more than known: up to a limit, the counts are in reconcile_passes.';
COMMENT ON COLUMN reconcile_items.schedule_id IS 'The flow of the pass.';
COMMENT ON COLUMN reconcile_items.nominal IS 'The pass.';
COMMENT ON COLUMN reconcile_items.page IS 'The page that listed it.';
COMMENT ON COLUMN reconcile_items.index IS 'Its position in the page.';
COMMENT ON COLUMN reconcile_items.verdict IS 'What the pass found: started, would_start (dry run), differing or unreadable.';
COMMENT ON COLUMN reconcile_items.key IS 'Its key, where it has one.';
COMMENT ON COLUMN reconcile_items.run_id IS 'Its run.';
COMMENT ON COLUMN reconcile_items.note IS 'What was wrong with it.';

-- ------------------------------------- Gates: order, concurrency and rate of the runs of one object

CREATE TABLE gates (
    id          uuid PRIMARY KEY,
    concurrency integer CHECK (concurrency > 0),
    rate        integer CHECK (rate > 0),
    per_ms      bigint CHECK (per_ms > 0),
    running     integer NOT NULL DEFAULT 0 CHECK (running >= 0),
    granted     integer NOT NULL DEFAULT 0 CHECK (granted >= 0),
    start_count bigint NOT NULL DEFAULT 0 CHECK (start_count >= 0),
    idle_at     timestamptz,
    CONSTRAINT rate_has_a_period CHECK ((rate IS NULL) = (per_ms IS NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE gates IS 'One row per object whose runs are ordered or limited, while runs are at the gate or its starts count. Every decision locks it.';
COMMENT ON COLUMN gates.id IS 'Digest of namespace, flow, kind and object; slot in front.';
COMMENT ON COLUMN gates.concurrency IS 'The most runs at a time; null without a limit.';
COMMENT ON COLUMN gates.rate IS 'The most starts within per_ms; null without a limit.';
COMMENT ON COLUMN gates.per_ms IS 'The period that rate counts in, in milliseconds.';
COMMENT ON COLUMN gates.running IS 'How many entries are running.';
COMMENT ON COLUMN gates.granted IS 'How many entries are granted.';
COMMENT ON COLUMN gates.start_count IS 'How many runs were started, where a rate counts them.';
COMMENT ON COLUMN gates.idle_at IS 'When its last start no longer counts; null without a rate.';
CREATE INDEX gates_by_idle ON gates (idle_at) WHERE idle_at IS NOT NULL;

CREATE TYPE gate_place AS ENUM ('waiting', 'debouncing', 'granted', 'running', 'joining', 'dropped');
CREATE TABLE gate_entries (
    gate_id     uuid NOT NULL,
    run_id      uuid NOT NULL,
    place       gate_place NOT NULL,
    accepted_at timestamptz NOT NULL,
    after_seq   integer NOT NULL CHECK (after_seq >= 0),
    related_run uuid,
    ready_at    timestamptz,
    wake_since  timestamptz,
    PRIMARY KEY (gate_id, run_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE gate_entries IS 'The runs at a gate. An entry is removed when its run has ended.';
COMMENT ON COLUMN gate_entries.gate_id IS 'The gate.';
COMMENT ON COLUMN gate_entries.run_id IS 'The run.';
COMMENT ON COLUMN gate_entries.place IS 'waiting in line; debouncing until its object is quiet; granted, which counts as running; running; joining another run''s end; dropped in favour of a newer run.';
COMMENT ON COLUMN gate_entries.accepted_at IS 'When the run was accepted: first come, first served.';
COMMENT ON COLUMN gate_entries.after_seq IS 'The row of the run''s journal after which it entered: an earlier end of a resumed run does not concern it.';
COMMENT ON COLUMN gate_entries.related_run IS 'The run that it joined, that replaced it, or that wants its place.';
COMMENT ON COLUMN gate_entries.ready_at IS 'When it may enter, where that is later.';
COMMENT ON COLUMN gate_entries.wake_since IS 'Since when its run has to be woken to look at the gate; null once it was.';
CREATE INDEX gate_entries_in_line ON gate_entries (gate_id, place, accepted_at, run_id);
CREATE INDEX gate_entries_by_summons ON gate_entries (wake_since) WHERE wake_since IS NOT NULL;

CREATE TABLE gate_starts (
    gate_id uuid NOT NULL,
    number  bigint NOT NULL CHECK (number >= 0),
    at      timestamptz NOT NULL,
    PRIMARY KEY (gate_id, number)
);
COMMENT ON TABLE gate_starts IS 'When a gate with a rate started runs: as many as the rate counts.';
COMMENT ON COLUMN gate_starts.gate_id IS 'The gate.';
COMMENT ON COLUMN gate_starts.number IS '0, 1, 2 … without a gap.';
COMMENT ON COLUMN gate_starts.at IS 'When.';

CREATE TABLE gate_exits (
    run_id  uuid NOT NULL,
    gate_id uuid NOT NULL,
    seq     integer NOT NULL CHECK (seq > 0),
    at      timestamptz NOT NULL,
    PRIMARY KEY (run_id, gate_id)
);
COMMENT ON TABLE gate_exits IS 'Runs that have ended and whose gates may not know yet. Written with the end, in the run''s slot.';
COMMENT ON COLUMN gate_exits.run_id IS 'The run.';
COMMENT ON COLUMN gate_exits.gate_id IS 'The gate that it is to leave.';
COMMENT ON COLUMN gate_exits.seq IS 'The row of the run''s journal by which it ended.';
COMMENT ON COLUMN gate_exits.at IS 'When it ended, or when a server last started to notify the gate.';
CREATE INDEX gate_exits_by_age ON gate_exits (at);

CREATE TABLE object_versions (
    gate_id    uuid PRIMARY KEY,
    kind       text NOT NULL CHECK (kind IN ('number', 'time', 'text')),
    rank       text COLLATE "C" NOT NULL,
    shown      text NOT NULL,
    claim_id   uuid NOT NULL,
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE object_versions IS 'The newest accepted version of each object.';
COMMENT ON COLUMN object_versions.gate_id IS 'The gate of the object.';
COMMENT ON COLUMN object_versions.kind IS 'number, time or text: versions of two kinds cannot be compared.';
COMMENT ON COLUMN object_versions.rank IS 'The version, written so that a newer one of its kind is greater, byte by byte.';
COMMENT ON COLUMN object_versions.shown IS 'The version as it came.';
COMMENT ON COLUMN object_versions.claim_id IS 'The claim of the delivery that brought it.';
COMMENT ON COLUMN object_versions.expires_at IS 'When it expires: as long after its delivery as the flow keeps keys.';
CREATE INDEX object_versions_by_expiry ON object_versions (expires_at);

CREATE TABLE stale_deliveries (
    gate_id      uuid NOT NULL,
    claim_id     uuid NOT NULL,
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    key          bytea NOT NULL,
    object       text NOT NULL,
    version      text NOT NULL,
    newest       text NOT NULL,
    newest_claim uuid NOT NULL,
    fingerprint  uuid NOT NULL,
    payload      json NOT NULL,
    count        bigint NOT NULL DEFAULT 1 CHECK (count > 0),
    first_at     timestamptz NOT NULL,
    last_at      timestamptz NOT NULL,
    minute       timestamptz NOT NULL DEFAULT date_trunc('minute', moment()),
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (gate_id, claim_id),
    CONSTRAINT first_before_last CHECK (first_at <= last_at)
);
COMMENT ON TABLE stale_deliveries IS 'Deliveries that were older than the accepted version of their object, and so started nothing.';
COMMENT ON COLUMN stale_deliveries.gate_id IS 'The gate of the object.';
COMMENT ON COLUMN stale_deliveries.claim_id IS 'The claim that the delivery would have made.';
COMMENT ON COLUMN stale_deliveries.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN stale_deliveries.flow IS 'The flow.';
COMMENT ON COLUMN stale_deliveries.key IS 'The key, as it came.';
COMMENT ON COLUMN stale_deliveries.object IS 'The object.';
COMMENT ON COLUMN stale_deliveries.version IS 'Its version, as it came.';
COMMENT ON COLUMN stale_deliveries.newest IS 'The newest version that had been accepted.';
COMMENT ON COLUMN stale_deliveries.newest_claim IS 'The claim of the delivery that brought it.';
COMMENT ON COLUMN stale_deliveries.fingerprint IS 'The payload''s fingerprint.';
COMMENT ON COLUMN stale_deliveries.payload IS 'What it brought.';
COMMENT ON COLUMN stale_deliveries.count IS 'How often it came.';
COMMENT ON COLUMN stale_deliveries.first_at IS 'When it first came.';
COMMENT ON COLUMN stale_deliveries.last_at IS 'When it last came.';
COMMENT ON COLUMN stale_deliveries.minute IS 'The minute in which it last came: lists go by it, as those of duplicates do.';
COMMENT ON COLUMN stale_deliveries.expires_at IS 'When it expires.';
CREATE INDEX stale_deliveries_by_expiry ON stale_deliveries (expires_at);
CREATE INDEX stale_deliveries_by_newest ON stale_deliveries (newest_claim);
CREATE INDEX stale_deliveries_by_key ON stale_deliveries (namespace_id, key);
CREATE INDEX stale_deliveries_by_age ON stale_deliveries (namespace_id, minute, gate_id);

-- -------------------------------------------------------------------------- Events on their way out

CREATE TABLE outbox (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    run_id       uuid NOT NULL,
    event        text NOT NULL,
    data         json NOT NULL,
    emitted_at   timestamptz NOT NULL,
    due_at       timestamptz NOT NULL DEFAULT moment(),
    holder       uuid,
    tries        integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    is_answered  boolean NOT NULL DEFAULT false,
    unread       text CHECK (unread IN ('newer', 'damaged'))
);
COMMENT ON TABLE outbox IS 'Events that committed with their run and are not dispatched yet. A row is removed when each receiver has the event.';
COMMENT ON COLUMN outbox.id IS 'The effect that emitted it: the delivery key that every receiver dedupes by.';
COMMENT ON COLUMN outbox.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN outbox.run_id IS 'The run that emitted it.';
COMMENT ON COLUMN outbox.event IS 'The event.';
COMMENT ON COLUMN outbox.data IS 'What it carries.';
COMMENT ON COLUMN outbox.emitted_at IS 'When it committed.';
COMMENT ON COLUMN outbox.due_at IS 'When it is dispatched next; while a server dispatches it, the end of that server''s lease.';
COMMENT ON COLUMN outbox.holder IS 'The session that dispatches it. Null while none does.';
COMMENT ON COLUMN outbox.tries IS 'How often it was taken: the pause before the next try grows with it.';
COMMENT ON COLUMN outbox.is_answered IS 'Whether the waits for it and the subscriptions have it, while a flow does not.';
COMMENT ON COLUMN outbox.unread IS 'Whether the last try met something that it could not read: newer, which another server may read, or damaged. Null where it did not.';
CREATE INDEX outbox_by_age ON outbox (emitted_at);
CREATE INDEX outbox_calls ON outbox (namespace_id, due_at) WHERE starts_with(event, 'semel.call.');
CREATE INDEX outbox_events ON outbox (namespace_id, due_at) WHERE NOT starts_with(event, 'semel.call.');
CREATE INDEX outbox_held ON outbox (holder) WHERE holder IS NOT NULL;
CREATE INDEX outbox_unread ON outbox (unread) WHERE unread IS NOT NULL;

CREATE TABLE outbox_receivers (
    event_id   uuid NOT NULL REFERENCES outbox (id) ON DELETE CASCADE,
    flow_id    integer NOT NULL,
    release_id integer NOT NULL,
    run_max    integer NOT NULL CHECK (run_max >= 0),
    has_it     boolean NOT NULL DEFAULT false,
    PRIMARY KEY (event_id, flow_id)
);
COMMENT ON TABLE outbox_receivers IS 'The flows that an event is for, recorded before they are asked. A flow has one trigger for events. Rows go with their event.';
COMMENT ON COLUMN outbox_receivers.event_id IS 'The event.';
COMMENT ON COLUMN outbox_receivers.flow_id IS 'The flow that takes it.';
COMMENT ON COLUMN outbox_receivers.release_id IS 'The release that was live when the flow was first asked: its trigger gives the key of every repeat.';
COMMENT ON COLUMN outbox_receivers.run_max IS 'The number of the last run of that key that the event may make: a repeat makes none beyond it, even where the key has run out.';
COMMENT ON COLUMN outbox_receivers.has_it IS 'Whether the flow has the event, or refused it for good. Written only where the event stays for others.';

CREATE TABLE broadcasts (
    event_id     uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    run_id       uuid NOT NULL,
    event        text NOT NULL,
    data         json NOT NULL,
    emitted_at   timestamptz NOT NULL,
    begun_at     timestamptz NOT NULL,
    due_at       timestamptz NOT NULL,
    path         text COLLATE "C",
    after        uuid,
    pages_done   boolean NOT NULL DEFAULT false,
    left_waits   uuid[] NOT NULL DEFAULT '{}',
    CONSTRAINT cursor_is_whole CHECK ((path IS NULL) = (after IS NULL))
);
COMMENT ON TABLE broadcasts IS 'Events whose waits are being answered, a page at a time. A row leaves when the last page is answered and no wait is left.';
COMMENT ON COLUMN broadcasts.event_id IS 'The event.';
COMMENT ON COLUMN broadcasts.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN broadcasts.run_id IS 'The run that emitted it.';
COMMENT ON COLUMN broadcasts.event IS 'The event''s name.';
COMMENT ON COLUMN broadcasts.data IS 'What it carries.';
COMMENT ON COLUMN broadcasts.emitted_at IS 'When it committed.';
COMMENT ON COLUMN broadcasts.begun_at IS 'When its waits began to be answered. Waits that open later are not answered by it.';
COMMENT ON COLUMN broadcasts.due_at IS 'When the next page is answered. A server that answers one moves it ahead; if that server dies, another continues then.';
COMMENT ON COLUMN broadcasts.path IS 'The cursor: the part of the event by which the last page of waits was found; null before the first.';
COMMENT ON COLUMN broadcasts.after IS 'The cursor: the last wait of that page.';
COMMENT ON COLUMN broadcasts.pages_done IS 'Whether the last page is answered: only waits that were left are tried.';
COMMENT ON COLUMN broadcasts.left_waits IS 'Waits whose runs could not be read: they are tried again until each is answered or gone.';
CREATE INDEX broadcasts_by_due ON broadcasts (namespace_id, due_at);

CREATE TYPE webhook_delivery_state AS ENUM ('due', 'delivered', 'failed');
CREATE TABLE webhook_deliveries (
    event_id     uuid NOT NULL,
    namespace_id integer NOT NULL,
    subscription text NOT NULL,
    connection   text NOT NULL,
    event        text NOT NULL,
    state        webhook_delivery_state NOT NULL DEFAULT 'due',
    body         json NOT NULL,
    emitted_at   timestamptz NOT NULL,
    attempt      integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    due_at       timestamptz NOT NULL,
    settled_at   timestamptz,
    note         text,
    retry_since  timestamptz NOT NULL DEFAULT moment(),
    is_erased    boolean NOT NULL DEFAULT false,
    PRIMARY KEY (event_id, subscription),
    CONSTRAINT settled_unless_due CHECK ((settled_at IS NULL) = (state = 'due'))
);
COMMENT ON TABLE webhook_deliveries IS 'Deliveries of events to subscribed webhooks, each retried until the receiver takes it or its time is over.';
COMMENT ON COLUMN webhook_deliveries.event_id IS 'The event: the delivery key, the same on every attempt.';
COMMENT ON COLUMN webhook_deliveries.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN webhook_deliveries.subscription IS 'The subscription.';
COMMENT ON COLUMN webhook_deliveries.connection IS 'The connection that the latest attempt went to.';
COMMENT ON COLUMN webhook_deliveries.event IS 'The event''s name.';
COMMENT ON COLUMN webhook_deliveries.state IS 'Due until the receiver answers with 2xx, or until Semel gives up.';
COMMENT ON COLUMN webhook_deliveries.body IS 'The CloudEvent, the same bytes on every attempt.';
COMMENT ON COLUMN webhook_deliveries.emitted_at IS 'When the event committed.';
COMMENT ON COLUMN webhook_deliveries.attempt IS 'How many attempts were made, since an operator last had it retried.';
COMMENT ON COLUMN webhook_deliveries.due_at IS 'When the next attempt is made.';
COMMENT ON COLUMN webhook_deliveries.settled_at IS 'When it was delivered, or when Semel stopped retrying it.';
COMMENT ON COLUMN webhook_deliveries.note IS 'What the last attempt saw.';
COMMENT ON COLUMN webhook_deliveries.retry_since IS 'From when the time for its attempts counts: when it became due, or when an operator had it retried.';
COMMENT ON COLUMN webhook_deliveries.is_erased IS 'Its run was erased: the body is erased once the delivery is over.';
CREATE INDEX webhook_deliveries_by_settled ON webhook_deliveries (settled_at) WHERE state <> 'due';
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (namespace_id, settled_at) WHERE state = 'failed';
CREATE INDEX webhook_deliveries_by_due ON webhook_deliveries (namespace_id, subscription, due_at) WHERE state = 'due';
CREATE INDEX webhook_deliveries_by_subscription ON webhook_deliveries (namespace_id, subscription, emitted_at, event_id);

-- ------------------------------------------------------------------ Effects whose key people choose

CREATE TYPE named_effect_state AS ENUM ('absent', 'pending', 'done', 'failed', 'in_doubt', 'undoing');
CREATE TABLE named_effects (
    id                uuid PRIMARY KEY,
    namespace_id      integer NOT NULL,
    scope             text NOT NULL,
    key               bytea NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 1024),
    generation        integer NOT NULL DEFAULT 0 CHECK (generation >= 0),
    state             named_effect_state NOT NULL DEFAULT 'pending',
    kind              text NOT NULL,
    destination       text NOT NULL,
    method            text NOT NULL,
    fingerprint       uuid,
    token             bigint NOT NULL CHECK (token > 0),
    holder            uuid NOT NULL,
    holder_name       text,
    holder_token      uuid,
    former_holders    jsonb NOT NULL DEFAULT '[]',
    holder_run        uuid,
    holder_step       text,
    holder_item       text,
    holder_generation integer,
    on_doubt          text CHECK (on_doubt IN ('ask', 'fail', 'retry')),
    lease_ms          bigint CHECK (lease_ms > 0),
    lease_until       timestamptz,
    heartbeat_at      timestamptz NOT NULL,
    begun_at          timestamptz NOT NULL,
    doubted           boolean NOT NULL DEFAULT false,
    keep_ms           bigint NOT NULL CHECK (keep_ms > 0),
    settled_at        timestamptz,
    settled_by        text,
    expires_at        timestamptz,
    result            json,
    external_id       text,
    status            smallint,
    fault             json,
    note              text,
    reuse_count       integer NOT NULL DEFAULT 0 CHECK (reuse_count >= 0),
    reused_by         uuid[] NOT NULL DEFAULT '{}',
    undo_seq          integer,
    undo_run          uuid,
    holder_seq        integer,
    endless           boolean NOT NULL DEFAULT false,
    CONSTRAINT run_or_script CHECK ((holder_run IS NULL) = (lease_ms IS NOT NULL AND holder_name IS NOT NULL AND on_doubt IS NOT NULL)),
    CONSTRAINT script_has_a_token CHECK ((holder_run IS NULL) = (holder_token IS NOT NULL)),
    CONSTRAINT leased_while_a_script_holds CHECK ((lease_until IS NOT NULL) = (state = 'pending' AND holder_run IS NULL)),
    CONSTRAINT settled_when_done_or_failed CHECK ((settled_at IS NOT NULL) = (state IN ('done', 'failed'))),
    CONSTRAINT expires_unless_open CHECK ((expires_at IS NULL) = (state IN ('pending', 'in_doubt', 'undoing'))),
    CONSTRAINT undone_by_its_run CHECK (state <> 'undoing' OR (undo_seq IS NOT NULL AND undo_run IS NOT NULL AND holder_run IS NOT NULL))
) WITH (fillfactor = 80);
COMMENT ON TABLE named_effects IS 'Effects whose key people choose, outside of any run: steps with a key, and scripts under semel once.';
COMMENT ON COLUMN named_effects.id IS 'The digest of namespace, scope and key. Its first twelve bits are its slot.';
COMMENT ON COLUMN named_effects.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN named_effects.scope IS 'Where the key counts: flow/NAME/STEP, flow/NAME, shared or once/NAME.';
COMMENT ON COLUMN named_effects.key IS 'The key, as it was given.';
COMMENT ON COLUMN named_effects.generation IS 'Enters into the key that the destination is sent. Grows with every new intent under the name.';
COMMENT ON COLUMN named_effects.state IS 'Absent is a row that is kept for its generation and token only.';
COMMENT ON COLUMN named_effects.kind IS 'What it is: the kind of step, or command.';
COMMENT ON COLUMN named_effects.destination IS 'The connection or host; empty for a command.';
COMMENT ON COLUMN named_effects.method IS 'The method of the request; empty for a command.';
COMMENT ON COLUMN named_effects.fingerprint IS 'Of the latest request or command line. Null where the next one is a new intent in any case.';
COMMENT ON COLUMN named_effects.token IS 'The fencing token: grows with each new holder. A report under an older one changes nothing.';
COMMENT ON COLUMN named_effects.holder IS 'The latest holder: the digest of run, step, item and generation, or of the nonce of a process and its API token.';
COMMENT ON COLUMN named_effects.holder_name IS 'Host and process of a script.';
COMMENT ON COLUMN named_effects.holder_token IS 'The API token of a script: nobody else reports on its hold. Null for a run.';
COMMENT ON COLUMN named_effects.former_holders IS 'The fencing tokens and API tokens of scripts that held it before, the last 8: only they may leave a note.';
COMMENT ON COLUMN named_effects.holder_run IS 'The run that holds it. Null for a script.';
COMMENT ON COLUMN named_effects.holder_step IS 'The path of the run''s step.';
COMMENT ON COLUMN named_effects.holder_item IS 'The item of the run''s step.';
COMMENT ON COLUMN named_effects.holder_generation IS 'The generation of the run''s own effect.';
COMMENT ON COLUMN named_effects.on_doubt IS 'What a script''s holder agreed to if it is lost. Null for a run.';
COMMENT ON COLUMN named_effects.lease_ms IS 'How long a script may be silent, in milliseconds. Null for a run, which is durable.';
COMMENT ON COLUMN named_effects.lease_until IS 'When the script that holds it is taken to be lost.';
COMMENT ON COLUMN named_effects.heartbeat_at IS 'When its holder was last heard of.';
COMMENT ON COLUMN named_effects.begun_at IS 'When its latest holder began it.';
COMMENT ON COLUMN named_effects.doubted IS 'Whether its latest holder began it while its own doubt stood: if the hold is freed, it is in doubt again.';
COMMENT ON COLUMN named_effects.keep_ms IS 'How long it is remembered after it is done or failed, in milliseconds.';
COMMENT ON COLUMN named_effects.settled_at IS 'When it became done or failed.';
COMMENT ON COLUMN named_effects.settled_by IS 'The operator who settled its doubt, e.g. token:laptop.';
COMMENT ON COLUMN named_effects.expires_at IS 'When a done or failed one becomes absent, and when an absent one is removed: infinity where a destination may remember one of its keys.';
COMMENT ON COLUMN named_effects.result IS 'Its result; for a command its exit code and output.';
COMMENT ON COLUMN named_effects.external_id IS 'What the destination calls the thing that it made.';
COMMENT ON COLUMN named_effects.status IS 'The HTTP status of the response, where there was one.';
COMMENT ON COLUMN named_effects.fault IS 'Why it failed, or why it is in doubt.';
COMMENT ON COLUMN named_effects.note IS 'What a holder reported too late, for operators.';
COMMENT ON COLUMN named_effects.reuse_count IS 'How often other runs reused it since it is done: an undo stops for an operator where that is not 0.';
COMMENT ON COLUMN named_effects.reused_by IS 'The first 16 of those runs.';
COMMENT ON COLUMN named_effects.holder_seq IS 'The length of its run''s journal when that last began it, by which what the run said before is told from what it said after. Null for a script.';
COMMENT ON COLUMN named_effects.undo_seq IS 'The length of the journal of undo_run when that began to undo it. Null where no undo is under way or in doubt.';
COMMENT ON COLUMN named_effects.undo_run IS 'The run that last began to undo it: its holder, or a later run of that one''s key. Null before the first undo.';
COMMENT ON COLUMN named_effects.endless IS 'Whether something may remember a key of it without end: the marker of a db step, the claim of another flow, or a program that was given the key.';
CREATE INDEX named_effects_by_key ON named_effects (namespace_id, key);
CREATE INDEX named_effects_by_age ON named_effects (namespace_id, begun_at, id);
CREATE INDEX named_effects_by_scope ON named_effects (namespace_id, scope, begun_at, id);
CREATE INDEX named_effects_open ON named_effects (namespace_id, begun_at, id) WHERE state IN ('pending', 'in_doubt');
CREATE INDEX named_effects_in_doubt ON named_effects (holder_run) WHERE state = 'in_doubt';
CREATE INDEX named_effects_by_hold ON named_effects (heartbeat_at, id) WHERE state IN ('pending', 'undoing') AND holder_run IS NOT NULL;
CREATE INDEX named_effects_by_lease ON named_effects (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX named_effects_by_expiry ON named_effects (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE named_effect_waiters (
    effect_id uuid NOT NULL,
    run_id    uuid NOT NULL,
    step      text NOT NULL,
    since     timestamptz NOT NULL,
    PRIMARY KEY (effect_id, run_id, step)
);
COMMENT ON TABLE named_effect_waiters IS 'Runs that wait until a named effect is settled. A row stays until its run was woken.';
COMMENT ON COLUMN named_effect_waiters.effect_id IS 'The named effect, whose slot the row is in.';
COMMENT ON COLUMN named_effect_waiters.run_id IS 'The run that waits.';
COMMENT ON COLUMN named_effect_waiters.step IS 'The path of the run''s step.';
COMMENT ON COLUMN named_effect_waiters.since IS 'When it last found the effect held or in doubt, or could not be woken because a worker held it. The oldest is woken first.';
CREATE INDEX named_effect_waiters_by_age ON named_effect_waiters (effect_id, since);

CREATE TABLE named_effect_notices (
    run_id       uuid NOT NULL,
    effect_id    uuid NOT NULL,
    seq          integer NOT NULL CHECK (seq > 0),
    namespace_id integer NOT NULL,
    step         text NOT NULL,
    generation   integer NOT NULL CHECK (generation >= 0),
    token        bigint,
    outcome      text NOT NULL CHECK (outcome IN ('done', 'failed', 'in_doubt', 'freed', 'undone', 'kept', 'undo_in_doubt', 'amended')),
    result       json,
    external_id  text,
    status       smallint,
    fault        json,
    at           timestamptz NOT NULL,
    next_at      timestamptz NOT NULL,
    tries        integer NOT NULL DEFAULT 0 CHECK (tries >= 0),
    PRIMARY KEY (run_id, effect_id, seq),
    CONSTRAINT token_unless_freed CHECK (token IS NOT NULL OR outcome = 'freed')
);
COMMENT ON TABLE named_effect_notices IS 'What runs came to at named effects that may not know yet. Written with the outcome, in the run''s slot; removed once the named effect knows.';
COMMENT ON COLUMN named_effect_notices.run_id IS 'The run.';
COMMENT ON COLUMN named_effect_notices.effect_id IS 'The named effect, which is in another slot.';
COMMENT ON COLUMN named_effect_notices.seq IS 'The row of the run''s journal that says so.';
COMMENT ON COLUMN named_effect_notices.namespace_id IS 'The namespace that owns both.';
COMMENT ON COLUMN named_effect_notices.step IS 'The path of the run''s step.';
COMMENT ON COLUMN named_effect_notices.generation IS 'The generation of the run''s own effect.';
COMMENT ON COLUMN named_effect_notices.token IS 'The token of the run''s hold. Null if the run may hold the name and does not know the token.';
COMMENT ON COLUMN named_effect_notices.outcome IS 'What the effect came to. Freed: nothing was sent. Undone: it was done, and counts as not done. Kept, undo_in_doubt: the run ended while it undid it, and it stands, or nobody can tell. Amended: it was done, and an operator corrected its result.';
COMMENT ON COLUMN named_effect_notices.result IS 'The step''s result, if it is done.';
COMMENT ON COLUMN named_effect_notices.external_id IS 'What the destination calls the thing that it made.';
COMMENT ON COLUMN named_effect_notices.status IS 'The HTTP status of the response, where there was one.';
COMMENT ON COLUMN named_effect_notices.fault IS 'Why it failed, or why it is in doubt.';
COMMENT ON COLUMN named_effect_notices.at IS 'When the run wrote it.';
COMMENT ON COLUMN named_effect_notices.next_at IS 'When a server other than the one that wrote it delivers it.';
COMMENT ON COLUMN named_effect_notices.tries IS 'How often a server other than that one tried.';
CREATE INDEX named_effect_notices_by_age ON named_effect_notices (next_at);

-- --------------------------------------------------------------------------- State that flows share

CREATE TABLE kv (
    slot         smallint NOT NULL CHECK (slot BETWEEN 0 AND 4095),
    namespace_id integer NOT NULL,
    entry        text NOT NULL,
    value        json NOT NULL,
    version      bigint NOT NULL DEFAULT 1 CHECK (version > 0),
    expires_at   timestamptz,
    PRIMARY KEY (namespace_id, slot, entry)
) WITH (fillfactor = 80);
COMMENT ON TABLE kv IS 'Small state that the flows of a namespace share.';
COMMENT ON COLUMN kv.slot IS 'The slot of namespace and entry.';
COMMENT ON COLUMN kv.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN kv.entry IS 'The entry''s name.';
COMMENT ON COLUMN kv.value IS 'Its value.';
COMMENT ON COLUMN kv.version IS 'Grows with every write.';
COMMENT ON COLUMN kv.expires_at IS 'When it expires.';
CREATE INDEX kv_by_expiry ON kv (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE locks (
    slot         smallint NOT NULL CHECK (slot BETWEEN 0 AND 4095),
    namespace_id integer NOT NULL,
    name         text NOT NULL,
    token        bigint NOT NULL DEFAULT 1 CHECK (token > 0),
    holder       uuid,
    until        timestamptz,
    PRIMARY KEY (slot, namespace_id, name),
    CONSTRAINT held_until CHECK ((holder IS NULL) OR (until IS NOT NULL))
) WITH (fillfactor = 80);
COMMENT ON TABLE locks IS 'Named locks with leases. A row stays when its lock is returned, so that tokens never decrease.';
COMMENT ON COLUMN locks.slot IS 'The slot of namespace and name.';
COMMENT ON COLUMN locks.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN locks.name IS 'What it locks.';
COMMENT ON COLUMN locks.token IS 'The fencing token: grows with each new holder, so that a destination can refuse a late one.';
COMMENT ON COLUMN locks.holder IS 'The run that holds it; null when it is free.';
COMMENT ON COLUMN locks.until IS 'When it is free again, unless its holder extends it.';

CREATE TABLE resources (
    namespace_id integer NOT NULL,
    digest       bytea NOT NULL CHECK (octet_length(digest) = 32),
    bytes        bigint NOT NULL CHECK (bytes >= 0),
    media_type   text NOT NULL,
    name         text,
    run_id       uuid,
    step         text,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace_id, digest),
    CONSTRAINT run_with_step CHECK ((run_id IS NULL) = (step IS NULL))
);
COMMENT ON TABLE resources IS 'Outputs and inputs too large for a row. Their bytes are in the resource store, named by their digest.';
COMMENT ON COLUMN resources.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN resources.digest IS 'SHA-256 of the bytes.';
COMMENT ON COLUMN resources.bytes IS 'How many there are.';
COMMENT ON COLUMN resources.media_type IS 'What they are.';
COMMENT ON COLUMN resources.name IS 'Its name, for people.';
COMMENT ON COLUMN resources.run_id IS 'The run that kept it; null where it was uploaded, or where several runs kept it.';
COMMENT ON COLUMN resources.step IS 'The step that kept it; null where it was uploaded, or where several runs kept it.';
COMMENT ON COLUMN resources.created_at IS 'When.';
COMMENT ON COLUMN resources.expires_at IS 'When it may be removed.';
CREATE INDEX resources_by_run ON resources (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX resources_by_expiry ON resources (expires_at);
CREATE INDEX resources_by_creation ON resources (namespace_id, created_at, digest);

CREATE TABLE archives (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state      text NOT NULL DEFAULT 'writing' CHECK (state IN ('writing', 'kept', 'removing')),
    object     text NOT NULL,
    sha256     bytea CHECK (octet_length(sha256) = 32),
    bytes      bigint CHECK (bytes > 0),
    newest_at  timestamptz,
    written_at timestamptz,
    changed_at timestamptz NOT NULL DEFAULT moment(),
    CONSTRAINT whole_where_kept CHECK (state <> 'kept' OR num_nulls(sha256, bytes, newest_at, written_at) = 0)
);
COMMENT ON TABLE archives IS 'Files of ended runs that were deleted here. A row is there before its file is, and until its file is gone.';
COMMENT ON COLUMN archives.id IS 'The file, whatever it is called: it is written anew where runs in it are erased.';
COMMENT ON COLUMN archives.state IS 'Writing: nothing leads to it yet. Kept: archived_runs leads to it. Removing: nothing needs it.';
COMMENT ON COLUMN archives.object IS 'What it is called in the archive.';
COMMENT ON COLUMN archives.sha256 IS 'SHA-256 of its bytes.';
COMMENT ON COLUMN archives.bytes IS 'How many there are.';
COMMENT ON COLUMN archives.newest_at IS 'When the last of its runs ended.';
COMMENT ON COLUMN archives.written_at IS 'When its runs were archived.';
COMMENT ON COLUMN archives.changed_at IS 'When its state changed.';
CREATE INDEX archives_unfinished ON archives (changed_at) WHERE state <> 'kept';
CREATE INDEX archives_by_age ON archives (newest_at) WHERE state = 'kept';

CREATE TABLE archived_runs (
    run_id       uuid NOT NULL,
    archive_id   bigint NOT NULL,
    namespace_id integer NOT NULL,
    claim_id     uuid NOT NULL,
    sha256       bytea NOT NULL CHECK (octet_length(sha256) = 32),
    PRIMARY KEY (run_id, archive_id)
);
COMMENT ON TABLE archived_runs IS 'Which file has a run that was deleted here. A key that was forgotten and came back has runs of the same identities, in a later file.';
COMMENT ON COLUMN archived_runs.run_id IS 'The run.';
COMMENT ON COLUMN archived_runs.archive_id IS 'The file.';
COMMENT ON COLUMN archived_runs.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN archived_runs.claim_id IS 'The claim of its key; of a child run, that of the outermost run.';
COMMENT ON COLUMN archived_runs.sha256 IS 'SHA-256 of what the file says of it.';
CREATE INDEX archived_runs_by_archive ON archived_runs (archive_id);

CREATE TABLE llm_answers (
    namespace_id integer NOT NULL,
    digest       bytea NOT NULL CHECK (octet_length(digest) = 32),
    answer       json NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    expires_at   timestamptz NOT NULL,
    run_id       uuid,
    PRIMARY KEY (namespace_id, digest)
);
COMMENT ON TABLE llm_answers IS 'What language models answered, so that the same question is asked once.';
COMMENT ON COLUMN llm_answers.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN llm_answers.digest IS 'SHA-256 of the canonical request and of its scope: a run, a flow or the namespace.';
COMMENT ON COLUMN llm_answers.answer IS 'The answer, with tokens and cost.';
COMMENT ON COLUMN llm_answers.created_at IS 'When it was given.';
COMMENT ON COLUMN llm_answers.expires_at IS 'When it expires; where its run has not ended, when that is checked again.';
COMMENT ON COLUMN llm_answers.run_id IS 'The run that the answer is scoped to, and is kept as long as; null where the scope is wider.';
CREATE INDEX llm_answers_by_run ON llm_answers (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX llm_answers_by_expiry ON llm_answers (expires_at);

-- ----------------------------------------------------------------- What arrived and started nothing

CREATE TABLE duplicates (
    subject      uuid NOT NULL,
    stopped_by   text NOT NULL CHECK (stopped_by IN ('claim', 'wait', 'replay', 'ledger', 'destination')),
    fingerprint  uuid NOT NULL,
    namespace_id integer NOT NULL,
    run_id       uuid NOT NULL,
    verdict      text NOT NULL CHECK (verdict IN ('repeat', 'mismatch', 'held')),
    count        bigint NOT NULL CHECK (count > 0),
    first_at     timestamptz NOT NULL,
    last_at      timestamptz NOT NULL,
    payload      json,
    arrival      json,
    flow         text,
    decision     text CHECK (decision IN ('new_key', 'repeat', 'dismissed')),
    decision_key bytea,
    decided_at   timestamptz,
    decided_by   text,
    decided_run  uuid,
    minute       timestamptz NOT NULL DEFAULT date_trunc('minute', moment()),
    minute_count bigint NOT NULL DEFAULT 0,
    minute_before bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (subject, stopped_by, fingerprint),
    CONSTRAINT first_before_last CHECK (first_at <= last_at),
    CONSTRAINT decided_whole CHECK (num_nulls(decision, decided_at, decided_by) IN (0, 3)),
    CONSTRAINT held_before_decided CHECK (decision IS NULL OR verdict = 'held'),
    CONSTRAINT new_key_named CHECK ((decision_key IS NOT NULL) = (decision IS NOT DISTINCT FROM 'new_key')),
    CONSTRAINT run_of_a_decision CHECK (decided_run IS NULL OR decision IN ('new_key', 'repeat'))
) WITH (fillfactor = 70);
COMMENT ON TABLE duplicates IS 'Repeats that were stopped: one row per place and payload, however many come.';
COMMENT ON COLUMN duplicates.subject IS 'The claim, the wait or the effect that stopped it.';
COMMENT ON COLUMN duplicates.stopped_by IS 'What stopped it: the claim, the wait, a replay check (the same signed body under another key), the ledger (an earlier run had performed the effect), or the destination (a probe found the effect before anything was sent).';
COMMENT ON COLUMN duplicates.fingerprint IS 'The payload of the repeat; of a replayed body, the payload and the key that it came with, so that each key is decided by itself. All zeros where further ones are counted together.';
COMMENT ON COLUMN duplicates.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN duplicates.run_id IS 'The run that the sender was given.';
COMMENT ON COLUMN duplicates.verdict IS 'repeat, mismatch (refused or accepted by policy) or held (for an operator).';
COMMENT ON COLUMN duplicates.count IS 'How many.';
COMMENT ON COLUMN duplicates.first_at IS 'When the first came.';
COMMENT ON COLUMN duplicates.last_at IS 'When the latest came.';
COMMENT ON COLUMN duplicates.payload IS 'The payload, where it differs from the first delivery''s.';
COMMENT ON COLUMN duplicates.arrival IS 'Of a held delivery, what a run of its own needs besides the payload: flow, trigger, key, the fingerprint of the payload alone, and the headers and query that the flow reads.';
COMMENT ON COLUMN duplicates.flow IS 'Of a held delivery, the flow that it is for.';
COMMENT ON COLUMN duplicates.decision IS 'What an operator decided about a held delivery: new_key (a run of its own), repeat (answered with the existing run) or dismissed.';
COMMENT ON COLUMN duplicates.decision_key IS 'The key that the operator chose for its run.';
COMMENT ON COLUMN duplicates.decided_at IS 'When it was decided.';
COMMENT ON COLUMN duplicates.decided_by IS 'The token''s name.';
COMMENT ON COLUMN duplicates.decided_run IS 'The run that it has by the decision; null while a run of its own is not made yet.';
COMMENT ON COLUMN duplicates.minute IS 'The minute in which the latest came. Indexes and lists go by it and not by last_at, so that a repeat within the minute changes no index.';
COMMENT ON COLUMN duplicates.minute_count IS 'How many came in that minute: alerts find bursts by it.';
COMMENT ON COLUMN duplicates.minute_before IS 'How many came in the minute before it.';
CREATE INDEX duplicates_by_age ON duplicates (namespace_id, minute, subject);
CREATE INDEX duplicates_by_run ON duplicates (run_id);
CREATE INDEX duplicates_held_of_flow ON duplicates (namespace_id, flow, minute, subject)
    WHERE verdict = 'held' AND (decision IS NULL OR (decision = 'new_key' AND decided_run IS NULL));
CREATE INDEX duplicates_held ON duplicates (namespace_id, minute, subject)
    WHERE verdict = 'held' AND (decision IS NULL OR (decision = 'new_key' AND decided_run IS NULL));

CREATE TABLE refused_deliveries (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    at           timestamptz NOT NULL DEFAULT moment(),
    code         text NOT NULL,
    message      text NOT NULL
);
COMMENT ON TABLE refused_deliveries IS 'Deliveries that were refused: deduplication cannot be bypassed silently. A storm of them costs a few rows a minute.';
COMMENT ON COLUMN refused_deliveries.id IS 'In order of writing.';
COMMENT ON COLUMN refused_deliveries.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN refused_deliveries.flow IS 'The flow.';
COMMENT ON COLUMN refused_deliveries.at IS 'When.';
COMMENT ON COLUMN refused_deliveries.code IS 'The error code of the response.';
COMMENT ON COLUMN refused_deliveries.message IS 'What was wrong.';
CREATE INDEX refused_deliveries_by_namespace ON refused_deliveries (namespace_id, id);
CREATE INDEX refused_deliveries_by_flow ON refused_deliveries (namespace_id, flow, id);
CREATE INDEX refused_deliveries_by_code ON refused_deliveries (namespace_id, code, id);
CREATE INDEX refused_deliveries_by_age ON refused_deliveries (at);

CREATE TABLE seen_bodies (
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    digest       bytea NOT NULL CHECK (octet_length(digest) = 32),
    claim_id     uuid NOT NULL,
    seen_at      timestamptz NOT NULL DEFAULT moment(),
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace_id, flow, digest)
);
COMMENT ON TABLE seen_bodies IS 'Bodies that came signed, from sources whose signature does not cover the key or what `when` reads: the same body under another key is a replay.';
COMMENT ON COLUMN seen_bodies.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN seen_bodies.flow IS 'The flow.';
COMMENT ON COLUMN seen_bodies.digest IS 'SHA-256 of the raw body, or of the signed text where that does not settle the body.';
COMMENT ON COLUMN seen_bodies.claim_id IS 'The key under which it came first; where its delivery started nothing, a name made of what was read of its unsigned parts.';
COMMENT ON COLUMN seen_bodies.seen_at IS 'When it came first.';
COMMENT ON COLUMN seen_bodies.expires_at IS 'When it expires, with the key.';
CREATE INDEX seen_bodies_by_expiry ON seen_bodies (expires_at);

-- ------------------------------------------------------------------------------------------ Tallies

CREATE TYPE tally_kind AS ENUM ('accepted', 'repeat', 'mismatch', 'stale', 'succeeded', 'failed', 'cancelled', 'superseded',
                                'stopped', 'effect_done', 'effect_failed', 'effect_doubted');
CREATE TYPE tally_unit AS ENUM ('minute', 'hour', 'day');
CREATE TABLE tallies (
    namespace_id integer NOT NULL,
    unit         tally_unit NOT NULL,
    began_at     timestamptz NOT NULL,
    flow_id      integer NOT NULL,
    step         text NOT NULL DEFAULT '',
    what         tally_kind NOT NULL,
    count        bigint NOT NULL CHECK (count > 0),
    PRIMARY KEY (namespace_id, unit, began_at, flow_id, step, what)
) WITH (fillfactor = 70);
COMMENT ON TABLE tallies IS 'How much of what happened, by minute for two days, and by hour and by day for ninety. Servers add what they counted every few seconds, so that it is approximate.';
COMMENT ON COLUMN tallies.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN tallies.unit IS 'Whether the row is of a minute, an hour or a day: all three are written, so that a long time is read from few rows.';
COMMENT ON COLUMN tallies.began_at IS 'When the minute, the hour or the day began, in UTC.';
COMMENT ON COLUMN tallies.flow_id IS 'The flow.';
COMMENT ON COLUMN tallies.step IS 'The step, where attempts are counted by step, which is by hour alone; empty where the whole flow is meant.';
COMMENT ON COLUMN tallies.what IS 'What is counted.';
COMMENT ON COLUMN tallies.count IS 'How much.';
CREATE INDEX tallies_by_age ON tallies (unit, began_at);
CREATE INDEX tallies_of_flows ON tallies (namespace_id, began_at) WHERE unit = 'hour' AND step = '';

-- ------------------------------------------------------------------------------------------- Duties

CREATE TABLE duties (
    duty        text PRIMARY KEY,
    finished_at timestamptz,
    finished_by text,
    covered_at  timestamptz,
    covered_by  text,
    failed_at   timestamptz,
    failed_by   text,
    error       text,
    late_after_ms bigint
) WITH (fillfactor = 50);
COMMENT ON TABLE duties IS 'When each background duty was last done, by any server: one row for a duty. Servers write what they finished every few seconds; a duty whose holders finish nothing is done by another server as well.';
COMMENT ON COLUMN duties.duty IS 'The duty, by the name of its service in logs and metrics.';
COMMENT ON COLUMN duties.finished_at IS 'When a server that holds the duty last finished a pass.';
COMMENT ON COLUMN duties.finished_by IS 'Host and process number of that server, for operators.';
COMMENT ON COLUMN duties.covered_at IS 'When another server, which took the duty because it was late, last finished a pass.';
COMMENT ON COLUMN duties.covered_by IS 'Host and process number of that server, for operators.';
COMMENT ON COLUMN duties.failed_at IS 'When a pass last failed.';
COMMENT ON COLUMN duties.failed_by IS 'Host and process number of the server that it failed on, for operators.';
COMMENT ON COLUMN duties.error IS 'Why it failed.';
COMMENT ON COLUMN duties.late_after_ms IS 'How long nobody may finish a pass before the duty is late, in milliseconds, as the server said that wrote the row last.';

-- ------------------------------------------------------------------------------------------- Alerts

CREATE TABLE alert_settings (
    namespace_id integer PRIMARY KEY,
    connection   text,
    recipients   text[] NOT NULL DEFAULT '{}',
    set_at       timestamptz NOT NULL DEFAULT moment(),
    set_by       text NOT NULL
);
COMMENT ON TABLE alert_settings IS 'Where the alerts of a namespace go. A namespace without a row records no alerts.';
COMMENT ON COLUMN alert_settings.namespace_id IS 'The namespace.';
COMMENT ON COLUMN alert_settings.connection IS 'The connection that receives the messages; null if they are only printed to the log, as semel dev does.';
COMMENT ON COLUMN alert_settings.recipients IS 'Addresses of a mail, or the channel of a chat; may be empty for a webhook.';
COMMENT ON COLUMN alert_settings.set_at IS 'When it was set.';
COMMENT ON COLUMN alert_settings.set_by IS 'Who set it.';

CREATE TYPE alert_kind AS ENUM ('doubt', 'needs_review', 'quarantined', 'held', 'mismatch', 'approval_pending',
                                'approval_overdue', 'duplicates', 'not_proven', 'event_unreadable', 'test');
CREATE TABLE alert_events (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id integer NOT NULL,
    kind         alert_kind NOT NULL,
    flow         text NOT NULL,
    connection   text NOT NULL,
    step         text NOT NULL,
    run_id       uuid,
    count        bigint NOT NULL CHECK (count > 0),
    at           timestamptz NOT NULL DEFAULT moment()
);
COMMENT ON TABLE alert_events IS 'What happened that people must learn of, written in its commit; deleted in the commit that counts it in its group.';
COMMENT ON COLUMN alert_events.id IS 'In order of writing.';
COMMENT ON COLUMN alert_events.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN alert_events.kind IS 'What happened.';
COMMENT ON COLUMN alert_events.flow IS 'The flow; empty if there is none.';
COMMENT ON COLUMN alert_events.connection IS 'The connection that the step uses; empty if there is none.';
COMMENT ON COLUMN alert_events.step IS 'The step; empty if there is none.';
COMMENT ON COLUMN alert_events.run_id IS 'The run that it happened to.';
COMMENT ON COLUMN alert_events.count IS 'How often it happened.';
COMMENT ON COLUMN alert_events.at IS 'When.';

CREATE TABLE alert_groups (
    namespace_id  integer NOT NULL,
    kind          alert_kind NOT NULL,
    flow          text NOT NULL,
    connection    text NOT NULL,
    step          text NOT NULL,
    total         bigint NOT NULL CHECK (total > 0),
    waiting       bigint NOT NULL CHECK (waiting >= 0),
    waiting_since timestamptz,
    example       uuid,
    due_at        timestamptz,
    quiet_until   timestamptz,
    failures      integer NOT NULL DEFAULT 0 CHECK (failures >= 0),
    burst_at      timestamptz,
    last_at       timestamptz NOT NULL,
    PRIMARY KEY (namespace_id, kind, flow, connection, step),
    CONSTRAINT waits_since CHECK ((waiting > 0) = (waiting_since IS NOT NULL)),
    CONSTRAINT due_with_something CHECK (due_at IS NULL OR waiting > 0)
);
COMMENT ON TABLE alert_groups IS 'Alerts by what happened and where: each group has its own messages, at most one in 15 minutes.';
COMMENT ON COLUMN alert_groups.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN alert_groups.kind IS 'What happened.';
COMMENT ON COLUMN alert_groups.flow IS 'The flow; empty if there is none.';
COMMENT ON COLUMN alert_groups.connection IS 'The connection that the step uses; empty if there is none.';
COMMENT ON COLUMN alert_groups.step IS 'The step; empty if there is none.';
COMMENT ON COLUMN alert_groups.total IS 'How often it happened since the group exists.';
COMMENT ON COLUMN alert_groups.waiting IS 'How often it happened since the last message that was delivered, or that is on its way.';
COMMENT ON COLUMN alert_groups.waiting_since IS 'When the first of those happened.';
COMMENT ON COLUMN alert_groups.example IS 'A run that it happened to.';
COMMENT ON COLUMN alert_groups.due_at IS 'When the next message leaves; null if nothing waits, or if only a further event makes a message due.';
COMMENT ON COLUMN alert_groups.quiet_until IS 'Until when no message leaves, because one left before.';
COMMENT ON COLUMN alert_groups.failures IS 'How many of the latest messages in a row failed or are in doubt.';
COMMENT ON COLUMN alert_groups.burst_at IS 'The latest minute whose burst of duplicates was counted.';
COMMENT ON COLUMN alert_groups.last_at IS 'When it happened last.';
CREATE INDEX alert_groups_by_due ON alert_groups (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX alert_groups_by_age ON alert_groups (last_at);

CREATE TYPE alert_message_state AS ENUM ('due', 'sending', 'done', 'failed', 'in_doubt');
CREATE TABLE alert_messages (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    kind         alert_kind NOT NULL,
    flow         text NOT NULL,
    connection   text NOT NULL,
    step         text NOT NULL,
    period_start timestamptz NOT NULL,
    count        bigint NOT NULL CHECK (count > 0),
    since        timestamptz NOT NULL,
    example      uuid,
    destination  text,
    recipients   text[] NOT NULL,
    subject      text NOT NULL,
    body         text NOT NULL,
    state        alert_message_state NOT NULL DEFAULT 'due',
    attempt      integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    lease_until  timestamptz,
    note         text,
    intended_at  timestamptz NOT NULL DEFAULT moment(),
    settled_at   timestamptz,
    CONSTRAINT leased_while_sent CHECK ((lease_until IS NOT NULL) = (state = 'sending')),
    CONSTRAINT settled_when_over CHECK ((settled_at IS NULL) = (state IN ('due', 'sending')))
);
COMMENT ON TABLE alert_messages IS 'Messages about alerts. Each is written before it is sent, and has one of three outcomes.';
COMMENT ON COLUMN alert_messages.id IS 'Its key at the destination: a digest of the group and the start of the period.';
COMMENT ON COLUMN alert_messages.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN alert_messages.kind IS 'What happened.';
COMMENT ON COLUMN alert_messages.flow IS 'The flow; empty if there is none.';
COMMENT ON COLUMN alert_messages.connection IS 'The connection that the step uses; empty if there is none.';
COMMENT ON COLUMN alert_messages.step IS 'The step; empty if there is none.';
COMMENT ON COLUMN alert_messages.period_start IS 'When it became due.';
COMMENT ON COLUMN alert_messages.count IS 'How often it happened since the last message that was delivered.';
COMMENT ON COLUMN alert_messages.since IS 'When the first of those happened.';
COMMENT ON COLUMN alert_messages.example IS 'A run that it happened to.';
COMMENT ON COLUMN alert_messages.destination IS 'The connection that it goes to; null if it is only printed to the log.';
COMMENT ON COLUMN alert_messages.recipients IS 'Whom it goes to there.';
COMMENT ON COLUMN alert_messages.subject IS 'Its subject.';
COMMENT ON COLUMN alert_messages.body IS 'Its text, the same on every attempt.';
COMMENT ON COLUMN alert_messages.state IS 'Due until a server takes it, sending until its outcome is recorded.';
COMMENT ON COLUMN alert_messages.attempt IS 'How often a server took it.';
COMMENT ON COLUMN alert_messages.lease_until IS 'When another server may take it, while one sends it.';
COMMENT ON COLUMN alert_messages.note IS 'What was seen, where it was not delivered.';
COMMENT ON COLUMN alert_messages.intended_at IS 'When it was written.';
COMMENT ON COLUMN alert_messages.settled_at IS 'When its outcome was recorded.';
CREATE INDEX alert_messages_open ON alert_messages (intended_at) WHERE state IN ('due', 'sending');
CREATE INDEX alert_messages_by_group ON alert_messages (namespace_id, kind, flow, connection, step, period_start);
CREATE INDEX alert_messages_by_settled ON alert_messages (settled_at) WHERE state IN ('done', 'failed', 'in_doubt');

-- --------------------------------------------------------------- What operators and API clients did

CREATE TABLE commands (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    fingerprint  uuid NOT NULL,
    begun_at     timestamptz NOT NULL,
    holder_until timestamptz NOT NULL,
    status       smallint CHECK (status BETWEEN 100 AND 599),
    answer       json,
    CONSTRAINT answered_whole CHECK ((status IS NULL) = (answer IS NULL))
);
COMMENT ON TABLE commands IS 'The first response to each API command that came with an Idempotency-Key.';
COMMENT ON COLUMN commands.id IS 'Digest of namespace, route and key.';
COMMENT ON COLUMN commands.namespace_id IS 'The namespace of the command.';
COMMENT ON COLUMN commands.fingerprint IS 'The payload that came first; another one under the same key is refused.';
COMMENT ON COLUMN commands.begun_at IS 'When it first came; the row is removed a day later.';
COMMENT ON COLUMN commands.holder_until IS 'Until when the first request is taken to be running; a later one may then carry it out.';
COMMENT ON COLUMN commands.status IS 'The HTTP status of the response; null while the command runs.';
COMMENT ON COLUMN commands.answer IS 'The body of the response.';
CREATE INDEX commands_by_age ON commands (begun_at);

CREATE TYPE rehearsal_state AS ENUM ('queued', 'running', 'passed', 'violated', 'stopped');
CREATE TABLE rehearsals (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL REFERENCES namespaces,
    flow         text NOT NULL,
    digest       text NOT NULL CHECK (digest ~ '^[0-9a-f]{64}$'),
    facts        text NOT NULL,
    whole        boolean NOT NULL,
    state        rehearsal_state NOT NULL DEFAULT 'queued',
    cases_done   integer NOT NULL DEFAULT 0 CHECK (cases_done >= 0),
    cases_total  integer NOT NULL DEFAULT 0 CHECK (cases_total >= 0),
    report       json,
    problem      text,
    asked_by     text NOT NULL,
    asked_at     timestamptz NOT NULL DEFAULT moment(),
    seen_at      timestamptz NOT NULL DEFAULT moment(),
    ended_at     timestamptz,
    CONSTRAINT ended_unless_waiting
        CHECK ((ended_at IS NULL) = (state IN ('queued', 'running'))),
    CONSTRAINT report_where_judged CHECK (report IS NOT NULL OR state NOT IN ('passed', 'violated'))
);
COMMENT ON TABLE rehearsals IS 'Rehearsals of releases: how far each is, and what it showed.';
COMMENT ON COLUMN rehearsals.id IS 'Chosen by the client, so that asking twice is asking once.';
COMMENT ON COLUMN rehearsals.namespace_id IS 'The namespace that owns it.';
COMMENT ON COLUMN rehearsals.flow IS 'The flow.';
COMMENT ON COLUMN rehearsals.digest IS 'SHA-256 of the canonical form that was rehearsed: that of the release.';
COMMENT ON COLUMN rehearsals.facts IS 'What the connections said that the flow and those it calls use, as canonical JSON.';
COMMENT ON COLUMN rehearsals.whole IS 'Whether every example and every fault was played.';
COMMENT ON COLUMN rehearsals.state IS 'Queued and running until it ends; stopped where there is no report.';
COMMENT ON COLUMN rehearsals.cases_done IS 'How many cases were begun.';
COMMENT ON COLUMN rehearsals.cases_total IS 'How many there are; 0 where that is not known yet.';
COMMENT ON COLUMN rehearsals.report IS 'Every case, and what it showed.';
COMMENT ON COLUMN rehearsals.problem IS 'Why there is no report.';
COMMENT ON COLUMN rehearsals.asked_by IS 'Who asked for it.';
COMMENT ON COLUMN rehearsals.asked_at IS 'When.';
COMMENT ON COLUMN rehearsals.seen_at IS 'When its server last reported: one that is silent for a minute is gone.';
COMMENT ON COLUMN rehearsals.ended_at IS 'When it ended.';
CREATE INDEX rehearsals_by_release ON rehearsals (namespace_id, flow, digest, asked_at);

CREATE TABLE replay_plans (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    release      integer NOT NULL,
    state        text NOT NULL CHECK (state IN ('previewing', 'planned', 'running', 'paused', 'stopped', 'done')),
    per_second   integer NOT NULL CHECK (per_second BETWEEN 1 AND 100),
    actor        text NOT NULL,
    token_id     uuid,
    reason       text,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    due_at       timestamptz NOT NULL,
    stopped_because text
);
COMMENT ON TABLE replay_plans IS 'Sets of runs that operators replay together. A plan is about runs of all slots, so that it is control data; each run is replayed in its own slot.';
COMMENT ON COLUMN replay_plans.id IS 'The plan.';
COMMENT ON COLUMN replay_plans.namespace_id IS 'The namespace of its runs.';
COMMENT ON COLUMN replay_plans.flow IS 'The flow of its runs.';
COMMENT ON COLUMN replay_plans.release IS 'The number of the release that they are replayed on, frozen with the plan.';
COMMENT ON COLUMN replay_plans.state IS 'previewing: its runs are being previewed; planned: an operator may apply it; running: its runs are being replayed; paused, stopped: by an operator; done: every run has an outcome.';
COMMENT ON COLUMN replay_plans.per_second IS 'The most runs that are replayed in a second.';
COMMENT ON COLUMN replay_plans.actor IS 'Who made or applied it.';
COMMENT ON COLUMN replay_plans.token_id IS 'The token, or the person, that made or applied it: looked up again for each page of its runs.';
COMMENT ON COLUMN replay_plans.reason IS 'The operator''s reason.';
COMMENT ON COLUMN replay_plans.created_at IS 'When it was made.';
COMMENT ON COLUMN replay_plans.due_at IS 'When a server next works on it. The server that does moves this ahead first, so that another continues if it dies.';
COMMENT ON COLUMN replay_plans.stopped_because IS 'Why Semel stopped it; null where an operator did.';
CREATE INDEX replay_plans_due ON replay_plans (namespace_id, due_at) WHERE state IN ('previewing', 'running');
CREATE INDEX replay_plans_by_age ON replay_plans (namespace_id, created_at, id);

CREATE TABLE replay_items (
    plan_id  uuid NOT NULL REFERENCES replay_plans (id) ON DELETE CASCADE,
    run_id   uuid NOT NULL,
    state    text NOT NULL DEFAULT 'frozen' CHECK (state IN ('frozen', 'previewed', 'replayed', 'refused')),
    digest   text,
    summary  text,
    next_run uuid,
    code     text,
    note     text,
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    PRIMARY KEY (plan_id, run_id),
    CONSTRAINT replayed_by_a_run CHECK ((state = 'replayed') = (next_run IS NOT NULL))
);
COMMENT ON TABLE replay_items IS 'The runs of replay plans, with what became of each.';
COMMENT ON COLUMN replay_items.plan_id IS 'The plan.';
COMMENT ON COLUMN replay_items.run_id IS 'The run that is replayed.';
COMMENT ON COLUMN replay_items.state IS 'frozen: not previewed yet; previewed: it can be replayed; replayed: its next run was made; refused: it is not replayed.';
COMMENT ON COLUMN replay_items.digest IS 'The digest of its preview: it is replayed only while that holds.';
COMMENT ON COLUMN replay_items.summary IS 'What its preview shows, in short, e.g. 3 skipped, 2 performed.';
COMMENT ON COLUMN replay_items.next_run IS 'The run that replays it.';
COMMENT ON COLUMN replay_items.code IS 'Why it is refused, as a stable word.';
COMMENT ON COLUMN replay_items.note IS 'Why it is refused, in words.';
COMMENT ON COLUMN replay_items.attempts IS 'How many attempts the database or a worker cut short.';
CREATE INDEX replay_items_left ON replay_items (plan_id, state, run_id) WHERE state IN ('frozen', 'previewed');

CREATE TABLE pauses (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id integer NOT NULL,
    kind         text NOT NULL CHECK (kind IN ('flow', 'connection')),
    name         text NOT NULL,
    reason       text NOT NULL,
    actor        text NOT NULL,
    paused_at    timestamptz NOT NULL DEFAULT moment(),
    resumed_at   timestamptz,
    per_second   double precision CHECK (per_second >= 0.0001),
    drain_from   timestamptz,
    woken_count  bigint NOT NULL DEFAULT 0 CHECK (woken_count >= 0),
    drained_at   timestamptz,
    CONSTRAINT drained_after_resume CHECK (drained_at IS NULL OR resumed_at IS NOT NULL)
);
COMMENT ON TABLE pauses IS 'Pauses of flows and connections, also those that are over: the deadlines of a run are moved by the time that they took. A pause is about runs of all slots, so that it is control data.';
COMMENT ON COLUMN pauses.id IS 'In order of writing.';
COMMENT ON COLUMN pauses.namespace_id IS 'The namespace of what is paused.';
COMMENT ON COLUMN pauses.kind IS 'flow: its runs begin no step; connection: no effect over it begins.';
COMMENT ON COLUMN pauses.name IS 'The name of the flow or the connection.';
COMMENT ON COLUMN pauses.reason IS 'The operator''s reason.';
COMMENT ON COLUMN pauses.actor IS 'Who paused it.';
COMMENT ON COLUMN pauses.paused_at IS 'When it began.';
COMMENT ON COLUMN pauses.resumed_at IS 'When an operator ended it.';
COMMENT ON COLUMN pauses.per_second IS 'How many of the runs that it held continue in a second; all at once where it is null.';
COMMENT ON COLUMN pauses.drain_from IS 'When the first of the runs that it held was made due.';
COMMENT ON COLUMN pauses.woken_count IS 'How many of the runs that it held were made due since it is over.';
COMMENT ON COLUMN pauses.drained_at IS 'When all of them were. Until then a server works on it.';
CREATE UNIQUE INDEX pauses_open ON pauses (namespace_id, kind, name) WHERE resumed_at IS NULL;
CREATE INDEX pauses_by_name ON pauses (namespace_id, kind, name, resumed_at);
CREATE INDEX pauses_begun ON pauses (namespace_id, paused_at);
CREATE INDEX pauses_undrained ON pauses (id) WHERE drained_at IS NULL;
CREATE INDEX pauses_ended ON pauses (namespace_id, resumed_at) WHERE resumed_at IS NOT NULL;

CREATE TABLE paused_runs (
    run_id   uuid PRIMARY KEY,
    pause_id bigint NOT NULL,
    since    timestamptz NOT NULL DEFAULT moment()
);
COMMENT ON TABLE paused_runs IS 'Runs that sleep because of a pause. A row is written in the commit in which its run falls asleep, and deleted in the one that makes it due.';
COMMENT ON COLUMN paused_runs.run_id IS 'The run.';
COMMENT ON COLUMN paused_runs.pause_id IS 'The pause that it sleeps for.';
COMMENT ON COLUMN paused_runs.since IS 'Since when.';
CREATE INDEX paused_runs_by_pause ON paused_runs (pause_id);

CREATE TABLE run_jobs (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    verb         text NOT NULL CHECK (verb IN ('cancel', 'resume')),
    state        text NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'done', 'stopped')),
    digest       text NOT NULL,
    actor        text NOT NULL,
    token_id     uuid,
    reason       text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    due_at       timestamptz NOT NULL,
    stopped_because text
);
COMMENT ON TABLE run_jobs IS 'Sets of runs that operators cancel or resume together. A job is about runs of all slots, so that it is control data; each run is cancelled or resumed in its own slot.';
COMMENT ON COLUMN run_jobs.id IS 'The job.';
COMMENT ON COLUMN run_jobs.namespace_id IS 'The namespace of its runs.';
COMMENT ON COLUMN run_jobs.flow IS 'The flow of its runs.';
COMMENT ON COLUMN run_jobs.verb IS 'What is done to its runs.';
COMMENT ON COLUMN run_jobs.state IS 'running: runs are left; done: every run has an outcome; stopped: an operator or Semel stopped it, and what is left is left alone.';
COMMENT ON COLUMN run_jobs.digest IS 'The digest of the plan that the operator was shown.';
COMMENT ON COLUMN run_jobs.actor IS 'Who made it.';
COMMENT ON COLUMN run_jobs.token_id IS 'The token, or the person, that made it: looked up again for each page of its runs.';
COMMENT ON COLUMN run_jobs.reason IS 'The operator''s reason.';
COMMENT ON COLUMN run_jobs.created_at IS 'When it was made.';
COMMENT ON COLUMN run_jobs.due_at IS 'When a server next works on it. The server that does moves this ahead first, so that another continues if it dies.';
COMMENT ON COLUMN run_jobs.stopped_because IS 'Why Semel stopped it; null where an operator did.';
CREATE INDEX run_jobs_due ON run_jobs (namespace_id, due_at) WHERE state = 'running';
CREATE INDEX run_jobs_by_age ON run_jobs (namespace_id, created_at, id);

CREATE TABLE run_job_items (
    job_id   uuid NOT NULL REFERENCES run_jobs (id) ON DELETE CASCADE,
    run_id   uuid NOT NULL,
    planned_state text NOT NULL,
    planned_seq integer NOT NULL,
    state    text NOT NULL DEFAULT 'left' CHECK (state IN ('left', 'done', 'refused')),
    code     text,
    note     text,
    attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    PRIMARY KEY (job_id, run_id)
);
COMMENT ON TABLE run_job_items IS 'The runs of jobs, with what became of each.';
COMMENT ON COLUMN run_job_items.job_id IS 'The job.';
COMMENT ON COLUMN run_job_items.run_id IS 'The run.';
COMMENT ON COLUMN run_job_items.planned_state IS 'The state of the run that the operator was shown.';
COMMENT ON COLUMN run_job_items.planned_seq IS 'The number of the latest row of its journal then: a run that moved since is not resumed.';
COMMENT ON COLUMN run_job_items.state IS 'left: nothing was done yet; done: it was cancelled or resumed; refused: it is not.';
COMMENT ON COLUMN run_job_items.code IS 'Why it is refused, as a stable word.';
COMMENT ON COLUMN run_job_items.note IS 'Why it is refused, in words.';
COMMENT ON COLUMN run_job_items.attempts IS 'How many attempts the database or a worker cut short.';
CREATE INDEX run_job_items_left ON run_job_items (job_id, attempts, run_id) WHERE state = 'left';

CREATE TABLE audit (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    namespace_id integer NOT NULL,
    at           timestamptz NOT NULL DEFAULT moment(),
    actor        text NOT NULL,
    action       text NOT NULL,
    subject      text NOT NULL,
    reason       text,
    run_id       uuid,
    token_id     uuid,
    address      text,
    old_digest   bytea CHECK (octet_length(old_digest) = 32),
    new_digest   bytea CHECK (octet_length(new_digest) = 32)
);
COMMENT ON TABLE audit IS 'What operators did. A row is added in the commit of the act, and never changed. Retention removes the oldest of a chain together and keeps their seal.';
COMMENT ON COLUMN audit.id IS 'In order of writing.';
COMMENT ON COLUMN audit.namespace_id IS 'The namespace that it concerns.';
COMMENT ON COLUMN audit.at IS 'When.';
COMMENT ON COLUMN audit.actor IS 'The token''s name.';
COMMENT ON COLUMN audit.action IS 'What was done, e.g. doubt.settle or key.drop.';
COMMENT ON COLUMN audit.subject IS 'What it was done to.';
COMMENT ON COLUMN audit.reason IS 'The operator''s reason.';
COMMENT ON COLUMN audit.run_id IS 'The run that it concerns, where it concerns one.';
COMMENT ON COLUMN audit.token_id IS 'The token of the request, whose name need not be unique; null where no token asked for it.';
COMMENT ON COLUMN audit.address IS 'The address of the client, as the server sees it; null where no request asked for it.';
COMMENT ON COLUMN audit.old_digest IS 'SHA-256 of what was there before, where the act changes something that has one.';
COMMENT ON COLUMN audit.new_digest IS 'SHA-256 of what is there now.';
CREATE INDEX audit_by_run ON audit (run_id, id) WHERE run_id IS NOT NULL;
CREATE INDEX audit_by_time ON audit (namespace_id, at, id);
CREATE INDEX audit_by_actor ON audit (namespace_id, actor, at, id);
CREATE INDEX audit_by_action ON audit (namespace_id, action, at, id);
CREATE INDEX audit_by_subject ON audit (namespace_id, hashtextextended(subject, 0), at, id);
CREATE FUNCTION refuse_audit_change() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        RAISE EXCEPTION 'rows of the audit record are never changed'
            USING ERRCODE = 'insufficient_privilege';
    END $$;
COMMENT ON FUNCTION refuse_audit_change() IS
    'Keeps the tables of the audit record append-only, for every role; their owner can disable the trigger.';

CREATE TRIGGER audit_append_only
    BEFORE UPDATE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
-- Also in sessions that replay another database's changes.
ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_append_only;

CREATE TABLE audit_chain (
    namespace_id integer NOT NULL,
    position     bigint NOT NULL CHECK (position > 0),
    audit_id     bigint NOT NULL,
    digest       bytea NOT NULL CHECK (octet_length(digest) = 32),
    sealed_at    timestamptz NOT NULL DEFAULT moment(),
    PRIMARY KEY (namespace_id, position),
    UNIQUE (namespace_id, audit_id)
);
COMMENT ON TABLE audit_chain IS 'The acts of each namespace in one order, each with the digest of itself and all before it. A row is never changed; it is removed with its act.';
COMMENT ON COLUMN audit_chain.namespace_id IS 'Whose chain.';
COMMENT ON COLUMN audit_chain.position IS 'The place in it, from 1 without gaps.';
COMMENT ON COLUMN audit_chain.audit_id IS 'The act.';
COMMENT ON COLUMN audit_chain.digest IS 'SHA-256 of the digest before it and of the act.';
COMMENT ON COLUMN audit_chain.sealed_at IS 'When it was sealed.';
CREATE INDEX audit_chain_by_time ON audit_chain (sealed_at, audit_id);
CREATE TRIGGER audit_chain_append_only
    BEFORE UPDATE OR TRUNCATE ON audit_chain
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
ALTER TABLE audit_chain ENABLE ALWAYS TRIGGER audit_chain_append_only;

CREATE TABLE audit_removed (
    namespace_id   integer NOT NULL,
    first_position bigint NOT NULL CHECK (first_position > 0),
    last_position  bigint NOT NULL CHECK (last_position >= first_position),
    digest_before  bytea NOT NULL CHECK (octet_length(digest_before) = 32),
    digest         bytea NOT NULL CHECK (octet_length(digest) = 32),
    latest_at      timestamptz NOT NULL,
    removed_at     timestamptz NOT NULL DEFAULT moment(),
    PRIMARY KEY (namespace_id, last_position)
);
COMMENT ON TABLE audit_removed IS 'Stretches of chains whose acts are past their time and removed: their seal stays. A row is never changed or removed.';
COMMENT ON COLUMN audit_removed.namespace_id IS 'Whose chain.';
COMMENT ON COLUMN audit_removed.first_position IS 'The place of the first act that was removed: 1, or behind the stretch before.';
COMMENT ON COLUMN audit_removed.last_position IS 'The place of the last one.';
COMMENT ON COLUMN audit_removed.digest_before IS 'The digest that the first one followed.';
COMMENT ON COLUMN audit_removed.digest IS 'The digest of the last one, which the first act that is left follows.';
COMMENT ON COLUMN audit_removed.latest_at IS 'When the latest of the acts was done.';
COMMENT ON COLUMN audit_removed.removed_at IS 'When they were removed.';
CREATE TRIGGER audit_removed_append_only
    BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
ALTER TABLE audit_removed ENABLE ALWAYS TRIGGER audit_removed_append_only;

-- A stretch begins where the one before ended, has the digests that the chain has, is not the whole chain, and is 30 days old. By
-- PostgreSQL's own clock: ours can be moved. Not in sessions that replay another database's changes or restore a dump,
-- whose rows come in another order.
CREATE FUNCTION refuse_other_stretch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ DECLARE
        before audit_removed%ROWTYPE;
    BEGIN
        SELECT * INTO before
          FROM audit_removed
         WHERE namespace_id = NEW.namespace_id
         ORDER BY last_position DESC
         LIMIT 1;
        IF NEW.first_position <> coalesce(before.last_position, 0) + 1
           OR NEW.digest_before <> coalesce(before.digest, decode(repeat('00', 32), 'hex'))
           OR NEW.digest IS DISTINCT FROM (
               SELECT digest FROM audit_chain
                WHERE namespace_id = NEW.namespace_id AND position = NEW.last_position)
           OR NOT EXISTS (
               SELECT 1 FROM audit_chain
                WHERE namespace_id = NEW.namespace_id AND position = NEW.last_position + 1)
           OR EXISTS (
               SELECT 1
                 FROM audit_chain c
                 JOIN audit a ON a.id = c.audit_id
                WHERE c.namespace_id = NEW.namespace_id
                  AND c.position BETWEEN NEW.first_position AND NEW.last_position
                  AND a.at > clock_timestamp() - interval '30 days') THEN
            RAISE EXCEPTION 'this is no stretch of the audit record that may be removed'
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        RETURN NEW;
    END $$;
COMMENT ON FUNCTION refuse_other_stretch() IS
    'Keeps the seals of removed stretches true to the chain; the owner can disable the trigger.';
CREATE TRIGGER audit_removed_fits
    BEFORE INSERT ON audit_removed
    FOR EACH ROW EXECUTE FUNCTION refuse_other_stretch();

-- An act may go only as part of a stretch whose seal is kept, and 30 days after it was done at the earliest. Its place in
-- the chain goes after it.
CREATE FUNCTION refuse_audit_removal() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        IF EXISTS (
            SELECT 1
              FROM gone g
             WHERE g.at > clock_timestamp() - interval '30 days'
                OR (SELECT true
                      FROM audit_chain c
                      JOIN audit_removed s ON s.namespace_id = c.namespace_id
                                          AND c.position BETWEEN s.first_position AND s.last_position
                     WHERE c.namespace_id = g.namespace_id AND c.audit_id = g.id
                     LIMIT 1) IS NULL) THEN
            RAISE EXCEPTION 'acts of the audit record are removed by retention only, which keeps their seal'
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        RETURN NULL;
    END $$;
COMMENT ON FUNCTION refuse_audit_removal() IS
    'Keeps acts that are younger than 30 days or whose seal is not kept, for every role; the owner can disable the trigger.';
CREATE TRIGGER audit_removal
    AFTER DELETE ON audit
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_removal();
ALTER TABLE audit ENABLE ALWAYS TRIGGER audit_removal;

CREATE FUNCTION refuse_audit_chain_removal() RETURNS trigger
    LANGUAGE plpgsql
    AS $$ BEGIN
        IF EXISTS (
            SELECT 1
              FROM gone g
             WHERE (SELECT true FROM audit a WHERE a.id = g.audit_id) IS NOT NULL
                OR (SELECT true
                      FROM audit_removed s
                     WHERE s.namespace_id = g.namespace_id
                       AND g.position BETWEEN s.first_position AND s.last_position
                     LIMIT 1) IS NULL) THEN
            RAISE EXCEPTION 'an act of the audit record leaves its chain only with its stretch, after it was removed'
                USING ERRCODE = 'insufficient_privilege';
        END IF;
        RETURN NULL;
    END $$;
COMMENT ON FUNCTION refuse_audit_chain_removal() IS
    'Keeps the places of acts that are there or whose seal is not kept, for every role; the owner can disable the trigger.';
CREATE TRIGGER audit_chain_removal
    AFTER DELETE ON audit_chain
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_chain_removal();
ALTER TABLE audit_chain ENABLE ALWAYS TRIGGER audit_chain_removal;

-- The only way in which retention removes acts. It calls nothing but what PostgreSQL brings, and takes the time from its caller:
-- whoever gives these tables to a role of their own (packaging/audit-owner.sql) lets it run with the rights of that role.
CREATE FUNCTION remove_audit_stretch(
    chain_of integer, first_place bigint, last_place bigint, followed bytea, seal bytea, latest timestamptz,
    acts bigint[], done_at timestamptz) RETURNS void
    LANGUAGE plpgsql
    AS $$ BEGIN
        INSERT INTO audit_removed
            (namespace_id, first_position, last_position, digest_before, digest, latest_at, removed_at)
        VALUES (chain_of, first_place, last_place, followed, seal, latest, done_at);
        DELETE FROM audit WHERE id = ANY (acts);
        DELETE FROM audit_chain
         WHERE namespace_id = chain_of AND position BETWEEN first_place AND last_place;
    END $$;
COMMENT ON FUNCTION remove_audit_stretch(integer, bigint, bigint, bytea, bytea, timestamptz, bigint[], timestamptz) IS
    'Removes a stretch of a chain and keeps its seal, for retention: with the rights of the owner of these tables, where they belong to a role of their own.';
