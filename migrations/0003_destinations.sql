-- Destinations: connections and the secrets that they name, resources, events on their way out.

-- ------------------------------------------------------------------- secrets and connections

CREATE TABLE data_keys (
    namespace_id integer NOT NULL,
    number       integer NOT NULL,
    wrapped      bytea NOT NULL,
    wrapped_by   text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    PRIMARY KEY (namespace_id, number)
);
COMMENT ON TABLE data_keys IS 'The keys that secrets are sealed with, each itself sealed with a key that is kept outside the database.';
COMMENT ON COLUMN data_keys.namespace_id IS 'Whose secrets it seals.';
COMMENT ON COLUMN data_keys.number IS '1, 2, 3 …; the highest seals new secrets.';
COMMENT ON COLUMN data_keys.wrapped IS 'Nonce and sealed key.';
COMMENT ON COLUMN data_keys.wrapped_by IS 'Which outer key sealed it: eight bytes of that key''s digest, in hex.';
COMMENT ON COLUMN data_keys.created_at IS 'When it was made.';

CREATE TABLE secrets (
    namespace_id integer NOT NULL,
    name         text NOT NULL,
    version      integer NOT NULL,
    data_key     integer NOT NULL,
    sealed       bytea NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    retires_at   timestamptz,
    PRIMARY KEY (namespace_id, name, version)
);
COMMENT ON TABLE secrets IS 'Secrets, sealed. They can be set and used, and never read back.';
COMMENT ON COLUMN secrets.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN secrets.name IS 'What connections and triggers call it.';
COMMENT ON COLUMN secrets.version IS '1, 2, 3 …; the highest is used for sending.';
COMMENT ON COLUMN secrets.data_key IS 'The number of the key that sealed it.';
COMMENT ON COLUMN secrets.sealed IS 'Nonce and sealed text; bound to namespace, name and version.';
COMMENT ON COLUMN secrets.created_at IS 'When it was set.';
COMMENT ON COLUMN secrets.retires_at IS 'Until when a version that was followed by another still verifies deliveries; null for the latest.';

CREATE TABLE connections (
    namespace_id integer NOT NULL,
    name         text NOT NULL,
    version      bigint NOT NULL DEFAULT 1,
    connection   json NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    changed_at   timestamptz NOT NULL DEFAULT moment(),
    PRIMARY KEY (namespace_id, name)
);
COMMENT ON TABLE connections IS 'Destinations as their owners describe them. They name secrets and hold none.';
COMMENT ON COLUMN connections.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN connections.name IS 'What flows call it.';
COMMENT ON COLUMN connections.version IS 'Grows with every change.';
COMMENT ON COLUMN connections.connection IS 'Address, sign-in, limits.';
COMMENT ON COLUMN connections.created_at IS 'When it was made.';
COMMENT ON COLUMN connections.changed_at IS 'When it was changed last.';

-- ------------------------------------------------------------------------------- deliveries

CREATE TABLE seen_bodies (
    namespace_id integer NOT NULL,
    flow         text NOT NULL,
    digest       bytea NOT NULL,
    claim_id     uuid NOT NULL,
    seen_at      timestamptz NOT NULL DEFAULT moment(),
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace_id, flow, digest)
);
COMMENT ON TABLE seen_bodies IS 'Bodies that came signed, from sources whose signature does not cover the key: the same body under another key is a replay.';
COMMENT ON COLUMN seen_bodies.namespace_id IS 'Where.';
COMMENT ON COLUMN seen_bodies.flow IS 'The flow.';
COMMENT ON COLUMN seen_bodies.digest IS 'SHA-256 of the raw body.';
COMMENT ON COLUMN seen_bodies.claim_id IS 'The key under which it came first.';
COMMENT ON COLUMN seen_bodies.seen_at IS 'When it came first.';
COMMENT ON COLUMN seen_bodies.expires_at IS 'When it is forgotten, with the key.';
CREATE INDEX seen_bodies_by_expiry ON seen_bodies (expires_at);

-- -------------------------------------------------------------------------------- resources

CREATE TABLE resources (
    namespace_id integer NOT NULL,
    digest       bytea NOT NULL,
    bytes        bigint NOT NULL,
    media_type   text NOT NULL,
    name         text,
    run_id       uuid NOT NULL,
    step         text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace_id, digest)
);
COMMENT ON TABLE resources IS 'Large outputs that are kept by reference. Their bytes are in the resource store, named by their digest.';
COMMENT ON COLUMN resources.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN resources.digest IS 'SHA-256 of the bytes.';
COMMENT ON COLUMN resources.bytes IS 'How many there are.';
COMMENT ON COLUMN resources.media_type IS 'What they are.';
COMMENT ON COLUMN resources.name IS 'What people call it.';
COMMENT ON COLUMN resources.run_id IS 'The run that kept it first.';
COMMENT ON COLUMN resources.step IS 'The step that kept it first.';
COMMENT ON COLUMN resources.created_at IS 'When.';
COMMENT ON COLUMN resources.expires_at IS 'When it may be removed.';
CREATE INDEX resources_by_expiry ON resources (expires_at);
CREATE INDEX resources_by_creation ON resources (namespace_id, created_at, digest);

