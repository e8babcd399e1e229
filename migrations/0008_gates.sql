-- Gates: runs of one object pass one at a time, or so many at a time, or in the order of a version.
--
-- A gate has an identity of its own, derived from namespace, flow, kind and object, and lives in the
-- slot of that identity. Nothing here shares a transaction with a run: a run is told by its queue
-- entry, in a statement of its own, and who was not told is told again.

CREATE TABLE gates (
    id       uuid PRIMARY KEY,
    at_once  integer,
    rate     integer,
    per_ms   bigint,
    inside   integer NOT NULL DEFAULT 0,
    called   integer NOT NULL DEFAULT 0,
    started  bigint NOT NULL DEFAULT 0,
    idle_at  timestamptz
) WITH (fillfactor = 50);
COMMENT ON TABLE gates IS 'What runs of one object pass one at a time. A row stands while somebody is at the gate, or its starts count; whoever decides holds it.';
COMMENT ON COLUMN gates.id IS 'Digest of namespace, flow, kind and object; slot in front.';
COMMENT ON COLUMN gates.at_once IS 'The most runs inside; null without a limit.';
COMMENT ON COLUMN gates.rate IS 'The most runs that are let in within per_ms; null without a limit.';
COMMENT ON COLUMN gates.per_ms IS 'The stretch of time that rate counts in, in milliseconds.';
COMMENT ON COLUMN gates.inside IS 'How many tickets are inside.';
COMMENT ON COLUMN gates.called IS 'How many tickets are called.';
COMMENT ON COLUMN gates.started IS 'How many runs were let in, where a rate counts them.';
COMMENT ON COLUMN gates.idle_at IS 'When its last start no longer counts; null without a rate.';
CREATE INDEX gates_by_idle ON gates (idle_at) WHERE idle_at IS NOT NULL;

CREATE TYPE ticket_place AS ENUM ('waiting', 'resting', 'called', 'inside', 'joining', 'dropped');

CREATE TABLE tickets (
    gate_id     uuid NOT NULL,
    run_id      uuid NOT NULL,
    place       ticket_place NOT NULL,
    accepted_at timestamptz NOT NULL,
    since       integer NOT NULL,
    behind      uuid,
    ready_at    timestamptz,
    summoned_at timestamptz,
    PRIMARY KEY (gate_id, run_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE tickets IS 'Who stands where at a gate. A ticket goes when its run has ended.';
COMMENT ON COLUMN tickets.gate_id IS 'The gate.';
COMMENT ON COLUMN tickets.run_id IS 'The run.';
COMMENT ON COLUMN tickets.place IS 'Waiting in line; resting until its object was quiet; called, which counts as inside; inside; joining another run''s end; dropped in favour of a newer one.';
COMMENT ON COLUMN tickets.accepted_at IS 'When the run was accepted: who was first is first.';
COMMENT ON COLUMN tickets.since IS 'The row of the run''s journal after which it came: an earlier end of a run that was resumed does not concern it.';
COMMENT ON COLUMN tickets.behind IS 'The run that it joined, that it gave way to, or that wants its place.';
COMMENT ON COLUMN tickets.ready_at IS 'When it may come, where that is later.';
COMMENT ON COLUMN tickets.summoned_at IS 'Since when its run has to be told to look at the gate; null once it has.';
CREATE INDEX tickets_in_line ON tickets (gate_id, place, accepted_at, run_id);
CREATE INDEX tickets_by_summons ON tickets (summoned_at) WHERE summoned_at IS NOT NULL;

CREATE TABLE starts (
    gate_id uuid NOT NULL,
    number  bigint NOT NULL,
    at      timestamptz NOT NULL,
    PRIMARY KEY (gate_id, number)
);
COMMENT ON TABLE starts IS 'When a gate with a rate let runs in: as many as the rate counts.';
COMMENT ON COLUMN starts.gate_id IS 'The gate.';
COMMENT ON COLUMN starts.number IS '0, 1, 2 … without a gap.';
COMMENT ON COLUMN starts.at IS 'When.';

CREATE TABLE departures (
    run_id  uuid NOT NULL,
    gate_id uuid NOT NULL,
    seq     integer NOT NULL,
    at      timestamptz NOT NULL,
    PRIMARY KEY (run_id, gate_id)
);
COMMENT ON TABLE departures IS 'Runs that have ended and whose gates may not know yet. Written with the end, in the run''s slot.';
COMMENT ON COLUMN departures.run_id IS 'The run.';
COMMENT ON COLUMN departures.gate_id IS 'The gate that it is to leave.';
COMMENT ON COLUMN departures.seq IS 'The row of the run''s journal by which it ended.';
COMMENT ON COLUMN departures.at IS 'When it ended, or when somebody last set about telling the gate.';
CREATE INDEX departures_by_age ON departures (at);

CREATE TABLE versions (
    gate_id    uuid PRIMARY KEY,
    kind       text NOT NULL,
    rank       text COLLATE "C" NOT NULL,
    shown      text NOT NULL,
    claim_id   uuid NOT NULL,
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE versions IS 'The newest version of each object that was accepted.';
COMMENT ON COLUMN versions.gate_id IS 'The gate of the object.';
COMMENT ON COLUMN versions.kind IS 'number, time or text: versions of two kinds cannot be compared.';
COMMENT ON COLUMN versions.rank IS 'The version, written so that a newer one of its kind is greater, byte by byte.';
COMMENT ON COLUMN versions.shown IS 'The version as it came.';
COMMENT ON COLUMN versions.claim_id IS 'The claim of the delivery that brought it.';
COMMENT ON COLUMN versions.expires_at IS 'When it may be forgotten: as long after its delivery as the flow remembers keys.';
CREATE INDEX versions_by_expiry ON versions (expires_at);

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
    count        bigint NOT NULL DEFAULT 1,
    first_at     timestamptz NOT NULL,
    last_at      timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    PRIMARY KEY (gate_id, claim_id)
);
COMMENT ON TABLE stale_deliveries IS 'Deliveries that were older than what was accepted of their object, and so started nothing.';
COMMENT ON COLUMN stale_deliveries.gate_id IS 'The gate of the object.';
COMMENT ON COLUMN stale_deliveries.claim_id IS 'The claim that the delivery would have made.';
COMMENT ON COLUMN stale_deliveries.namespace_id IS 'Whose it is.';
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
COMMENT ON COLUMN stale_deliveries.expires_at IS 'When it may be forgotten.';
CREATE INDEX stale_deliveries_by_expiry ON stale_deliveries (expires_at);
CREATE INDEX stale_deliveries_by_age ON stale_deliveries (namespace_id, last_at);
