-- The schema of Semel, as PostgreSQL describes it once every migration is applied.
--
-- Generated and compared by a test: after a change in migrations/, run
--
--     SEMEL_BLESS=1 cargo nextest run -p semel-store -E 'test(schema::)'
--
-- Monthly partitions of journal and effects are left out.

CREATE TYPE run_state AS ENUM ('active', 'in_doubt', 'needs_review', 'quarantined', 'succeeded', 'failed', 'cancelled', 'superseded');
CREATE TYPE queue_stage AS ENUM ('ready', 'retrying', 'waiting', 'stopped');
CREATE TYPE effect_state AS ENUM ('pending', 'retrying', 'done', 'failed', 'in_doubt');
CREATE TYPE effect_guard AS ENUM ('transaction', 'key', 'natural', 'probe', 'repeat', 'review');
CREATE TYPE attention_kind AS ENUM ('doubt', 'needs_review', 'quarantined', 'named_effect');
CREATE TYPE child_state AS ENUM ('pending', 'open', 'succeeded', 'failed', 'cancelled');
CREATE TYPE wait_state AS ENUM ('open', 'answered', 'elapsed', 'cancelled');
CREATE TYPE task_state AS ENUM ('open', 'held', 'done', 'failed', 'lost', 'withdrawn');
CREATE TYPE approval_state AS ENUM ('open', 'decided', 'elapsed', 'withdrawn');
CREATE TYPE tick_verdict AS ENUM ('fired', 'skipped');
CREATE TYPE pass_state AS ENUM ('open', 'done', 'failed');
CREATE TYPE gate_place AS ENUM ('waiting', 'debouncing', 'granted', 'running', 'joining', 'dropped');
CREATE TYPE webhook_delivery_state AS ENUM ('due', 'delivered', 'failed');
CREATE TYPE named_effect_state AS ENUM ('absent', 'pending', 'done', 'failed', 'in_doubt', 'undoing');
CREATE TYPE tally_kind AS ENUM ('accepted', 'repeat', 'mismatch', 'stale', 'succeeded', 'failed', 'cancelled', 'superseded', 'stopped', 'effect_done', 'effect_failed', 'effect_doubted');
CREATE TYPE tally_unit AS ENUM ('minute', 'hour', 'day');
CREATE TYPE alert_kind AS ENUM ('doubt', 'needs_review', 'quarantined', 'held', 'mismatch', 'approval_pending', 'approval_overdue', 'duplicates', 'not_proven', 'event_unreadable', 'test');
CREATE TYPE alert_message_state AS ENUM ('due', 'sending', 'done', 'failed', 'in_doubt');
CREATE TYPE rehearsal_state AS ENUM ('queued', 'running', 'passed', 'violated', 'stopped');

-- The only clock. Not frozen at the start of a transaction, as now() is.
CREATE OR REPLACE FUNCTION moment()
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
 PARALLEL RESTRICTED
AS $function$ BEGIN RETURN clock_timestamp() + (SELECT time_offset FROM clock); END $function$;

-- Rolls the whole transaction back when one write of a batch was fenced off, so that a batch can be sent in one round trip.
CREATE OR REPLACE FUNCTION all_or_nothing(happened bigint, wanted bigint)
 RETURNS void
 LANGUAGE plpgsql
AS $function$ BEGIN
        IF happened <> wanted THEN
            RAISE EXCEPTION 'only % of % writes passed the fence', happened, wanted
                USING ERRCODE = 'SM001';
        END IF;
    END $function$;

-- Keeps the tables of the audit record append-only, for every role; their owner can disable the trigger.
CREATE OR REPLACE FUNCTION refuse_audit_change()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ BEGIN
        RAISE EXCEPTION 'rows of the audit record are never changed'
            USING ERRCODE = 'insufficient_privilege';
    END $function$;

-- Keeps the seals of removed stretches true to the chain; the owner can disable the trigger.
CREATE OR REPLACE FUNCTION refuse_other_stretch()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ DECLARE
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
    END $function$;

-- Keeps acts that are younger than 30 days or whose seal is not kept, for every role; the owner can disable the trigger.
CREATE OR REPLACE FUNCTION refuse_audit_removal()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ BEGIN
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
    END $function$;

-- Keeps the places of acts that are there or whose seal is not kept, for every role; the owner can disable the trigger.
CREATE OR REPLACE FUNCTION refuse_audit_chain_removal()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$ BEGIN
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
    END $function$;

-- Removes a stretch of a chain and keeps its seal, for retention: with the rights of the owner of these tables, where they belong to a role of their own.
CREATE OR REPLACE FUNCTION remove_audit_stretch(chain_of integer, first_place bigint, last_place bigint, followed bytea, seal bytea, latest timestamp with time zone, acts bigint[], done_at timestamp with time zone)
 RETURNS void
 LANGUAGE plpgsql
AS $function$ BEGIN
        INSERT INTO audit_removed
            (namespace_id, first_position, last_position, digest_before, digest, latest_at, removed_at)
        VALUES (chain_of, first_place, last_place, followed, seal, latest, done_at);
        DELETE FROM audit WHERE id = ANY (acts);
        DELETE FROM audit_chain
         WHERE namespace_id = chain_of AND position BETWEEN first_place AND last_place;
    END $function$;

-- What every write of the journal reads: the offset of Semel's clock from the server's, and the version of what is paused.
CREATE TABLE clock (
    -- Keeps the table at one row.
    only_row boolean NOT NULL DEFAULT true,
    -- Added to the server's clock by moment(). Zero in production; tests move it.
    time_offset interval NOT NULL DEFAULT '00:00:00'::interval,
    -- Rises with every pause and resume. An intent that was decided under another version is refused.
    pause_version bigint NOT NULL DEFAULT 0,

    CONSTRAINT clock_pkey PRIMARY KEY (only_row),
    CONSTRAINT clock_only_row_check CHECK (only_row)
);

-- The owners of flows, runs and tokens.
CREATE TABLE namespaces (
    -- Short form of the name, carried by rows of which there are many.
    id integer NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- The name; it enters into every derived identity and never changes.
    name text NOT NULL,
    -- When it was made.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- Its share where servers are short of room: of two namespaces with due runs, one of weight 2 has twice as many taken as one of weight 1.
    weight integer NOT NULL DEFAULT 1,
    -- How many of its runs may be due and wait for a server before new deliveries are refused; null where as many as come.
    backlog_max integer,
    -- How long its ended runs are kept whose flow does not say; null where as long as the server says.
    history_ms bigint,

    CONSTRAINT namespaces_pkey PRIMARY KEY (id),
    CONSTRAINT namespaces_name_key UNIQUE (name),
    CONSTRAINT namespaces_backlog_max_check CHECK ((backlog_max > 0)),
    CONSTRAINT namespaces_history_ms_check CHECK ((history_ms > 0)),
    CONSTRAINT namespaces_weight_check CHECK (((weight >= 1) AND (weight <= 1000)))
);

-- What authors write. Written to the home cell and cached by every server.
CREATE TABLE flows (
    -- Short form of namespace and name.
    id integer NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The flow's name; it enters into every derived identity and never changes.
    name text NOT NULL,
    -- The working copy, as its author wrote it.
    draft text,
    -- When the working copy was last pushed.
    draft_at timestamp with time zone,
    -- The number of the release that new runs start on; null before the first promotion.
    live_release integer,
    -- When it was first pushed.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When the live release replaced another; instants of its schedule count from here. Null before the first promotion.
    live_at timestamp with time zone,

    CONSTRAINT flows_pkey PRIMARY KEY (id),
    CONSTRAINT flows_namespace_id_name_key UNIQUE (namespace_id, name),
    CONSTRAINT flows_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES namespaces(id),
    CONSTRAINT flows_live_release_check CHECK ((live_release > 0))
);