CREATE TABLE llm_answers (
    namespace_id integer NOT NULL,
    digest       bytea NOT NULL,
    answer       json NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (namespace_id, digest)
);
COMMENT ON TABLE llm_answers IS 'What language models answered, so that the same question is asked once.';
COMMENT ON COLUMN llm_answers.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN llm_answers.digest IS 'SHA-256 of the canonical request and of where it holds: a run, a flow or the namespace.';
COMMENT ON COLUMN llm_answers.answer IS 'The answer, with tokens and cost.';
COMMENT ON COLUMN llm_answers.created_at IS 'When it was given.';
COMMENT ON COLUMN llm_answers.expires_at IS 'When it is forgotten.';
CREATE INDEX llm_answers_by_expiry ON llm_answers (expires_at);

-- ----------------------------------------------------------------------- events on their way

CREATE TABLE subscriptions (
    namespace_id integer NOT NULL,
    name         text NOT NULL,
    event        text NOT NULL,
    connection   text NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT moment(),
    PRIMARY KEY (namespace_id, name)
);
COMMENT ON TABLE subscriptions IS 'Who outside is told of events.';
COMMENT ON COLUMN subscriptions.namespace_id IS 'Whose events.';
COMMENT ON COLUMN subscriptions.name IS 'What its owner calls it.';
COMMENT ON COLUMN subscriptions.event IS 'The event; a trailing .* takes all that begin so.';
COMMENT ON COLUMN subscriptions.connection IS 'The webhook connection that deliveries go to.';
COMMENT ON COLUMN subscriptions.created_at IS 'When it was made. Earlier events are not delivered.';

CREATE TABLE outbox (
    id           uuid PRIMARY KEY,
    namespace_id integer NOT NULL,
    run_id       uuid NOT NULL,
    event        text NOT NULL,
    data         json NOT NULL,
    emitted_at   timestamptz NOT NULL
);
COMMENT ON TABLE outbox IS 'Events that committed with their run and are not spread yet. A row leaves when each of its receivers has a delivery.';
COMMENT ON COLUMN outbox.id IS 'The effect that emitted it: the delivery key that every receiver dedupes by.';
COMMENT ON COLUMN outbox.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN outbox.run_id IS 'The run that emitted it.';
COMMENT ON COLUMN outbox.event IS 'The event.';
COMMENT ON COLUMN outbox.data IS 'What it carries.';
COMMENT ON COLUMN outbox.emitted_at IS 'When it committed.';

CREATE TYPE outgoing_state AS ENUM ('due', 'delivered', 'given_up');

CREATE TABLE outgoing (
    event_id     uuid NOT NULL,
    namespace_id integer NOT NULL,
    subscription text NOT NULL,
    connection   text NOT NULL,
    state        outgoing_state NOT NULL DEFAULT 'due',
    body         json NOT NULL,
    emitted_at   timestamptz NOT NULL,
    attempt      integer NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL,
    settled_at   timestamptz,
    note         text,
    PRIMARY KEY (event_id, subscription)
);
COMMENT ON TABLE outgoing IS 'Deliveries of events to subscribed webhooks, each tried until it is taken or given up.';
COMMENT ON COLUMN outgoing.event_id IS 'The event: the delivery key, the same on every attempt.';
COMMENT ON COLUMN outgoing.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN outgoing.subscription IS 'The subscription.';
COMMENT ON COLUMN outgoing.connection IS 'The connection that it goes to.';
COMMENT ON COLUMN outgoing.state IS 'Due until the receiver answered with 2xx, or until it is given up.';
COMMENT ON COLUMN outgoing.body IS 'The CloudEvent, the same bytes on every attempt.';
COMMENT ON COLUMN outgoing.emitted_at IS 'When the event committed.';
COMMENT ON COLUMN outgoing.attempt IS 'How often it was tried.';
COMMENT ON COLUMN outgoing.due_at IS 'When it is tried next.';
COMMENT ON COLUMN outgoing.settled_at IS 'When it was delivered or given up.';
COMMENT ON COLUMN outgoing.note IS 'What was seen on the last attempt.';
CREATE INDEX outgoing_by_due ON outgoing (due_at) WHERE state = 'due';
CREATE INDEX outgoing_by_settled ON outgoing (settled_at) WHERE state <> 'due';

-- ------------------------------------------------------------------------------------ locks

CREATE TABLE locks (
    slot         smallint NOT NULL,
    namespace_id integer NOT NULL,
    name         text NOT NULL,
    token        bigint NOT NULL DEFAULT 1,
    holder       uuid,
    until        timestamptz,
    PRIMARY KEY (slot, namespace_id, name)
) WITH (fillfactor = 80);
COMMENT ON TABLE locks IS 'Named locks with leases. A row stays when its lock is released, so that tokens never go back.';
COMMENT ON COLUMN locks.slot IS 'The slot of namespace and name.';
COMMENT ON COLUMN locks.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN locks.name IS 'What it locks.';
COMMENT ON COLUMN locks.token IS 'Grows each time somebody else takes it: a destination that keeps the highest can refuse whoever is late.';
COMMENT ON COLUMN locks.holder IS 'The run that has it; null when nobody does.';
COMMENT ON COLUMN locks.until IS 'When it is free again, unless its holder takes it again before.';

-- ------------------------------------------------------------------------------------- maps

CREATE INDEX effects_by_external_id ON effects (namespace_id, external_id) WHERE external_id IS NOT NULL;
COMMENT ON COLUMN effects.external_id IS 'The destination''s identity for what was made: with the run''s key, the map from source to destination.';
COMMENT ON COLUMN duplicates.place IS 'Where it was stopped: claim, wait or replay (the same signed body under another key).';