-- Frozen, numbered copies of flows. A run stays on the release that it started on.
CREATE TABLE releases (
    -- Short form of flow and number, carried by every run.
    id integer NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- The flow.
    flow_id integer NOT NULL,
    -- r1, r2 and so on, within the flow.
    number integer NOT NULL,
    -- SHA-256 of the canonical form: publishing the same flow twice gives one release.
    digest text NOT NULL,
    -- The text, as its author wrote it.
    source text NOT NULL,
    -- When it was frozen.
    published_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When it first became live: going back to it is never refused. Null before.
    first_live_at timestamp with time zone,

    CONSTRAINT releases_pkey PRIMARY KEY (id),
    CONSTRAINT releases_flow_id_digest_key UNIQUE (flow_id, digest),
    CONSTRAINT releases_flow_id_number_key UNIQUE (flow_id, number),
    CONSTRAINT releases_flow_id_fkey FOREIGN KEY (flow_id) REFERENCES flows(id),
    CONSTRAINT releases_digest_check CHECK ((digest ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT releases_number_check CHECK ((number > 0))
);

-- Counts changes of the configuration, so that a server can recognise a stale cache by one number.
CREATE TABLE config_version (
    -- Keeps the table at one row.
    only_row boolean NOT NULL DEFAULT true,
    -- Grows with every change of flows, releases, namespaces or tokens.
    version bigint NOT NULL DEFAULT 1,

    CONSTRAINT config_version_pkey PRIMARY KEY (only_row),
    CONSTRAINT config_version_only_row_check CHECK (only_row),
    CONSTRAINT config_version_version_check CHECK ((version > 0))
);

-- API tokens, and the people who sign in through an identity provider. Only a digest of the secret is kept; for 10 minutes after a keyed request the token is also kept, encrypted with the master key.
CREATE TABLE tokens (
    -- The public part of the token.
    id uuid NOT NULL,
    -- The one namespace that it gives access to.
    namespace_id integer NOT NULL,
    -- What its owner calls it.
    name text NOT NULL,
    -- SHA-256 of the secret part, which has 256 random bits.
    digest bytea NOT NULL,
    -- When it was made.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When it stops working.
    expires_at timestamp with time zone NOT NULL,
    -- When an operator revoked it.
    revoked_at timestamp with time zone,
    -- When it was last used, to the minute.
    last_used_at timestamp with time zone,
    -- The groups that its owner belongs to: an approval may be from one of them.
    groups text[] NOT NULL DEFAULT '{}'::text[],
    -- The role that it was made with; its rights are in rights, as they were then.
    role text,
    -- What it may do: every route of the API needs one of them.
    rights text[] NOT NULL,
    -- The networks that it is accepted from; none listed is anywhere.
    networks cidr[] NOT NULL DEFAULT '{}'::cidr[],
    -- The queues whose tasks it may work on; none listed is every queue.
    queues text[] NOT NULL DEFAULT '{}'::text[],
    -- An API token, or a person: nobody has the secret of a person's row, which only sign-ins stand for.
    kind text NOT NULL DEFAULT 'api'::text,
    -- The identity provider that knows the person; null for an API token.
    issuer text,
    -- What the provider knows the person by; null for an API token.
    subject text,
    -- Whether its secret may have been derived from the installation's secret key, so that whoever has that key can compute it: true unless the binary that stored it says that it was drawn at random.
    derived boolean NOT NULL DEFAULT true,
    -- The token or the person that made it; null where somebody did with access to the database itself.
    made_by uuid,
    -- The person that made it, or the token that made it; null where no person of the namespace did. It works no longer than for a while after the last sign-in of that person.
    person uuid,
    -- When it stops working at the latest, however often that person signs in; null where no person made it.
    ends_at timestamp with time zone,
    -- The token, encrypted with the master key, for a repeat of the request that made it; null soon after.
    sealed bytea,
    -- Until when a repeat of that request is shown the token.
    sealed_until timestamp with time zone,

    CONSTRAINT tokens_pkey PRIMARY KEY (id),
    CONSTRAINT tokens_made_by_fkey FOREIGN KEY (made_by) REFERENCES tokens(id),
    CONSTRAINT tokens_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES namespaces(id),
    CONSTRAINT tokens_person_fkey FOREIGN KEY (person) REFERENCES tokens(id),
    CONSTRAINT tokens_check CHECK (((cardinality(queues) = 0) OR ('work'::text = ANY (rights)))),
    CONSTRAINT tokens_check1 CHECK ((((kind = 'person'::text) = (issuer IS NOT NULL)) AND ((kind = 'person'::text) = (subject IS NOT NULL)))),
    CONSTRAINT tokens_check2 CHECK (((person IS NULL) = (ends_at IS NULL))),
    CONSTRAINT tokens_check3 CHECK (((sealed IS NULL) = (sealed_until IS NULL))),
    CONSTRAINT tokens_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT tokens_kind_check CHECK ((kind = ANY (ARRAY['api'::text, 'person'::text]))),
    CONSTRAINT tokens_networks_check CHECK ((array_position(networks, NULL::cidr) IS NULL)),
    CONSTRAINT tokens_queues_check CHECK ((array_position(queues, NULL::text) IS NULL)),
    CONSTRAINT tokens_rights_check CHECK (((cardinality(rights) > 0) AND (rights <@ ARRAY['read'::text, 'payload'::text, 'start'::text, 'operate'::text, 'settle'::text, 'replay'::text, 'approve'::text, 'write'::text, 'promote'::text, 'connect'::text, 'secret'::text, 'override'::text, 'redo'::text, 'once'::text, 'work'::text, 'admin'::text, 'audit'::text, 'instance'::text]))),
    CONSTRAINT tokens_role_check CHECK ((role = ANY (ARRAY['observer'::text, 'viewer'::text, 'operator'::text, 'approver'::text, 'editor'::text, 'admin'::text, 'worker'::text])))
);
CREATE INDEX tokens_by_age ON tokens USING btree (namespace_id, created_at, id);
CREATE INDEX tokens_by_maker ON tokens USING btree (made_by) WHERE (made_by IS NOT NULL);
CREATE INDEX tokens_by_owner ON tokens USING btree (person) WHERE (person IS NOT NULL);
CREATE UNIQUE INDEX tokens_by_person ON tokens USING btree (issuer, subject, namespace_id) WHERE (kind = 'person'::text);
CREATE INDEX tokens_by_seal ON tokens USING btree (sealed_until) WHERE (sealed_until IS NOT NULL);

-- Which role the members of a group have who sign in through an identity provider.
CREATE TABLE group_roles (
    -- The namespace that they have it in.
    namespace_id integer NOT NULL,
    -- The group, as the identity provider calls it.
    group_name text NOT NULL,
    -- The role.
    role text NOT NULL,
    -- What they may do besides: rights that are given one by one.
    rights text[] NOT NULL DEFAULT '{}'::text[],
    -- When the group got this role.
    changed_at timestamp with time zone NOT NULL DEFAULT moment(),

    CONSTRAINT group_roles_pkey PRIMARY KEY (namespace_id, group_name),
    CONSTRAINT group_roles_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES namespaces(id),
    CONSTRAINT group_roles_role_check CHECK ((role = ANY (ARRAY['observer'::text, 'viewer'::text, 'operator'::text, 'approver'::text, 'editor'::text, 'admin'::text, 'worker'::text])))
);
CREATE INDEX group_roles_by_group ON group_roles USING btree (group_name);

-- Codes that people sign in to the console with, each once. The code itself is never stored.
CREATE TABLE sign_in_codes (
    -- SHA-256 of the code, which has 256 random bits.
    digest bytea NOT NULL,
    -- The token that made it, whose rights the sign-in has.
    token_id uuid NOT NULL,
    -- When it stops working.
    expires_at timestamp with time zone NOT NULL,

    CONSTRAINT sign_in_codes_pkey PRIMARY KEY (digest),
    CONSTRAINT sign_in_codes_token_id_fkey FOREIGN KEY (token_id) REFERENCES tokens(id),
    CONSTRAINT sign_in_codes_digest_check CHECK ((octet_length(digest) = 32))
);
CREATE INDEX sign_in_codes_by_expiry ON sign_in_codes USING btree (expires_at);

-- Browsers that are signed in to the console. What a browser holds is never stored.
CREATE TABLE sign_ins (
    -- SHA-256 of the cookie, which has 256 random bits.
    digest bytea NOT NULL,
    -- The token whose rights it has; it works while the token does.
    token_id uuid NOT NULL,
    -- When the person signed in.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When it was last used, to the minute.
    seen_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When it stops working, however often it is used. That of a person who signed in through an identity provider moves each time that the provider names their groups.
    expires_at timestamp with time zone NOT NULL,
    -- SHA-256 of the issuer and of what the identity provider knows its session with the browser by, where it says so. The provider can end the sign-in by it.
    provider_session bytea,

    CONSTRAINT sign_ins_pkey PRIMARY KEY (digest),
    CONSTRAINT sign_ins_token_id_fkey FOREIGN KEY (token_id) REFERENCES tokens(id),
    CONSTRAINT sign_ins_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT sign_ins_provider_session_check CHECK ((octet_length(provider_session) = 32))
);
CREATE INDEX sign_ins_by_expiry ON sign_ins USING btree (expires_at);
CREATE INDEX sign_ins_by_provider_session ON sign_ins USING btree (provider_session) WHERE (provider_session IS NOT NULL);
CREATE INDEX sign_ins_by_token ON sign_ins USING btree (token_id);

-- Logout tokens of identity providers that were used: each works once.
CREATE TABLE logout_tokens (
    -- SHA-256 of the issuer and the token's identity.
    digest bytea NOT NULL,
    -- When a token of this identity would be too old anyway.
    expires_at timestamp with time zone NOT NULL,

    CONSTRAINT logout_tokens_pkey PRIMARY KEY (digest),
    CONSTRAINT logout_tokens_digest_check CHECK ((octet_length(digest) = 32))
);
CREATE INDEX logout_tokens_by_expiry ON logout_tokens USING btree (expires_at);

-- Searches of runs that people saved in the console.
CREATE TABLE searches (
    -- The namespace that is searched.
    namespace_id integer NOT NULL,
    -- The token or the person whose it is; zero where everybody in the namespace has it.
    owner uuid NOT NULL,
    -- What it is called.
    name text NOT NULL,
    -- What is searched for, as in the search box.
    query text NOT NULL,
    -- Who saved it.
    saved_by text NOT NULL,
    -- When it was saved.
    saved_at timestamp with time zone NOT NULL DEFAULT moment(),

    CONSTRAINT searches_pkey PRIMARY KEY (namespace_id, owner, name),
    CONSTRAINT searches_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES namespaces(id)
);

-- Destinations as their owners describe them. They name secrets and hold none.
CREATE TABLE connections (
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- What flows call it.
    name text NOT NULL,
    -- Grows with every change.
    version bigint NOT NULL DEFAULT 1,
    -- Address, authentication, limits.
    connection json NOT NULL,
    -- When it was made.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When it was changed last.
    changed_at timestamp with time zone NOT NULL DEFAULT moment(),

    CONSTRAINT connections_pkey PRIMARY KEY (namespace_id, name),
    CONSTRAINT connections_version_check CHECK ((version > 0))
);

-- The keys that encrypt secrets, each itself encrypted with a key from outside the database.
CREATE TABLE data_keys (
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- 1, 2, 3 …; the highest encrypts new secrets.
    number integer NOT NULL,
    -- Nonce and encrypted key.
    wrapped bytea NOT NULL,
    -- Which outer key encrypted it: eight bytes of that key's digest, in hex.
    wrapped_by text NOT NULL,
    -- When it was made.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),

    CONSTRAINT data_keys_pkey PRIMARY KEY (namespace_id, number),
    CONSTRAINT data_keys_number_check CHECK ((number > 0))
);

-- Secrets, encrypted. They can be set and used, and never read back.
CREATE TABLE secrets (
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- What connections and triggers call it.
    name text NOT NULL,
    -- 1, 2, 3 …; the highest is used for sending.
    version integer NOT NULL,
    -- The number of the key that encrypted it.
    data_key integer NOT NULL,
    -- Nonce and encrypted text; bound to namespace, name and version.
    sealed bytea NOT NULL,
    -- When it was set.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- Until when an older version still verifies deliveries; null for the latest.
    retires_at timestamp with time zone,
    -- The hosts that it may be sent to; empty means any host.
    hosts text[] NOT NULL DEFAULT '{}'::text[],

    CONSTRAINT secrets_pkey PRIMARY KEY (namespace_id, name, version),
    CONSTRAINT secrets_data_key_check CHECK ((data_key > 0)),
    CONSTRAINT secrets_version_check CHECK ((version > 0))
);

-- Webhooks that receive events.
CREATE TABLE subscriptions (
    -- The namespace whose events it receives.
    namespace_id integer NOT NULL,
    -- What its owner calls it.
    name text NOT NULL,
    -- The event; a trailing .* matches every event with that prefix.
    event text NOT NULL,
    -- The webhook connection that deliveries go to.
    connection text NOT NULL,
    -- When it was made. Earlier events are not delivered.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),

    CONSTRAINT subscriptions_pkey PRIMARY KEY (namespace_id, name)
);

-- Which run answers for each key. The primary key is the promise: one key, one run.
CREATE TABLE claims (
    -- Digest of namespace, flow and key; slot in front.
    id uuid NOT NULL,
    -- The run that answers for the key; where the key is free, the last that did.
    run_id uuid NOT NULL,
    -- The payload of the delivery that made the run, to tell a repeat from a mismatch.
    fingerprint uuid NOT NULL,
    -- When retention looks at the key: its run must have ended, and keep counts from that end. Null where the key is free. Rounded up to the minute, so that the index stays small.
    expires_at timestamp with time zone,
    -- How many runs of the key expired or were dropped before run_id. Null for the first.
    run_number integer,
    -- The run before run_id; where the key is free, run_id itself.
    last_run uuid,
    -- Which partition holds the history of last_run. The row stays for as long as that history.
    last_partition_date date,
    -- From when keep counts, where that is not the acceptance of the run: expires_at less this is keep.
    counted_from timestamp with time zone,
    -- When an operator freed the key. Null where the key is held, or is free because it expired.
    dropped_at timestamp with time zone,
    -- How many times the key came back as a new intent, whose effects have new keys. Null for never.
    intent integer,
    -- Until when destinations remember keys of runs that are gone, without end at infinity: then the row goes, unless runs are left. Null where nothing is remembered.
    kept_until timestamp with time zone,

    CONSTRAINT claims_pkey PRIMARY KEY (id)
);
CREATE INDEX claims_by_expiry ON claims USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX claims_by_memory ON claims USING btree (kept_until) WHERE (kept_until IS NOT NULL);

-- Effects that were undone, or performed again under another key: the next run of their key must know of them when the history is gone. Removed with the claim.
CREATE TABLE kept_generations (
    -- The first run of the key, or the child run at the same place of it: the keys of effects derive from it.
    first_run uuid NOT NULL,
    -- The step's path in the flow.
    step text NOT NULL,
    -- The latest generation of the effect.
    generation integer NOT NULL,
    -- How many times the key had come back as a new intent by then.
    intent integer NOT NULL,
    -- Whether the effect of that generation was undone: the next one has another.
    undone boolean NOT NULL,
    -- Until when the destination may remember the key of that generation: infinity for a marker of a db step.
    kept_until timestamp with time zone NOT NULL,

    CONSTRAINT kept_generations_pkey PRIMARY KEY (first_run, step),
    CONSTRAINT kept_generations_generation_check CHECK ((generation >= 0)),
    CONSTRAINT kept_generations_intent_check CHECK ((intent >= 0))
);

-- One row per run: what it is, and how it ended. What changes often is in the queue.
CREATE TABLE runs (
    -- Derived from the claim; slot in front.
    id uuid NOT NULL,
    -- The claim that made it.
    claim_id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The release that it started on, and stays on.
    release_id integer NOT NULL,
    -- The day it was accepted (UTC): which partition holds its journal and effects.
    partition_date date NOT NULL,
    -- Active covers queued, running and waiting: the queue says which.
    state run_state NOT NULL DEFAULT 'active'::run_state,
    -- The key, as it came.
    key bytea NOT NULL,
    -- The delivery that made it, so that a server can recognise its own write after a lost answer.
    delivery_id uuid NOT NULL,
    -- When the delivery was accepted.
    accepted_at timestamp with time zone NOT NULL,
    -- When it ended.
    ended_at timestamp with time zone,
    -- Its result, if it succeeded.
    result json,
    -- Why it failed or stopped.
    fault json,
    -- The code of the fault. A column, because no statement reads JSON that others wrote: the character zero in it is an error there.
    fault_code text,
    -- The run that it is a child of, where it is an item of foreach or a branch of parallel.
    parent_id uuid,
    -- Whether it read what earlier runs of its key did. Written when it ends: retention lets those go then.
    has_inherited boolean NOT NULL DEFAULT false,
    -- Since when it is not resumed or replayed any more: an erasure of its payloads began, or a part of its child runs was deleted.
    closed_at timestamp with time zone,
    -- When the erasure of its payloads was complete. Null while one goes on, or failed.
    erased_at timestamp with time zone,

    CONSTRAINT runs_pkey PRIMARY KEY (id),
    CONSTRAINT ended_when_final CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['succeeded'::run_state, 'failed'::run_state, 'cancelled'::run_state, 'superseded'::run_state]))))
) WITH (fillfactor=85);
CREATE INDEX runs_by_age ON runs USING btree (namespace_id, accepted_at, id) WHERE (parent_id IS NULL);
CREATE INDEX runs_by_release ON runs USING btree (release_id, accepted_at, id) WHERE (parent_id IS NULL);

-- Runs that have not ended: who holds each, and when it is due. Narrow, because it churns.
CREATE TABLE queue (
    -- The run.
    run_id uuid NOT NULL,
    -- When a worker may take it. In the future for sleeping runs; infinity for runs that only an operator or a callback wakes.
    due_at timestamp with time zone NOT NULL,
    -- The session that holds it; null when it is not held.
    holder uuid,
    -- Grows with every take. A write that carries an older one is refused.
    epoch bigint NOT NULL,
    -- The number of the journal's last row: the next write must follow it.
    seq integer NOT NULL,
    -- Takes since the last progress; five quarantine the run. From the third on, only takes of this run alone count.
    stalled_takes smallint NOT NULL DEFAULT 0,
    -- How many runs without progress its last take as one of them took together; negative where it was put back before it began. 0 where there was none since its last progress.
    suspects smallint NOT NULL DEFAULT 0,
    -- Why it is not held: ready, retrying, waiting, or stopped until an operator acts.
    stage queue_stage NOT NULL DEFAULT 'ready'::queue_stage,
    -- An operator asked for its end; its holder sees this with its next write.
    cancel boolean NOT NULL DEFAULT false,
    -- Copied from the run, to find its journal.
    partition_date date NOT NULL,
    -- Whether something came for the run while a worker held it: the run is due at once when the worker lets it sleep.
    woken boolean NOT NULL DEFAULT false,
    -- The namespace that owns the run: namespaces with due runs take turns.
    namespace_id integer NOT NULL,

    CONSTRAINT queue_pkey PRIMARY KEY (run_id)
) WITH (fillfactor=50, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0);
CREATE INDEX queue_by_due ON queue USING btree (namespace_id, due_at) WHERE (holder IS NULL);
CREATE INDEX queue_by_holder ON queue USING btree (holder) WHERE (holder IS NOT NULL);

-- Live workers. The session is renewed, not the runs that it holds.
CREATE TABLE sessions (
    -- One stretch of a process's life: a lost lease ends it, and the process begins another.
    id uuid NOT NULL,
    -- Host and process number, for operators.
    process text NOT NULL,
    -- The version of the program, for operators.
    version text NOT NULL DEFAULT ''::text,
    -- When it began.
    started_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When its runs may be taken by others, unless it is renewed before.
    expires_at timestamp with time zone NOT NULL,
    -- When its runs began to be freed; it is never renewed after that, whatever the clock says.
    lost_at timestamp with time zone,
    -- When its process began to stop: it completes what it holds, and others do its background duties.
    leaving_at timestamp with time zone,
    -- The boot of the machine on which its process holds the lock of a state folder. Null where it holds none: then only the lease ends the session.
    boot_id uuid,
    -- The device of the lock's file, as the system numbers it. Null where boot_id is.
    lock_device bigint,
    -- The number of the lock's file on its device. Null where boot_id is.
    lock_inode bigint,

    CONSTRAINT sessions_pkey PRIMARY KEY (id)
);

-- What happened to each run, one row per write. Append-only; dropped by partition.
CREATE TABLE journal (
    -- The day on which the run was accepted.
    partition_date date NOT NULL,
    -- The run.
    run_id uuid NOT NULL,
    -- 1, 2, 3 … without a gap.
    seq integer NOT NULL,
    -- The lease under which it was written.
    epoch bigint NOT NULL,
    -- When it was written.
    at timestamp with time zone NOT NULL,
    -- The events of this write, in order.
    events json NOT NULL,

    CONSTRAINT journal_pkey PRIMARY KEY (partition_date, run_id, seq)
) PARTITION BY RANGE (partition_date);

-- The ledger: one row per change to the outside world, written before the change is made; an effect on kv has its row from the commit that makes it.
CREATE TABLE effects (
    -- The day on which the run was accepted.
    partition_date date NOT NULL,
    -- The key that the destination is sent. Begins with the run's first eight bytes.
    id uuid NOT NULL,
    -- The run.
    run_id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The step's path in the flow.
    step text NOT NULL,
    -- The kind of step, e.g. http or kv.
    kind text NOT NULL,
    -- What makes a repeat safe.
    guard effect_guard NOT NULL,
    -- Pending from before the first byte leaves until the outcome is known.
    state effect_state NOT NULL,
    -- The number of the latest attempt; 0 where this run sent nothing: a probe found the effect, or another holder of its business key had made it.
    attempt integer NOT NULL,
    -- When the latest attempt's intent was written.
    intended_at timestamp with time zone NOT NULL,
    -- When its outcome was written.
    settled_at timestamp with time zone,
    -- The destination's identity for what was made: with the run's key, the map from source to destination.
    external_id text,
    -- What was seen, if it did not simply succeed.
    note text,

    CONSTRAINT effects_pkey PRIMARY KEY (partition_date, id),
    CONSTRAINT attempted_and_settled_unless_pending CHECK ((((attempt > 0) OR ((attempt = 0) AND (state = 'done'::effect_state))) AND ((settled_at IS NULL) = (state = 'pending'::effect_state))))
) PARTITION BY RANGE (partition_date);
CREATE INDEX effects_by_external_id ON ONLY effects USING btree (namespace_id, external_id) WHERE (external_id IS NOT NULL);
CREATE INDEX effects_by_time ON ONLY effects USING brin (intended_at) WITH (autosummarize='on', pages_per_range='32');

-- Effects in doubt, runs that need review or are quarantined, and names of effects that are in doubt. Written and removed in the commits that make it so; an index on the states themselves would cost every effect and every run.
CREATE TABLE attention (
    -- The effect, for a doubt; the named effect, for a name; otherwise the run.
    subject_id uuid NOT NULL,
    -- What is the matter.
    kind attention_kind NOT NULL,
    -- Copied from the run, to find the effect; -infinity for a name.
    partition_date date NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The run. Null for a name, which belongs to none.
    run_id uuid,
    -- The flow. Null for a name.
    flow_id integer,
    -- The step's path in the flow, for a doubt and for a name that a run holds; otherwise empty.
    step text NOT NULL,
    -- When the latest attempt was intended, for a doubt; when its holder began it, for a name; otherwise when the run was stopped.
    since timestamp with time zone NOT NULL,
    -- Copied from the run, by which runs are listed. Null for a name.
    accepted_at timestamp with time zone,
    -- Whether the run is a child of another.
    is_child boolean NOT NULL,
    -- Who looks into a doubt, as an operator said.
    assignee text,
    -- What operators noted about a doubt.
    note text,
    -- Until when a doubt is put off.
    snoozed_until timestamp with time zone,

    CONSTRAINT attention_pkey PRIMARY KEY (subject_id, kind, partition_date),
    CONSTRAINT of_a_run_or_a_name CHECK ((((kind = 'named_effect'::attention_kind) = (run_id IS NULL)) AND ((kind = 'named_effect'::attention_kind) = (flow_id IS NULL)) AND ((kind = 'named_effect'::attention_kind) = (accepted_at IS NULL))))
);
CREATE INDEX attention_by_age ON attention USING btree (kind, namespace_id, since, subject_id);
CREATE INDEX attention_by_run ON attention USING btree (namespace_id, kind, accepted_at, run_id);
CREATE INDEX attention_by_step ON attention USING btree (flow_id, step, since, subject_id) WHERE (kind = 'doubt'::attention_kind);
CREATE INDEX attention_of_children ON attention USING btree (namespace_id, accepted_at, run_id) WHERE is_child;
CREATE INDEX attention_of_flow ON attention USING btree (flow_id, kind, accepted_at, run_id);
CREATE INDEX attention_snoozed ON attention USING btree (namespace_id, since, subject_id) WHERE (snoozed_until IS NOT NULL);

-- Responses that reached a worker after its lease was lost. They may turn doubt into done, nothing else.
CREATE TABLE late_responses (
    -- The run.
    run_id uuid NOT NULL,
    -- The effect that was answered.
    effect_id uuid NOT NULL,
    -- The attempt that was answered.
    attempt integer NOT NULL,
    -- The lease that the worker had lost.
    epoch bigint NOT NULL,
    -- When it was recorded.
    at timestamp with time zone NOT NULL DEFAULT moment(),
    -- What the destination answered.
    response json NOT NULL,

    CONSTRAINT late_responses_pkey PRIMARY KEY (run_id, effect_id, attempt),
    CONSTRAINT late_responses_attempt_check CHECK ((attempt > 0)),
    CONSTRAINT late_responses_epoch_check CHECK ((epoch >= 0))
);

-- Items of foreach and branches of parallel, each with the run that performs its steps.
CREATE TABLE child_runs (
    -- The parent run.
    parent_id uuid NOT NULL,
    -- The step of the parent run.
    step text NOT NULL,
    -- Its position in the list.
    index integer NOT NULL,
    -- The child run; derived from parent, step and key, so that a repeat finds the same run.
    run_id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- What distinguishes the item from the others, for operators.
    key text NOT NULL,
    -- Pending until its run starts, open until it ends.
    state child_state NOT NULL DEFAULT 'pending'::child_state,
    -- The item, until its run starts; then the journal has it.
    item json,
    -- When it ended.
    ended_at timestamp with time zone,
    -- The child run at the same place of the first run of the key: its effects have the keys of that one. Null where the parent is the first.
    first_id uuid,
    -- The last child run at this place before this one, whose ledger it reads. Null where there was none.
    last_id uuid,

    CONSTRAINT child_runs_pkey PRIMARY KEY (parent_id, step, index),
    CONSTRAINT child_runs_run_id_key UNIQUE (run_id),
    CONSTRAINT child_runs_index_check CHECK ((index >= 0)),
    CONSTRAINT ended_when_final CHECK (((ended_at IS NOT NULL) = (state = ANY (ARRAY['succeeded'::child_state, 'failed'::child_state, 'cancelled'::child_state]))))
) WITH (fillfactor=70);
CREATE INDEX child_runs_by_key ON child_runs USING btree (namespace_id, hashtextextended(key, (0)::bigint));
CREATE INDEX child_runs_left ON child_runs USING btree (parent_id, step, state, index) WHERE (state <> 'succeeded'::child_state);

-- Waits that a callback can end. A callback may come before its wait opens: its row then comes first.
CREATE TABLE waits (
    -- Derived from the first run of the key and the step, so that the address of a callback holds for every run of the key.
    id uuid NOT NULL,
    -- The run.
    run_id uuid NOT NULL,
    -- The namespace that owns it; null until the wait opens.
    namespace_id integer,
    -- The first writer ends it; it opens again if its run is resumed.
    state wait_state NOT NULL,
    -- The step's path; null until the wait opens.
    step text,
    -- When the run came to it; null for an early callback.
    opened_at timestamp with time zone,
    -- When it times out.
    until timestamp with time zone,
    -- When it ended.
    ended_at timestamp with time zone,
    -- What the callback brought; a wait that opened again keeps it until the next one.
    payload json,

    CONSTRAINT waits_pkey PRIMARY KEY (id),
    CONSTRAINT ended_unless_open CHECK (((ended_at IS NULL) = (state = 'open'::wait_state)))
);
CREATE INDEX waits_by_age ON waits USING btree (namespace_id, opened_at, id) WHERE (opened_at IS NOT NULL);
CREATE INDEX waits_by_run ON waits USING btree (run_id);

-- Open waits for events: finds the runs that an event may wake, without reading each.
CREATE TABLE event_waits (
    -- The wait.
    wait_id uuid NOT NULL,
    -- Its run.
    run_id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The event.
    event text NOT NULL,
    -- The part of the event that the wait matches on; empty where it matches every event of the name.
    path text NOT NULL,
    -- The value at that path, as JSON text; empty where there is none.
    value text NOT NULL,

    CONSTRAINT event_waits_pkey PRIMARY KEY (wait_id)
);
CREATE INDEX event_waits_by_event ON event_waits USING btree (namespace_id, event, path, value, wait_id);
CREATE INDEX event_waits_by_value ON event_waits USING btree (namespace_id, value);

-- Work that external workers take from a queue. The run opens it; a worker answers under the token of its claim.
CREATE TABLE tasks (
    -- The effect: the key that the worker passes on. Begins with the run's first eight bytes.
    id uuid NOT NULL,
    -- The run.
    run_id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The queue that workers take it from.
    queue text NOT NULL,
    -- The step's path in the flow.
    step text NOT NULL,
    -- Open until a worker claims it, held until the worker answers or its lease is over.
    state task_state NOT NULL DEFAULT 'open'::task_state,
    -- The number of the latest attempt, as the ledger has it.
    attempt integer NOT NULL,
    -- The fencing token: grows with every claim. An answer under an older one is recorded as a late response.
    token bigint NOT NULL DEFAULT 0,
    -- How long a worker may be silent, in milliseconds.
    lease_ms bigint NOT NULL,
    -- When the worker that holds it is taken to be lost.
    lease_until timestamp with time zone,
    -- What the latest worker calls itself.
    worker text,
    -- The request that claimed it, so that a repeat of the request gets the same tasks.
    claim_id uuid,
    -- The API tokens of the latest claims, at most 16: the last one belongs to the latest fencing token, the one before to the one before it. Nobody else answers under it.
    claimed_by uuid[] NOT NULL DEFAULT '{}'::uuid[],
    -- When the latest attempt was opened: the oldest is claimed first.
    opened_at timestamp with time zone NOT NULL,
    -- When the task times out.
    until timestamp with time zone,
    -- When the latest attempt ended.
    ended_at timestamp with time zone,
    -- The token under which the latest answer was given.
    answered_token bigint,
    -- What the worker gets.
    input json NOT NULL,
    -- What the worker answered: its result, or why it failed.
    answer json,

    CONSTRAINT tasks_pkey PRIMARY KEY (id),
    CONSTRAINT leased_while_held CHECK (((lease_until IS NOT NULL) OR (state <> 'held'::task_state))),
    CONSTRAINT tasks_attempt_check CHECK ((attempt > 0)),
    CONSTRAINT tasks_claimed_by_check CHECK ((cardinality(claimed_by) <= 16)),
    CONSTRAINT tasks_lease_ms_check CHECK ((lease_ms > 0)),
    CONSTRAINT tasks_token_check CHECK ((token >= 0))
) WITH (fillfactor=70, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, autovacuum_vacuum_cost_delay=0);
CREATE INDEX tasks_by_age ON tasks USING btree (namespace_id, opened_at, id);
CREATE INDEX tasks_by_claim ON tasks USING btree (claim_id) WHERE (state = 'held'::task_state);
CREATE INDEX tasks_by_lease ON tasks USING btree (lease_until) WHERE (state = 'held'::task_state);
CREATE INDEX tasks_to_claim ON tasks USING btree (namespace_id, queue, opened_at) WHERE (state = 'open'::task_state);

-- Decisions that people are asked for, and what they decided. Leaves open once; the first writer wins.
CREATE TABLE approvals (
    -- The wait: derived from run and step. Begins with the run's first eight bytes.
    id uuid NOT NULL,
    -- The run.
    run_id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The flow's name.
    flow text NOT NULL,
    -- The step's path in the flow.
    step text NOT NULL,
    -- Open until decided, timed out (elapsed) or withdrawn with its run.
    state approval_state NOT NULL DEFAULT 'open'::approval_state,
    -- Who may decide: names of tokens or of their groups.
    people text[] NOT NULL,
    -- Who else may decide from escalate_at on.
    escalate text[] NOT NULL,
    -- When half of the time is over.
    escalate_at timestamp with time zone,
    -- What is decided about, as it was when people were asked.
    shown json NOT NULL,
    -- SHA-256 of the canonical form of what is shown; a decision has to name it.
    digest text NOT NULL,
    -- Whether a decision needs a token besides the link.
    login boolean NOT NULL,
    -- Who may not decide, because they started the run.
    not_by text,
    -- When people were asked.
    opened_at timestamp with time zone NOT NULL,
    -- When it times out.
    until timestamp with time zone,
    -- When it was decided, or ended otherwise.
    ended_at timestamp with time zone,
    -- Yes or no, if it is decided.
    approved boolean,
    -- `token:` and its name, or `person:` and theirs; or, by link, an unverified name.
    decided_by text,
    -- The comment of the person who decided.
    comment text,
    -- How many times the run had asked for the same decision before.
    round integer NOT NULL DEFAULT 0,

    CONSTRAINT approvals_pkey PRIMARY KEY (id),
    CONSTRAINT approvals_round_check CHECK ((round >= 0)),
    CONSTRAINT decision_when_decided CHECK ((((approved IS NOT NULL) AND (decided_by IS NOT NULL)) = (state = 'decided'::approval_state))),
    CONSTRAINT ended_unless_open CHECK (((ended_at IS NULL) = (state = 'open'::approval_state)))
);
CREATE INDEX approvals_by_age ON approvals USING btree (namespace_id, opened_at, id);
CREATE INDEX approvals_open ON approvals USING btree (namespace_id, opened_at, id) WHERE (state = 'open'::approval_state);

-- One row for each flow whose live release has, or had, a schedule.
CREATE TABLE schedules (
    -- Digest of namespace and flow; its first 12 bits are the slot.
    id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The flow's name.
    flow text NOT NULL,
    -- The release whose recurrence is in force; null where the live one has none.
    release_id integer,
    -- The config_version that it was last decided by. A server with an older configuration leaves the row alone.
    version bigint NOT NULL,
    -- The edition of the time zone database that due_at was computed with.
    zones text NOT NULL,
    -- Every instant up to here is decided. It never decreases, whatever the clock does.
    decided_to timestamp with time zone NOT NULL,
    -- When a server must look at it: the next instant, or at once. Null while it is paused or has no recurrence.
    due_at timestamp with time zone,
    -- Since when its instants start nothing.
    paused_at timestamp with time zone,
    -- Who paused it.
    paused_by text,
    -- The session that decides it. Null while none does.
    holder uuid,
    -- When that session's lease on it ends, and another may decide it.
    leased_until timestamp with time zone,

    CONSTRAINT schedules_pkey PRIMARY KEY (id),
    CONSTRAINT leased_while_held CHECK (((holder IS NULL) = (leased_until IS NULL)))
) WITH (fillfactor=70);
CREATE INDEX schedules_by_due ON schedules USING btree (due_at) WHERE (due_at IS NOT NULL);

-- What happened to the instants of schedules: each is in one row, fired alone or skipped with its neighbours. An instant that was skipped and then fired manually is in both.
CREATE TABLE ticks (
    -- The schedule.
    schedule_id uuid NOT NULL,
    -- The instant; the first where several were skipped together.
    nominal timestamp with time zone NOT NULL,
    -- Whether it started a run.
    verdict tick_verdict NOT NULL,
    -- The last of the instants that the row covers.
    last timestamp with time zone NOT NULL,
    -- How many instants the row covers.
    instants bigint NOT NULL,
    -- Why it was skipped: missed, capped, paused or refused.
    reason text,
    -- The run that it started.
    run_id uuid,
    -- Who fired it manually.
    fired_by text,
    -- When that was decided.
    decided_at timestamp with time zone NOT NULL,

    CONSTRAINT ticks_pkey PRIMARY KEY (schedule_id, nominal, verdict),
    CONSTRAINT first_before_last CHECK ((nominal <= last)),
    CONSTRAINT reason_when_skipped CHECK (((reason IS NULL) OR (verdict = 'skipped'::tick_verdict))),
    CONSTRAINT ticks_instants_check CHECK ((instants > 0))
);
CREATE INDEX ticks_by_age ON ticks USING btree (decided_at);

-- Passes of reconcile: each compares what its source lists with the runs of its flow, page by page.
CREATE TABLE reconcile_passes (
    -- Digest of namespace and flow; its first 12 bits are the slot.
    schedule_id uuid NOT NULL,
    -- The instant of the recurrence, or when an operator asked for the pass.
    nominal timestamp with time zone NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The flow's name.
    flow text NOT NULL,
    -- The release that was live when the pass was opened.
    release_id integer NOT NULL,
    -- Older items start nothing.
    window_start timestamp with time zone NOT NULL,
    -- Whether the pass only reports what it would start.
    dry_run boolean NOT NULL,
    -- The operator who asked for it; null where the recurrence named it.
    asked_by text,
    -- Open until its last page is compared, or it is given up.
    state pass_state NOT NULL DEFAULT 'open'::pass_state,
    -- How often a server took it. A page is recorded only by the server that took it last.
    epoch bigint NOT NULL DEFAULT 0,
    -- When a server may take it: a server that dies leaves it to the next.
    due_at timestamp with time zone,
    -- How many reads of the page failed.
    attempt integer NOT NULL DEFAULT 0,
    -- How many pages are compared.
    page integer NOT NULL DEFAULT 0,
    -- The address of the next page; null for the first.
    next_page text,
    -- The address that followed the latest page whose number is a power of two: a list that comes back to it repeats itself.
    marked_page text,
    -- When the latest page was recorded; before the first, when the pass was opened.
    page_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- How many items the source listed.
    listed bigint NOT NULL DEFAULT 0,
    -- How many of them had a run.
    known bigint NOT NULL DEFAULT 0,
    -- How many started one; in a dry run, would have.
    started bigint NOT NULL DEFAULT 0,
    -- How many of the known ones differ from the result of their run.
    differing bigint NOT NULL DEFAULT 0,
    -- How many have no usable key, time or input.
    unreadable bigint NOT NULL DEFAULT 0,
    -- How many are too young, older than the window, or excluded by when.
    left_out bigint NOT NULL DEFAULT 0,
    -- What went wrong last.
    fault text,
    -- When it was opened.
    opened_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When it ended.
    ended_at timestamp with time zone,

    CONSTRAINT reconcile_passes_pkey PRIMARY KEY (schedule_id, nominal),
    CONSTRAINT due_while_open CHECK (((due_at IS NOT NULL) = (state = 'open'::pass_state))),
    CONSTRAINT ended_unless_open CHECK (((ended_at IS NULL) = (state = 'open'::pass_state))),
    CONSTRAINT reconcile_passes_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT reconcile_passes_epoch_check CHECK ((epoch >= 0)),
    CONSTRAINT reconcile_passes_page_check CHECK ((page >= 0)),
    CONSTRAINT window_before_pass CHECK ((window_start <= nominal))
) WITH (fillfactor=70);
CREATE UNIQUE INDEX reconcile_passes_asked ON reconcile_passes USING btree (schedule_id, dry_run) WHERE ((state = 'open'::pass_state) AND (asked_by IS NOT NULL));
CREATE INDEX reconcile_passes_by_age ON reconcile_passes USING btree (ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX reconcile_passes_by_due ON reconcile_passes USING btree (namespace_id, due_at) WHERE (due_at IS NOT NULL);

-- The items of a pass that are more than known: up to a limit, the counts are in reconcile_passes.
CREATE TABLE reconcile_items (
    -- The flow of the pass.
    schedule_id uuid NOT NULL,
    -- The pass.
    nominal timestamp with time zone NOT NULL,
    -- The page that listed it.
    page integer NOT NULL,
    -- Its position in the page.
    index integer NOT NULL,
    -- What the pass found: started, would_start (dry run), differing or unreadable.
    verdict text NOT NULL,
    -- Its key, where it has one.
    key text,
    -- Its run.
    run_id uuid,
    -- What was wrong with it.
    note text,

    CONSTRAINT reconcile_items_pkey PRIMARY KEY (schedule_id, nominal, page, index),
    CONSTRAINT reconcile_items_index_check CHECK ((index >= 0)),
    CONSTRAINT reconcile_items_page_check CHECK ((page >= 0)),
    CONSTRAINT reconcile_items_verdict_check CHECK ((verdict = ANY (ARRAY['started'::text, 'would_start'::text, 'differing'::text, 'unreadable'::text])))
);

-- One row per object whose runs are ordered or limited, while runs are at the gate or its starts count. Every decision locks it.
CREATE TABLE gates (
    -- Digest of namespace, flow, kind and object; slot in front.
    id uuid NOT NULL,
    -- The most runs at a time; null without a limit.
    concurrency integer,
    -- The most starts within per_ms; null without a limit.
    rate integer,
    -- The period that rate counts in, in milliseconds.
    per_ms bigint,
    -- How many entries are running.
    running integer NOT NULL DEFAULT 0,
    -- How many entries are granted.
    granted integer NOT NULL DEFAULT 0,
    -- How many runs were started, where a rate counts them.
    start_count bigint NOT NULL DEFAULT 0,
    -- When its last start no longer counts; null without a rate.
    idle_at timestamp with time zone,

    CONSTRAINT gates_pkey PRIMARY KEY (id),
    CONSTRAINT gates_concurrency_check CHECK ((concurrency > 0)),
    CONSTRAINT gates_granted_check CHECK ((granted >= 0)),
    CONSTRAINT gates_per_ms_check CHECK ((per_ms > 0)),
    CONSTRAINT gates_rate_check CHECK ((rate > 0)),
    CONSTRAINT gates_running_check CHECK ((running >= 0)),
    CONSTRAINT gates_start_count_check CHECK ((start_count >= 0)),
    CONSTRAINT rate_has_a_period CHECK (((rate IS NULL) = (per_ms IS NULL)))
) WITH (fillfactor=50);
CREATE INDEX gates_by_idle ON gates USING btree (idle_at) WHERE (idle_at IS NOT NULL);

-- The runs at a gate. An entry is removed when its run has ended.
CREATE TABLE gate_entries (
    -- The gate.
    gate_id uuid NOT NULL,
    -- The run.
    run_id uuid NOT NULL,
    -- waiting in line; debouncing until its object is quiet; granted, which counts as running; running; joining another run's end; dropped in favour of a newer run.
    place gate_place NOT NULL,
    -- When the run was accepted: first come, first served.
    accepted_at timestamp with time zone NOT NULL,
    -- The row of the run's journal after which it entered: an earlier end of a resumed run does not concern it.
    after_seq integer NOT NULL,
    -- The run that it joined, that replaced it, or that wants its place.
    related_run uuid,
    -- When it may enter, where that is later.
    ready_at timestamp with time zone,
    -- Since when its run has to be woken to look at the gate; null once it was.
    wake_since timestamp with time zone,

    CONSTRAINT gate_entries_pkey PRIMARY KEY (gate_id, run_id),
    CONSTRAINT gate_entries_after_seq_check CHECK ((after_seq >= 0))
) WITH (fillfactor=70);
CREATE INDEX gate_entries_by_summons ON gate_entries USING btree (wake_since) WHERE (wake_since IS NOT NULL);
CREATE INDEX gate_entries_in_line ON gate_entries USING btree (gate_id, place, accepted_at, run_id);

-- When a gate with a rate started runs: as many as the rate counts.
CREATE TABLE gate_starts (
    -- The gate.
    gate_id uuid NOT NULL,
    -- 0, 1, 2 … without a gap.
    number bigint NOT NULL,
    -- When.
    at timestamp with time zone NOT NULL,

    CONSTRAINT gate_starts_pkey PRIMARY KEY (gate_id, number),
    CONSTRAINT gate_starts_number_check CHECK ((number >= 0))
);

-- Runs that have ended and whose gates may not know yet. Written with the end, in the run's slot.
CREATE TABLE gate_exits (
    -- The run.
    run_id uuid NOT NULL,
    -- The gate that it is to leave.
    gate_id uuid NOT NULL,
    -- The row of the run's journal by which it ended.
    seq integer NOT NULL,
    -- When it ended, or when a server last started to notify the gate.
    at timestamp with time zone NOT NULL,

    CONSTRAINT gate_exits_pkey PRIMARY KEY (run_id, gate_id),
    CONSTRAINT gate_exits_seq_check CHECK ((seq > 0))
);
CREATE INDEX gate_exits_by_age ON gate_exits USING btree (at);

-- The newest accepted version of each object.
CREATE TABLE object_versions (
    -- The gate of the object.
    gate_id uuid NOT NULL,
    -- number, time or text: versions of two kinds cannot be compared.
    kind text NOT NULL,
    -- The version, written so that a newer one of its kind is greater, byte by byte.
    rank text COLLATE "C" NOT NULL,
    -- The version as it came.
    shown text NOT NULL,
    -- The claim of the delivery that brought it.
    claim_id uuid NOT NULL,
    -- When it expires: as long after its delivery as the flow keeps keys.
    expires_at timestamp with time zone NOT NULL,

    CONSTRAINT object_versions_pkey PRIMARY KEY (gate_id),
    CONSTRAINT object_versions_kind_check CHECK ((kind = ANY (ARRAY['number'::text, 'time'::text, 'text'::text])))
);
CREATE INDEX object_versions_by_expiry ON object_versions USING btree (expires_at);

-- Deliveries that were older than the accepted version of their object, and so started nothing.
CREATE TABLE stale_deliveries (
    -- The gate of the object.
    gate_id uuid NOT NULL,
    -- The claim that the delivery would have made.
    claim_id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The flow.
    flow text NOT NULL,
    -- The key, as it came.
    key bytea NOT NULL,
    -- The object.
    object text NOT NULL,
    -- Its version, as it came.
    version text NOT NULL,
    -- The newest version that had been accepted.
    newest text NOT NULL,
    -- The claim of the delivery that brought it.
    newest_claim uuid NOT NULL,
    -- The payload's fingerprint.
    fingerprint uuid NOT NULL,
    -- What it brought.
    payload json NOT NULL,
    -- How often it came.
    count bigint NOT NULL DEFAULT 1,
    -- When it first came.
    first_at timestamp with time zone NOT NULL,
    -- When it last came.
    last_at timestamp with time zone NOT NULL,
    -- The minute in which it last came: lists go by it, as those of duplicates do.
    minute timestamp with time zone NOT NULL DEFAULT date_trunc('minute'::text, moment()),
    -- When it expires.
    expires_at timestamp with time zone NOT NULL,

    CONSTRAINT stale_deliveries_pkey PRIMARY KEY (gate_id, claim_id),
    CONSTRAINT first_before_last CHECK ((first_at <= last_at)),
    CONSTRAINT stale_deliveries_count_check CHECK ((count > 0))
);
CREATE INDEX stale_deliveries_by_age ON stale_deliveries USING btree (namespace_id, minute, gate_id);
CREATE INDEX stale_deliveries_by_expiry ON stale_deliveries USING btree (expires_at);
CREATE INDEX stale_deliveries_by_key ON stale_deliveries USING btree (namespace_id, key);
CREATE INDEX stale_deliveries_by_newest ON stale_deliveries USING btree (newest_claim);

-- Events that committed with their run and are not dispatched yet. A row is removed when each receiver has the event.
CREATE TABLE outbox (
    -- The effect that emitted it: the delivery key that every receiver dedupes by.
    id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The run that emitted it.
    run_id uuid NOT NULL,
    -- The event.
    event text NOT NULL,
    -- What it carries.
    data json NOT NULL,
    -- When it committed.
    emitted_at timestamp with time zone NOT NULL,
    -- When it is dispatched next; while a server dispatches it, the end of that server's lease.
    due_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- The session that dispatches it. Null while none does.
    holder uuid,
    -- How often it was taken: the pause before the next try grows with it.
    tries integer NOT NULL DEFAULT 0,
    -- Whether the waits for it and the subscriptions have it, while a flow does not.
    is_answered boolean NOT NULL DEFAULT false,
    -- Whether the last try met something that it could not read: newer, which another server may read, or damaged. Null where it did not.
    unread text,

    CONSTRAINT outbox_pkey PRIMARY KEY (id),
    CONSTRAINT outbox_tries_check CHECK ((tries >= 0)),
    CONSTRAINT outbox_unread_check CHECK ((unread = ANY (ARRAY['newer'::text, 'damaged'::text])))
);
CREATE INDEX outbox_by_age ON outbox USING btree (emitted_at);
CREATE INDEX outbox_calls ON outbox USING btree (namespace_id, due_at) WHERE starts_with(event, 'semel.call.'::text);
CREATE INDEX outbox_events ON outbox USING btree (namespace_id, due_at) WHERE (NOT starts_with(event, 'semel.call.'::text));
CREATE INDEX outbox_held ON outbox USING btree (holder) WHERE (holder IS NOT NULL);
CREATE INDEX outbox_unread ON outbox USING btree (unread) WHERE (unread IS NOT NULL);

-- The flows that an event is for, recorded before they are asked. A flow has one trigger for events. Rows go with their event.
CREATE TABLE outbox_receivers (
    -- The event.
    event_id uuid NOT NULL,
    -- The flow that takes it.
    flow_id integer NOT NULL,
    -- The release that was live when the flow was first asked: its trigger gives the key of every repeat.
    release_id integer NOT NULL,
    -- The number of the last run of that key that the event may make: a repeat makes none beyond it, even where the key has run out.
    run_max integer NOT NULL,
    -- Whether the flow has the event, or refused it for good. Written only where the event stays for others.
    has_it boolean NOT NULL DEFAULT false,

    CONSTRAINT outbox_receivers_pkey PRIMARY KEY (event_id, flow_id),
    CONSTRAINT outbox_receivers_event_id_fkey FOREIGN KEY (event_id) REFERENCES outbox(id) ON DELETE CASCADE,
    CONSTRAINT outbox_receivers_run_max_check CHECK ((run_max >= 0))
);

-- Events whose waits are being answered, a page at a time. A row leaves when the last page is answered and no wait is left.
CREATE TABLE broadcasts (
    -- The event.
    event_id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The run that emitted it.
    run_id uuid NOT NULL,
    -- The event's name.
    event text NOT NULL,
    -- What it carries.
    data json NOT NULL,
    -- When it committed.
    emitted_at timestamp with time zone NOT NULL,
    -- When its waits began to be answered. Waits that open later are not answered by it.
    begun_at timestamp with time zone NOT NULL,
    -- When the next page is answered. A server that answers one moves it ahead; if that server dies, another continues then.
    due_at timestamp with time zone NOT NULL,
    -- The cursor: the part of the event by which the last page of waits was found; null before the first.
    path text COLLATE "C",
    -- The cursor: the last wait of that page.
    after uuid,
    -- Whether the last page is answered: only waits that were left are tried.
    pages_done boolean NOT NULL DEFAULT false,
    -- Waits whose runs could not be read: they are tried again until each is answered or gone.
    left_waits uuid[] NOT NULL DEFAULT '{}'::uuid[],

    CONSTRAINT broadcasts_pkey PRIMARY KEY (event_id),
    CONSTRAINT cursor_is_whole CHECK (((path IS NULL) = (after IS NULL)))
);
CREATE INDEX broadcasts_by_due ON broadcasts USING btree (namespace_id, due_at);

-- Deliveries of events to subscribed webhooks, each retried until the receiver takes it or its time is over.
CREATE TABLE webhook_deliveries (
    -- The event: the delivery key, the same on every attempt.
    event_id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The subscription.
    subscription text NOT NULL,
    -- The connection that the latest attempt went to.
    connection text NOT NULL,
    -- The event's name.
    event text NOT NULL,
    -- Due until the receiver answers with 2xx, or until Semel gives up.
    state webhook_delivery_state NOT NULL DEFAULT 'due'::webhook_delivery_state,
    -- The CloudEvent, the same bytes on every attempt.
    body json NOT NULL,
    -- When the event committed.
    emitted_at timestamp with time zone NOT NULL,
    -- How many attempts were made, since an operator last had it retried.
    attempt integer NOT NULL DEFAULT 0,
    -- When the next attempt is made.
    due_at timestamp with time zone NOT NULL,
    -- When it was delivered, or when Semel stopped retrying it.
    settled_at timestamp with time zone,
    -- What the last attempt saw.
    note text,
    -- From when the time for its attempts counts: when it became due, or when an operator had it retried.
    retry_since timestamp with time zone NOT NULL DEFAULT moment(),
    -- Its run was erased: the body is erased once the delivery is over.
    is_erased boolean NOT NULL DEFAULT false,

    CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (event_id, subscription),
    CONSTRAINT settled_unless_due CHECK (((settled_at IS NULL) = (state = 'due'::webhook_delivery_state))),
    CONSTRAINT webhook_deliveries_attempt_check CHECK ((attempt >= 0))
);
CREATE INDEX webhook_deliveries_by_due ON webhook_deliveries USING btree (namespace_id, subscription, due_at) WHERE (state = 'due'::webhook_delivery_state);
CREATE INDEX webhook_deliveries_by_settled ON webhook_deliveries USING btree (settled_at) WHERE (state <> 'due'::webhook_delivery_state);
CREATE INDEX webhook_deliveries_by_subscription ON webhook_deliveries USING btree (namespace_id, subscription, emitted_at, event_id);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries USING btree (namespace_id, settled_at) WHERE (state = 'failed'::webhook_delivery_state);

-- Effects whose key people choose, outside of any run: steps with a key, and scripts under semel once.
CREATE TABLE named_effects (
    -- The digest of namespace, scope and key. Its first twelve bits are its slot.
    id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- Where the key counts: flow/NAME/STEP, flow/NAME, shared or once/NAME.
    scope text NOT NULL,
    -- The key, as it was given.
    key bytea NOT NULL,
    -- Enters into the key that the destination is sent. Grows with every new intent under the name.
    generation integer NOT NULL DEFAULT 0,
    -- Absent is a row that is kept for its generation and token only.
    state named_effect_state NOT NULL DEFAULT 'pending'::named_effect_state,
    -- What it is: the kind of step, or command.
    kind text NOT NULL,
    -- The connection or host; empty for a command.
    destination text NOT NULL,
    -- The method of the request; empty for a command.
    method text NOT NULL,
    -- Of the latest request or command line. Null where the next one is a new intent in any case.
    fingerprint uuid,
    -- The fencing token: grows with each new holder. A report under an older one changes nothing.
    token bigint NOT NULL,
    -- The latest holder: the digest of run, step, item and generation, or of the nonce of a process and its API token.
    holder uuid NOT NULL,
    -- Host and process of a script.
    holder_name text,
    -- The API token of a script: nobody else reports on its hold. Null for a run.
    holder_token uuid,
    -- The fencing tokens and API tokens of scripts that held it before, the last 8: only they may leave a note.
    former_holders jsonb NOT NULL DEFAULT '[]'::jsonb,
    -- The run that holds it. Null for a script.
    holder_run uuid,
    -- The path of the run's step.
    holder_step text,
    -- The item of the run's step.
    holder_item text,
    -- The generation of the run's own effect.
    holder_generation integer,
    -- What a script's holder agreed to if it is lost. Null for a run.
    on_doubt text,
    -- How long a script may be silent, in milliseconds. Null for a run, which is durable.
    lease_ms bigint,
    -- When the script that holds it is taken to be lost.
    lease_until timestamp with time zone,
    -- When its holder was last heard of.
    heartbeat_at timestamp with time zone NOT NULL,
    -- When its latest holder began it.
    begun_at timestamp with time zone NOT NULL,
    -- Whether its latest holder began it while its own doubt stood: if the hold is freed, it is in doubt again.
    doubted boolean NOT NULL DEFAULT false,
    -- How long it is remembered after it is done or failed, in milliseconds.
    keep_ms bigint NOT NULL,
    -- When it became done or failed.
    settled_at timestamp with time zone,
    -- The operator who settled its doubt, e.g. token:laptop.
    settled_by text,
    -- When a done or failed one becomes absent, and when an absent one is removed: infinity where a destination may remember one of its keys.
    expires_at timestamp with time zone,
    -- Its result; for a command its exit code and output.
    result json,
    -- What the destination calls the thing that it made.
    external_id text,
    -- The HTTP status of the response, where there was one.
    status smallint,
    -- Why it failed, or why it is in doubt.
    fault json,
    -- What a holder reported too late, for operators.
    note text,
    -- How often other runs reused it since it is done: an undo stops for an operator where that is not 0.
    reuse_count integer NOT NULL DEFAULT 0,
    -- The first 16 of those runs.
    reused_by uuid[] NOT NULL DEFAULT '{}'::uuid[],
    -- The length of the journal of undo_run when that began to undo it. Null where no undo is under way or in doubt.
    undo_seq integer,
    -- The run that last began to undo it: its holder, or a later run of that one's key. Null before the first undo.
    undo_run uuid,
    -- The length of its run's journal when that last began it, by which what the run said before is told from what it said after. Null for a script.
    holder_seq integer,
    -- Whether something may remember a key of it without end: the marker of a db step, the claim of another flow, or a program that was given the key.
    endless boolean NOT NULL DEFAULT false,

    CONSTRAINT named_effects_pkey PRIMARY KEY (id),
    CONSTRAINT expires_unless_open CHECK (((expires_at IS NULL) = (state = ANY (ARRAY['pending'::named_effect_state, 'in_doubt'::named_effect_state, 'undoing'::named_effect_state])))),
    CONSTRAINT leased_while_a_script_holds CHECK (((lease_until IS NOT NULL) = ((state = 'pending'::named_effect_state) AND (holder_run IS NULL)))),
    CONSTRAINT named_effects_generation_check CHECK ((generation >= 0)),
    CONSTRAINT named_effects_keep_ms_check CHECK ((keep_ms > 0)),
    CONSTRAINT named_effects_key_check CHECK (((octet_length(key) >= 1) AND (octet_length(key) <= 1024))),
    CONSTRAINT named_effects_lease_ms_check CHECK ((lease_ms > 0)),
    CONSTRAINT named_effects_on_doubt_check CHECK ((on_doubt = ANY (ARRAY['ask'::text, 'fail'::text, 'retry'::text]))),
    CONSTRAINT named_effects_reuse_count_check CHECK ((reuse_count >= 0)),
    CONSTRAINT named_effects_token_check CHECK ((token > 0)),
    CONSTRAINT run_or_script CHECK (((holder_run IS NULL) = ((lease_ms IS NOT NULL) AND (holder_name IS NOT NULL) AND (on_doubt IS NOT NULL)))),
    CONSTRAINT script_has_a_token CHECK (((holder_run IS NULL) = (holder_token IS NOT NULL))),
    CONSTRAINT settled_when_done_or_failed CHECK (((settled_at IS NOT NULL) = (state = ANY (ARRAY['done'::named_effect_state, 'failed'::named_effect_state])))),
    CONSTRAINT undone_by_its_run CHECK (((state <> 'undoing'::named_effect_state) OR ((undo_seq IS NOT NULL) AND (undo_run IS NOT NULL) AND (holder_run IS NOT NULL))))
) WITH (fillfactor=80);
CREATE INDEX named_effects_by_age ON named_effects USING btree (namespace_id, begun_at, id);
CREATE INDEX named_effects_by_expiry ON named_effects USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE INDEX named_effects_by_hold ON named_effects USING btree (heartbeat_at, id) WHERE ((state = ANY (ARRAY['pending'::named_effect_state, 'undoing'::named_effect_state])) AND (holder_run IS NOT NULL));
CREATE INDEX named_effects_by_key ON named_effects USING btree (namespace_id, key);
CREATE INDEX named_effects_by_lease ON named_effects USING btree (lease_until) WHERE (lease_until IS NOT NULL);
CREATE INDEX named_effects_by_scope ON named_effects USING btree (namespace_id, scope, begun_at, id);
CREATE INDEX named_effects_in_doubt ON named_effects USING btree (holder_run) WHERE (state = 'in_doubt'::named_effect_state);
CREATE INDEX named_effects_open ON named_effects USING btree (namespace_id, begun_at, id) WHERE (state = ANY (ARRAY['pending'::named_effect_state, 'in_doubt'::named_effect_state]));

-- Runs that wait until a named effect is settled. A row stays until its run was woken.
CREATE TABLE named_effect_waiters (
    -- The named effect, whose slot the row is in.
    effect_id uuid NOT NULL,
    -- The run that waits.
    run_id uuid NOT NULL,
    -- The path of the run's step.
    step text NOT NULL,
    -- When it last found the effect held or in doubt, or could not be woken because a worker held it. The oldest is woken first.
    since timestamp with time zone NOT NULL,

    CONSTRAINT named_effect_waiters_pkey PRIMARY KEY (effect_id, run_id, step)
);
CREATE INDEX named_effect_waiters_by_age ON named_effect_waiters USING btree (effect_id, since);

-- What runs came to at named effects that may not know yet. Written with the outcome, in the run's slot; removed once the named effect knows.
CREATE TABLE named_effect_notices (
    -- The run.
    run_id uuid NOT NULL,
    -- The named effect, which is in another slot.
    effect_id uuid NOT NULL,
    -- The row of the run's journal that says so.
    seq integer NOT NULL,
    -- The namespace that owns both.
    namespace_id integer NOT NULL,
    -- The path of the run's step.
    step text NOT NULL,
    -- The generation of the run's own effect.
    generation integer NOT NULL,
    -- The token of the run's hold. Null if the run may hold the name and does not know the token.
    token bigint,
    -- What the effect came to. Freed: nothing was sent. Undone: it was done, and counts as not done. Kept, undo_in_doubt: the run ended while it undid it, and it stands, or nobody can tell. Amended: it was done, and an operator corrected its result.
    outcome text NOT NULL,
    -- The step's result, if it is done.
    result json,
    -- What the destination calls the thing that it made.
    external_id text,
    -- The HTTP status of the response, where there was one.
    status smallint,
    -- Why it failed, or why it is in doubt.
    fault json,
    -- When the run wrote it.
    at timestamp with time zone NOT NULL,
    -- When a server other than the one that wrote it delivers it.
    next_at timestamp with time zone NOT NULL,
    -- How often a server other than that one tried.
    tries integer NOT NULL DEFAULT 0,

    CONSTRAINT named_effect_notices_pkey PRIMARY KEY (run_id, effect_id, seq),
    CONSTRAINT named_effect_notices_generation_check CHECK ((generation >= 0)),
    CONSTRAINT named_effect_notices_outcome_check CHECK ((outcome = ANY (ARRAY['done'::text, 'failed'::text, 'in_doubt'::text, 'freed'::text, 'undone'::text, 'kept'::text, 'undo_in_doubt'::text, 'amended'::text]))),
    CONSTRAINT named_effect_notices_seq_check CHECK ((seq > 0)),
    CONSTRAINT named_effect_notices_tries_check CHECK ((tries >= 0)),
    CONSTRAINT token_unless_freed CHECK (((token IS NOT NULL) OR (outcome = 'freed'::text)))
);
CREATE INDEX named_effect_notices_by_age ON named_effect_notices USING btree (next_at);

-- Small state that the flows of a namespace share.
CREATE TABLE kv (
    -- The slot of namespace and entry.
    slot smallint NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The entry's name.
    entry text NOT NULL,
    -- Its value.
    value json NOT NULL,
    -- Grows with every write.
    version bigint NOT NULL DEFAULT 1,
    -- When it expires.
    expires_at timestamp with time zone,

    CONSTRAINT kv_pkey PRIMARY KEY (namespace_id, slot, entry),
    CONSTRAINT kv_slot_check CHECK (((slot >= 0) AND (slot <= 4095))),
    CONSTRAINT kv_version_check CHECK ((version > 0))
) WITH (fillfactor=80);
CREATE INDEX kv_by_expiry ON kv USING btree (expires_at) WHERE (expires_at IS NOT NULL);

-- Named locks with leases. A row stays when its lock is returned, so that tokens never decrease.
CREATE TABLE locks (
    -- The slot of namespace and name.
    slot smallint NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- What it locks.
    name text NOT NULL,
    -- The fencing token: grows with each new holder, so that a destination can refuse a late one.
    token bigint NOT NULL DEFAULT 1,
    -- The run that holds it; null when it is free.
    holder uuid,
    -- When it is free again, unless its holder extends it.
    until timestamp with time zone,

    CONSTRAINT locks_pkey PRIMARY KEY (slot, namespace_id, name),
    CONSTRAINT held_until CHECK (((holder IS NULL) OR (until IS NOT NULL))),
    CONSTRAINT locks_slot_check CHECK (((slot >= 0) AND (slot <= 4095))),
    CONSTRAINT locks_token_check CHECK ((token > 0))
) WITH (fillfactor=80);

-- Outputs and inputs too large for a row. Their bytes are in the resource store, named by their digest.
CREATE TABLE resources (
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- SHA-256 of the bytes.
    digest bytea NOT NULL,
    -- How many there are.
    bytes bigint NOT NULL,
    -- What they are.
    media_type text NOT NULL,
    -- Its name, for people.
    name text,
    -- The run that kept it; null where it was uploaded, or where several runs kept it.
    run_id uuid,
    -- The step that kept it; null where it was uploaded, or where several runs kept it.
    step text,
    -- When.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When it may be removed.
    expires_at timestamp with time zone NOT NULL,

    CONSTRAINT resources_pkey PRIMARY KEY (namespace_id, digest),
    CONSTRAINT resources_bytes_check CHECK ((bytes >= 0)),
    CONSTRAINT resources_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT run_with_step CHECK (((run_id IS NULL) = (step IS NULL)))
);
CREATE INDEX resources_by_creation ON resources USING btree (namespace_id, created_at, digest);
CREATE INDEX resources_by_expiry ON resources USING btree (expires_at);
CREATE INDEX resources_by_run ON resources USING btree (run_id) WHERE (run_id IS NOT NULL);

-- Files of ended runs that were deleted here. A row is there before its file is, and until its file is gone.
CREATE TABLE archives (
    -- The file, whatever it is called: it is written anew where runs in it are erased.
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- Writing: nothing leads to it yet. Kept: archived_runs leads to it. Removing: nothing needs it.
    state text NOT NULL DEFAULT 'writing'::text,
    -- What it is called in the archive.
    object text NOT NULL,
    -- SHA-256 of its bytes.
    sha256 bytea,
    -- How many there are.
    bytes bigint,
    -- When the last of its runs ended.
    newest_at timestamp with time zone,
    -- When its runs were archived.
    written_at timestamp with time zone,
    -- When its state changed.
    changed_at timestamp with time zone NOT NULL DEFAULT moment(),

    CONSTRAINT archives_pkey PRIMARY KEY (id),
    CONSTRAINT archives_bytes_check CHECK ((bytes > 0)),
    CONSTRAINT archives_sha256_check CHECK ((octet_length(sha256) = 32)),
    CONSTRAINT archives_state_check CHECK ((state = ANY (ARRAY['writing'::text, 'kept'::text, 'removing'::text]))),
    CONSTRAINT whole_where_kept CHECK (((state <> 'kept'::text) OR (num_nulls(sha256, bytes, newest_at, written_at) = 0)))
);
CREATE INDEX archives_by_age ON archives USING btree (newest_at) WHERE (state = 'kept'::text);
CREATE INDEX archives_unfinished ON archives USING btree (changed_at) WHERE (state <> 'kept'::text);

-- Which file has a run that was deleted here. A key that was forgotten and came back has runs of the same identities, in a later file.
CREATE TABLE archived_runs (
    -- The run.
    run_id uuid NOT NULL,
    -- The file.
    archive_id bigint NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The claim of its key; of a child run, that of the outermost run.
    claim_id uuid NOT NULL,
    -- SHA-256 of what the file says of it.
    sha256 bytea NOT NULL,

    CONSTRAINT archived_runs_pkey PRIMARY KEY (run_id, archive_id),
    CONSTRAINT archived_runs_sha256_check CHECK ((octet_length(sha256) = 32))
);
CREATE INDEX archived_runs_by_archive ON archived_runs USING btree (archive_id);

-- What language models answered, so that the same question is asked once.
CREATE TABLE llm_answers (
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- SHA-256 of the canonical request and of its scope: a run, a flow or the namespace.
    digest bytea NOT NULL,
    -- The answer, with tokens and cost.
    answer json NOT NULL,
    -- When it was given.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When it expires; where its run has not ended, when that is checked again.
    expires_at timestamp with time zone NOT NULL,
    -- The run that the answer is scoped to, and is kept as long as; null where the scope is wider.
    run_id uuid,

    CONSTRAINT llm_answers_pkey PRIMARY KEY (namespace_id, digest),
    CONSTRAINT llm_answers_digest_check CHECK ((octet_length(digest) = 32))
);
CREATE INDEX llm_answers_by_expiry ON llm_answers USING btree (expires_at);
CREATE INDEX llm_answers_by_run ON llm_answers USING btree (run_id) WHERE (run_id IS NOT NULL);

-- Repeats that were stopped: one row per place and payload, however many come.
CREATE TABLE duplicates (
    -- The claim, the wait or the effect that stopped it.
    subject uuid NOT NULL,
    -- What stopped it: the claim, the wait, a replay check (the same signed body under another key), the ledger (an earlier run had performed the effect), or the destination (a probe found the effect before anything was sent).
    stopped_by text NOT NULL,
    -- The payload of the repeat; of a replayed body, the payload and the key that it came with, so that each key is decided by itself. All zeros where further ones are counted together.
    fingerprint uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The run that the sender was given.
    run_id uuid NOT NULL,
    -- repeat, mismatch (refused or accepted by policy) or held (for an operator).
    verdict text NOT NULL,
    -- How many.
    count bigint NOT NULL,
    -- When the first came.
    first_at timestamp with time zone NOT NULL,
    -- When the latest came.
    last_at timestamp with time zone NOT NULL,
    -- The payload, where it differs from the first delivery's.
    payload json,
    -- Of a held delivery, what a run of its own needs besides the payload: flow, trigger, key, the fingerprint of the payload alone, and the headers and query that the flow reads.
    arrival json,
    -- Of a held delivery, the flow that it is for.
    flow text,
    -- What an operator decided about a held delivery: new_key (a run of its own), repeat (answered with the existing run) or dismissed.
    decision text,
    -- The key that the operator chose for its run.
    decision_key bytea,
    -- When it was decided.
    decided_at timestamp with time zone,
    -- The token's name.
    decided_by text,
    -- The run that it has by the decision; null while a run of its own is not made yet.
    decided_run uuid,
    -- The minute in which the latest came. Indexes and lists go by it and not by last_at, so that a repeat within the minute changes no index.
    minute timestamp with time zone NOT NULL DEFAULT date_trunc('minute'::text, moment()),
    -- How many came in that minute: alerts find bursts by it.
    minute_count bigint NOT NULL DEFAULT 0,
    -- How many came in the minute before it.
    minute_before bigint NOT NULL DEFAULT 0,

    CONSTRAINT duplicates_pkey PRIMARY KEY (subject, stopped_by, fingerprint),
    CONSTRAINT decided_whole CHECK ((num_nulls(decision, decided_at, decided_by) = ANY (ARRAY[0, 3]))),
    CONSTRAINT duplicates_count_check CHECK ((count > 0)),
    CONSTRAINT duplicates_decision_check CHECK ((decision = ANY (ARRAY['new_key'::text, 'repeat'::text, 'dismissed'::text]))),
    CONSTRAINT duplicates_stopped_by_check CHECK ((stopped_by = ANY (ARRAY['claim'::text, 'wait'::text, 'replay'::text, 'ledger'::text, 'destination'::text]))),
    CONSTRAINT duplicates_verdict_check CHECK ((verdict = ANY (ARRAY['repeat'::text, 'mismatch'::text, 'held'::text]))),
    CONSTRAINT first_before_last CHECK ((first_at <= last_at)),
    CONSTRAINT held_before_decided CHECK (((decision IS NULL) OR (verdict = 'held'::text))),
    CONSTRAINT new_key_named CHECK (((decision_key IS NOT NULL) = (NOT (decision IS DISTINCT FROM 'new_key'::text)))),
    CONSTRAINT run_of_a_decision CHECK (((decided_run IS NULL) OR (decision = ANY (ARRAY['new_key'::text, 'repeat'::text]))))
) WITH (fillfactor=70);
CREATE INDEX duplicates_by_age ON duplicates USING btree (namespace_id, minute, subject);
CREATE INDEX duplicates_by_run ON duplicates USING btree (run_id);
CREATE INDEX duplicates_held ON duplicates USING btree (namespace_id, minute, subject) WHERE ((verdict = 'held'::text) AND ((decision IS NULL) OR ((decision = 'new_key'::text) AND (decided_run IS NULL))));
CREATE INDEX duplicates_held_of_flow ON duplicates USING btree (namespace_id, flow, minute, subject) WHERE ((verdict = 'held'::text) AND ((decision IS NULL) OR ((decision = 'new_key'::text) AND (decided_run IS NULL))));

-- Deliveries that were refused: deduplication cannot be bypassed silently. A storm of them costs a few rows a minute.
CREATE TABLE refused_deliveries (
    -- In order of writing.
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The flow.
    flow text NOT NULL,
    -- When.
    at timestamp with time zone NOT NULL DEFAULT moment(),
    -- The error code of the response.
    code text NOT NULL,
    -- What was wrong.
    message text NOT NULL,

    CONSTRAINT refused_deliveries_pkey PRIMARY KEY (id)
);
CREATE INDEX refused_deliveries_by_age ON refused_deliveries USING btree (at);
CREATE INDEX refused_deliveries_by_code ON refused_deliveries USING btree (namespace_id, code, id);
CREATE INDEX refused_deliveries_by_flow ON refused_deliveries USING btree (namespace_id, flow, id);
CREATE INDEX refused_deliveries_by_namespace ON refused_deliveries USING btree (namespace_id, id);

-- Bodies that came signed, from sources whose signature does not cover the key or what `when` reads: the same body under another key is a replay.
CREATE TABLE seen_bodies (
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The flow.
    flow text NOT NULL,
    -- SHA-256 of the raw body, or of the signed text where that does not settle the body.
    digest bytea NOT NULL,
    -- The key under which it came first; where its delivery started nothing, a name made of what was read of its unsigned parts.
    claim_id uuid NOT NULL,
    -- When it came first.
    seen_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When it expires, with the key.
    expires_at timestamp with time zone NOT NULL,

    CONSTRAINT seen_bodies_pkey PRIMARY KEY (namespace_id, flow, digest),
    CONSTRAINT seen_bodies_digest_check CHECK ((octet_length(digest) = 32))
);
CREATE INDEX seen_bodies_by_expiry ON seen_bodies USING btree (expires_at);

-- How much of what happened, by minute for two days, and by hour and by day for ninety. Servers add what they counted every few seconds, so that it is approximate.
CREATE TABLE tallies (
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- Whether the row is of a minute, an hour or a day: all three are written, so that a long time is read from few rows.
    unit tally_unit NOT NULL,
    -- When the minute, the hour or the day began, in UTC.
    began_at timestamp with time zone NOT NULL,
    -- The flow.
    flow_id integer NOT NULL,
    -- The step, where attempts are counted by step, which is by hour alone; empty where the whole flow is meant.
    step text NOT NULL DEFAULT ''::text,
    -- What is counted.
    what tally_kind NOT NULL,
    -- How much.
    count bigint NOT NULL,

    CONSTRAINT tallies_pkey PRIMARY KEY (namespace_id, unit, began_at, flow_id, step, what),
    CONSTRAINT tallies_count_check CHECK ((count > 0))
) WITH (fillfactor=70);
CREATE INDEX tallies_by_age ON tallies USING btree (unit, began_at);
CREATE INDEX tallies_of_flows ON tallies USING btree (namespace_id, began_at) WHERE ((unit = 'hour'::tally_unit) AND (step = ''::text));

-- When each background duty was last done, by any server: one row for a duty. Servers write what they finished every few seconds; a duty whose holders finish nothing is done by another server as well.
CREATE TABLE duties (
    -- The duty, by the name of its service in logs and metrics.
    duty text NOT NULL,
    -- When a server that holds the duty last finished a pass.
    finished_at timestamp with time zone,
    -- Host and process number of that server, for operators.
    finished_by text,
    -- When another server, which took the duty because it was late, last finished a pass.
    covered_at timestamp with time zone,
    -- Host and process number of that server, for operators.
    covered_by text,
    -- When a pass last failed.
    failed_at timestamp with time zone,
    -- Host and process number of the server that it failed on, for operators.
    failed_by text,
    -- Why it failed.
    error text,
    -- How long nobody may finish a pass before the duty is late, in milliseconds, as the server said that wrote the row last.
    late_after_ms bigint,

    CONSTRAINT duties_pkey PRIMARY KEY (duty)
) WITH (fillfactor=50);

-- Where the alerts of a namespace go. A namespace without a row records no alerts.
CREATE TABLE alert_settings (
    -- The namespace.
    namespace_id integer NOT NULL,
    -- The connection that receives the messages; null if they are only printed to the log, as semel dev does.
    connection text,
    -- Addresses of a mail, or the channel of a chat; may be empty for a webhook.
    recipients text[] NOT NULL DEFAULT '{}'::text[],
    -- When it was set.
    set_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- Who set it.
    set_by text NOT NULL,

    CONSTRAINT alert_settings_pkey PRIMARY KEY (namespace_id)
);

-- What happened that people must learn of, written in its commit; deleted in the commit that counts it in its group.
CREATE TABLE alert_events (
    -- In order of writing.
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- What happened.
    kind alert_kind NOT NULL,
    -- The flow; empty if there is none.
    flow text NOT NULL,
    -- The connection that the step uses; empty if there is none.
    connection text NOT NULL,
    -- The step; empty if there is none.
    step text NOT NULL,
    -- The run that it happened to.
    run_id uuid,
    -- How often it happened.
    count bigint NOT NULL,
    -- When.
    at timestamp with time zone NOT NULL DEFAULT moment(),

    CONSTRAINT alert_events_pkey PRIMARY KEY (id),
    CONSTRAINT alert_events_count_check CHECK ((count > 0))
);

-- Alerts by what happened and where: each group has its own messages, at most one in 15 minutes.
CREATE TABLE alert_groups (
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- What happened.
    kind alert_kind NOT NULL,
    -- The flow; empty if there is none.
    flow text NOT NULL,
    -- The connection that the step uses; empty if there is none.
    connection text NOT NULL,
    -- The step; empty if there is none.
    step text NOT NULL,
    -- How often it happened since the group exists.
    total bigint NOT NULL,
    -- How often it happened since the last message that was delivered, or that is on its way.
    waiting bigint NOT NULL,
    -- When the first of those happened.
    waiting_since timestamp with time zone,
    -- A run that it happened to.
    example uuid,
    -- When the next message leaves; null if nothing waits, or if only a further event makes a message due.
    due_at timestamp with time zone,
    -- Until when no message leaves, because one left before.
    quiet_until timestamp with time zone,
    -- How many of the latest messages in a row failed or are in doubt.
    failures integer NOT NULL DEFAULT 0,
    -- The latest minute whose burst of duplicates was counted.
    burst_at timestamp with time zone,
    -- When it happened last.
    last_at timestamp with time zone NOT NULL,

    CONSTRAINT alert_groups_pkey PRIMARY KEY (namespace_id, kind, flow, connection, step),
    CONSTRAINT alert_groups_failures_check CHECK ((failures >= 0)),
    CONSTRAINT alert_groups_total_check CHECK ((total > 0)),
    CONSTRAINT alert_groups_waiting_check CHECK ((waiting >= 0)),
    CONSTRAINT due_with_something CHECK (((due_at IS NULL) OR (waiting > 0))),
    CONSTRAINT waits_since CHECK (((waiting > 0) = (waiting_since IS NOT NULL)))
);
CREATE INDEX alert_groups_by_age ON alert_groups USING btree (last_at);
CREATE INDEX alert_groups_by_due ON alert_groups USING btree (due_at) WHERE (due_at IS NOT NULL);

-- Messages about alerts. Each is written before it is sent, and has one of three outcomes.
CREATE TABLE alert_messages (
    -- Its key at the destination: a digest of the group and the start of the period.
    id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- What happened.
    kind alert_kind NOT NULL,
    -- The flow; empty if there is none.
    flow text NOT NULL,
    -- The connection that the step uses; empty if there is none.
    connection text NOT NULL,
    -- The step; empty if there is none.
    step text NOT NULL,
    -- When it became due.
    period_start timestamp with time zone NOT NULL,
    -- How often it happened since the last message that was delivered.
    count bigint NOT NULL,
    -- When the first of those happened.
    since timestamp with time zone NOT NULL,
    -- A run that it happened to.
    example uuid,
    -- The connection that it goes to; null if it is only printed to the log.
    destination text,
    -- Whom it goes to there.
    recipients text[] NOT NULL,
    -- Its subject.
    subject text NOT NULL,
    -- Its text, the same on every attempt.
    body text NOT NULL,
    -- Due until a server takes it, sending until its outcome is recorded.
    state alert_message_state NOT NULL DEFAULT 'due'::alert_message_state,
    -- How often a server took it.
    attempt integer NOT NULL DEFAULT 0,
    -- When another server may take it, while one sends it.
    lease_until timestamp with time zone,
    -- What was seen, where it was not delivered.
    note text,
    -- When it was written.
    intended_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When its outcome was recorded.
    settled_at timestamp with time zone,

    CONSTRAINT alert_messages_pkey PRIMARY KEY (id),
    CONSTRAINT alert_messages_attempt_check CHECK ((attempt >= 0)),
    CONSTRAINT alert_messages_count_check CHECK ((count > 0)),
    CONSTRAINT leased_while_sent CHECK (((lease_until IS NOT NULL) = (state = 'sending'::alert_message_state))),
    CONSTRAINT settled_when_over CHECK (((settled_at IS NULL) = (state = ANY (ARRAY['due'::alert_message_state, 'sending'::alert_message_state]))))
);
CREATE INDEX alert_messages_by_group ON alert_messages USING btree (namespace_id, kind, flow, connection, step, period_start);
CREATE INDEX alert_messages_by_settled ON alert_messages USING btree (settled_at) WHERE (state = ANY (ARRAY['done'::alert_message_state, 'failed'::alert_message_state, 'in_doubt'::alert_message_state]));
CREATE INDEX alert_messages_open ON alert_messages USING btree (intended_at) WHERE (state = ANY (ARRAY['due'::alert_message_state, 'sending'::alert_message_state]));

-- The first response to each API command that came with an Idempotency-Key.
CREATE TABLE commands (
    -- Digest of namespace, route and key.
    id uuid NOT NULL,
    -- The namespace of the command.
    namespace_id integer NOT NULL,
    -- The payload that came first; another one under the same key is refused.
    fingerprint uuid NOT NULL,
    -- When it first came; the row is removed a day later.
    begun_at timestamp with time zone NOT NULL,
    -- Until when the first request is taken to be running; a later one may then carry it out.
    holder_until timestamp with time zone NOT NULL,
    -- The HTTP status of the response; null while the command runs.
    status smallint,
    -- The body of the response.
    answer json,

    CONSTRAINT commands_pkey PRIMARY KEY (id),
    CONSTRAINT answered_whole CHECK (((status IS NULL) = (answer IS NULL))),
    CONSTRAINT commands_status_check CHECK (((status >= 100) AND (status <= 599)))
);
CREATE INDEX commands_by_age ON commands USING btree (begun_at);

-- Rehearsals of releases: how far each is, and what it showed.
CREATE TABLE rehearsals (
    -- Chosen by the client, so that asking twice is asking once.
    id uuid NOT NULL,
    -- The namespace that owns it.
    namespace_id integer NOT NULL,
    -- The flow.
    flow text NOT NULL,
    -- SHA-256 of the canonical form that was rehearsed: that of the release.
    digest text NOT NULL,
    -- What the connections said that the flow and those it calls use, as canonical JSON.
    facts text NOT NULL,
    -- Whether every example and every fault was played.
    whole boolean NOT NULL,
    -- Queued and running until it ends; stopped where there is no report.
    state rehearsal_state NOT NULL DEFAULT 'queued'::rehearsal_state,
    -- How many cases were begun.
    cases_done integer NOT NULL DEFAULT 0,
    -- How many there are; 0 where that is not known yet.
    cases_total integer NOT NULL DEFAULT 0,
    -- Every case, and what it showed.
    report json,
    -- Why there is no report.
    problem text,
    -- Who asked for it.
    asked_by text NOT NULL,
    -- When.
    asked_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When its server last reported: one that is silent for a minute is gone.
    seen_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When it ended.
    ended_at timestamp with time zone,

    CONSTRAINT rehearsals_pkey PRIMARY KEY (id),
    CONSTRAINT rehearsals_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES namespaces(id),
    CONSTRAINT ended_unless_waiting CHECK (((ended_at IS NULL) = (state = ANY (ARRAY['queued'::rehearsal_state, 'running'::rehearsal_state])))),
    CONSTRAINT rehearsals_cases_done_check CHECK ((cases_done >= 0)),
    CONSTRAINT rehearsals_cases_total_check CHECK ((cases_total >= 0)),
    CONSTRAINT rehearsals_digest_check CHECK ((digest ~ '^[0-9a-f]{64}$'::text)),
    CONSTRAINT report_where_judged CHECK (((report IS NOT NULL) OR (state <> ALL (ARRAY['passed'::rehearsal_state, 'violated'::rehearsal_state]))))
);
CREATE INDEX rehearsals_by_release ON rehearsals USING btree (namespace_id, flow, digest, asked_at);

-- Sets of runs that operators replay together. A plan is about runs of all slots, so that it is control data; each run is replayed in its own slot.
CREATE TABLE replay_plans (
    -- The plan.
    id uuid NOT NULL,
    -- The namespace of its runs.
    namespace_id integer NOT NULL,
    -- The flow of its runs.
    flow text NOT NULL,
    -- The number of the release that they are replayed on, frozen with the plan.
    release integer NOT NULL,
    -- previewing: its runs are being previewed; planned: an operator may apply it; running: its runs are being replayed; paused, stopped: by an operator; done: every run has an outcome.
    state text NOT NULL,
    -- The most runs that are replayed in a second.
    per_second integer NOT NULL,
    -- Who made or applied it.
    actor text NOT NULL,
    -- The token, or the person, that made or applied it: looked up again for each page of its runs.
    token_id uuid,
    -- The operator's reason.
    reason text,
    -- When it was made.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When a server next works on it. The server that does moves this ahead first, so that another continues if it dies.
    due_at timestamp with time zone NOT NULL,
    -- Why Semel stopped it; null where an operator did.
    stopped_because text,

    CONSTRAINT replay_plans_pkey PRIMARY KEY (id),
    CONSTRAINT replay_plans_per_second_check CHECK (((per_second >= 1) AND (per_second <= 100))),
    CONSTRAINT replay_plans_state_check CHECK ((state = ANY (ARRAY['previewing'::text, 'planned'::text, 'running'::text, 'paused'::text, 'stopped'::text, 'done'::text])))
);
CREATE INDEX replay_plans_by_age ON replay_plans USING btree (namespace_id, created_at, id);
CREATE INDEX replay_plans_due ON replay_plans USING btree (namespace_id, due_at) WHERE (state = ANY (ARRAY['previewing'::text, 'running'::text]));

-- The runs of replay plans, with what became of each.
CREATE TABLE replay_items (
    -- The plan.
    plan_id uuid NOT NULL,
    -- The run that is replayed.
    run_id uuid NOT NULL,
    -- frozen: not previewed yet; previewed: it can be replayed; replayed: its next run was made; refused: it is not replayed.
    state text NOT NULL DEFAULT 'frozen'::text,
    -- The digest of its preview: it is replayed only while that holds.
    digest text,
    -- What its preview shows, in short, e.g. 3 skipped, 2 performed.
    summary text,
    -- The run that replays it.
    next_run uuid,
    -- Why it is refused, as a stable word.
    code text,
    -- Why it is refused, in words.
    note text,
    -- How many attempts the database or a worker cut short.
    attempts integer NOT NULL DEFAULT 0,

    CONSTRAINT replay_items_pkey PRIMARY KEY (plan_id, run_id),
    CONSTRAINT replay_items_plan_id_fkey FOREIGN KEY (plan_id) REFERENCES replay_plans(id) ON DELETE CASCADE,
    CONSTRAINT replay_items_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT replay_items_state_check CHECK ((state = ANY (ARRAY['frozen'::text, 'previewed'::text, 'replayed'::text, 'refused'::text]))),
    CONSTRAINT replayed_by_a_run CHECK (((state = 'replayed'::text) = (next_run IS NOT NULL)))
);
CREATE INDEX replay_items_left ON replay_items USING btree (plan_id, state, run_id) WHERE (state = ANY (ARRAY['frozen'::text, 'previewed'::text]));

-- Pauses of flows and connections, also those that are over: the deadlines of a run are moved by the time that they took. A pause is about runs of all slots, so that it is control data.
CREATE TABLE pauses (
    -- In order of writing.
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- The namespace of what is paused.
    namespace_id integer NOT NULL,
    -- flow: its runs begin no step; connection: no effect over it begins.
    kind text NOT NULL,
    -- The name of the flow or the connection.
    name text NOT NULL,
    -- The operator's reason.
    reason text NOT NULL,
    -- Who paused it.
    actor text NOT NULL,
    -- When it began.
    paused_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When an operator ended it.
    resumed_at timestamp with time zone,
    -- How many of the runs that it held continue in a second; all at once where it is null.
    per_second double precision,
    -- When the first of the runs that it held was made due.
    drain_from timestamp with time zone,
    -- How many of the runs that it held were made due since it is over.
    woken_count bigint NOT NULL DEFAULT 0,
    -- When all of them were. Until then a server works on it.
    drained_at timestamp with time zone,

    CONSTRAINT pauses_pkey PRIMARY KEY (id),
    CONSTRAINT drained_after_resume CHECK (((drained_at IS NULL) OR (resumed_at IS NOT NULL))),
    CONSTRAINT pauses_kind_check CHECK ((kind = ANY (ARRAY['flow'::text, 'connection'::text]))),
    CONSTRAINT pauses_per_second_check CHECK ((per_second >= (0.0001)::double precision)),
    CONSTRAINT pauses_woken_count_check CHECK ((woken_count >= 0))
);
CREATE INDEX pauses_begun ON pauses USING btree (namespace_id, paused_at);
CREATE INDEX pauses_by_name ON pauses USING btree (namespace_id, kind, name, resumed_at);
CREATE INDEX pauses_ended ON pauses USING btree (namespace_id, resumed_at) WHERE (resumed_at IS NOT NULL);
CREATE UNIQUE INDEX pauses_open ON pauses USING btree (namespace_id, kind, name) WHERE (resumed_at IS NULL);
CREATE INDEX pauses_undrained ON pauses USING btree (id) WHERE (drained_at IS NULL);

-- Runs that sleep because of a pause. A row is written in the commit in which its run falls asleep, and deleted in the one that makes it due.
CREATE TABLE paused_runs (
    -- The run.
    run_id uuid NOT NULL,
    -- The pause that it sleeps for.
    pause_id bigint NOT NULL,
    -- Since when.
    since timestamp with time zone NOT NULL DEFAULT moment(),

    CONSTRAINT paused_runs_pkey PRIMARY KEY (run_id)
);
CREATE INDEX paused_runs_by_pause ON paused_runs USING btree (pause_id);

-- Sets of runs that operators cancel or resume together. A job is about runs of all slots, so that it is control data; each run is cancelled or resumed in its own slot.
CREATE TABLE run_jobs (
    -- The job.
    id uuid NOT NULL,
    -- The namespace of its runs.
    namespace_id integer NOT NULL,
    -- The flow of its runs.
    flow text NOT NULL,
    -- What is done to its runs.
    verb text NOT NULL,
    -- running: runs are left; done: every run has an outcome; stopped: an operator or Semel stopped it, and what is left is left alone.
    state text NOT NULL DEFAULT 'running'::text,
    -- The digest of the plan that the operator was shown.
    digest text NOT NULL,
    -- Who made it.
    actor text NOT NULL,
    -- The token, or the person, that made it: looked up again for each page of its runs.
    token_id uuid,
    -- The operator's reason.
    reason text NOT NULL,
    -- When it was made.
    created_at timestamp with time zone NOT NULL DEFAULT moment(),
    -- When a server next works on it. The server that does moves this ahead first, so that another continues if it dies.
    due_at timestamp with time zone NOT NULL,
    -- Why Semel stopped it; null where an operator did.
    stopped_because text,

    CONSTRAINT run_jobs_pkey PRIMARY KEY (id),
    CONSTRAINT run_jobs_state_check CHECK ((state = ANY (ARRAY['running'::text, 'done'::text, 'stopped'::text]))),
    CONSTRAINT run_jobs_verb_check CHECK ((verb = ANY (ARRAY['cancel'::text, 'resume'::text])))
);
CREATE INDEX run_jobs_by_age ON run_jobs USING btree (namespace_id, created_at, id);
CREATE INDEX run_jobs_due ON run_jobs USING btree (namespace_id, due_at) WHERE (state = 'running'::text);

-- The runs of jobs, with what became of each.
CREATE TABLE run_job_items (
    -- The job.
    job_id uuid NOT NULL,
    -- The run.
    run_id uuid NOT NULL,
    -- The state of the run that the operator was shown.
    planned_state text NOT NULL,
    -- The number of the latest row of its journal then: a run that moved since is not resumed.
    planned_seq integer NOT NULL,
    -- left: nothing was done yet; done: it was cancelled or resumed; refused: it is not.
    state text NOT NULL DEFAULT 'left'::text,
    -- Why it is refused, as a stable word.
    code text,
    -- Why it is refused, in words.
    note text,
    -- How many attempts the database or a worker cut short.
    attempts integer NOT NULL DEFAULT 0,

    CONSTRAINT run_job_items_pkey PRIMARY KEY (job_id, run_id),
    CONSTRAINT run_job_items_job_id_fkey FOREIGN KEY (job_id) REFERENCES run_jobs(id) ON DELETE CASCADE,
    CONSTRAINT run_job_items_attempts_check CHECK ((attempts >= 0)),
    CONSTRAINT run_job_items_state_check CHECK ((state = ANY (ARRAY['left'::text, 'done'::text, 'refused'::text])))
);
CREATE INDEX run_job_items_left ON run_job_items USING btree (job_id, attempts, run_id) WHERE (state = 'left'::text);

-- What operators did. A row is added in the commit of the act, and never changed. Retention removes the oldest of a chain together and keeps their seal.
CREATE TABLE audit (
    -- In order of writing.
    id bigint NOT NULL GENERATED ALWAYS AS IDENTITY,
    -- The namespace that it concerns.
    namespace_id integer NOT NULL,
    -- When.
    at timestamp with time zone NOT NULL DEFAULT moment(),
    -- The token's name.
    actor text NOT NULL,
    -- What was done, e.g. doubt.settle or key.drop.
    action text NOT NULL,
    -- What it was done to.
    subject text NOT NULL,
    -- The operator's reason.
    reason text,
    -- The run that it concerns, where it concerns one.
    run_id uuid,
    -- The token of the request, whose name need not be unique; null where no token asked for it.
    token_id uuid,
    -- The address of the client, as the server sees it; null where no request asked for it.
    address text,
    -- SHA-256 of what was there before, where the act changes something that has one.
    old_digest bytea,
    -- SHA-256 of what is there now.
    new_digest bytea,

    CONSTRAINT audit_pkey PRIMARY KEY (id),
    CONSTRAINT audit_new_digest_check CHECK ((octet_length(new_digest) = 32)),
    CONSTRAINT audit_old_digest_check CHECK ((octet_length(old_digest) = 32))
);
CREATE INDEX audit_by_action ON audit USING btree (namespace_id, action, at, id);
CREATE INDEX audit_by_actor ON audit USING btree (namespace_id, actor, at, id);
CREATE INDEX audit_by_run ON audit USING btree (run_id, id) WHERE (run_id IS NOT NULL);
CREATE INDEX audit_by_subject ON audit USING btree (namespace_id, hashtextextended(subject, (0)::bigint), at, id);
CREATE INDEX audit_by_time ON audit USING btree (namespace_id, at, id);
CREATE TRIGGER audit_append_only BEFORE UPDATE OR TRUNCATE ON audit FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_removal AFTER DELETE ON audit REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_removal();

-- The acts of each namespace in one order, each with the digest of itself and all before it. A row is never changed; it is removed with its act.
CREATE TABLE audit_chain (
    -- Whose chain.
    namespace_id integer NOT NULL,
    -- The place in it, from 1 without gaps.
    position bigint NOT NULL,
    -- The act.
    audit_id bigint NOT NULL,
    -- SHA-256 of the digest before it and of the act.
    digest bytea NOT NULL,
    -- When it was sealed.
    sealed_at timestamp with time zone NOT NULL DEFAULT moment(),

    CONSTRAINT audit_chain_pkey PRIMARY KEY (namespace_id, "position"),
    CONSTRAINT audit_chain_namespace_id_audit_id_key UNIQUE (namespace_id, audit_id),
    CONSTRAINT audit_chain_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT audit_chain_position_check CHECK (("position" > 0))
);
CREATE INDEX audit_chain_by_time ON audit_chain USING btree (sealed_at, audit_id);
CREATE TRIGGER audit_chain_append_only BEFORE UPDATE OR TRUNCATE ON audit_chain FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_chain_removal AFTER DELETE ON audit_chain REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_chain_removal();

-- Stretches of chains whose acts are past their time and removed: their seal stays. A row is never changed or removed.
CREATE TABLE audit_removed (
    -- Whose chain.
    namespace_id integer NOT NULL,
    -- The place of the first act that was removed: 1, or behind the stretch before.
    first_position bigint NOT NULL,
    -- The place of the last one.
    last_position bigint NOT NULL,
    -- The digest that the first one followed.
    digest_before bytea NOT NULL,
    -- The digest of the last one, which the first act that is left follows.
    digest bytea NOT NULL,
    -- When the latest of the acts was done.
    latest_at timestamp with time zone NOT NULL,
    -- When they were removed.
    removed_at timestamp with time zone NOT NULL DEFAULT moment(),

    CONSTRAINT audit_removed_pkey PRIMARY KEY (namespace_id, last_position),
    CONSTRAINT audit_removed_check CHECK ((last_position >= first_position)),
    CONSTRAINT audit_removed_digest_before_check CHECK ((octet_length(digest_before) = 32)),
    CONSTRAINT audit_removed_digest_check CHECK ((octet_length(digest) = 32)),
    CONSTRAINT audit_removed_first_position_check CHECK ((first_position > 0))
);
CREATE TRIGGER audit_removed_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit_removed FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_removed_fits BEFORE INSERT ON audit_removed FOR EACH ROW EXECUTE FUNCTION refuse_other_stretch();
