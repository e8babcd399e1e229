-- Parts of runs: an item of a `foreach` and a branch of a `parallel` are runs of their own, in the
-- slot of the run that they are parts of.

CREATE TYPE part_state AS ENUM ('pending', 'open', 'succeeded', 'failed', 'cancelled');
COMMENT ON TYPE part_state IS 'Where a part of a run stands.';

CREATE TABLE parts (
    parent_id uuid NOT NULL,
    step      text NOT NULL,
    index     integer NOT NULL,
    run_id    uuid NOT NULL UNIQUE,
    key       text NOT NULL,
    state     part_state NOT NULL DEFAULT 'pending',
    item      json,
    ended_at  timestamptz,
    PRIMARY KEY (parent_id, step, index)
) WITH (fillfactor = 70);
COMMENT ON TABLE parts IS 'Items and branches of runs, each with the run that does its steps.';
COMMENT ON COLUMN parts.parent_id IS 'The run that it is a part of.';
COMMENT ON COLUMN parts.step IS 'The step of that run.';
COMMENT ON COLUMN parts.index IS 'Its place in the list.';
COMMENT ON COLUMN parts.run_id IS 'The run that does its steps; derived from parent, step and key, so that an item is met again.';
COMMENT ON COLUMN parts.key IS 'What tells the item from others, for people.';
COMMENT ON COLUMN parts.state IS 'Where it stands.';
COMMENT ON COLUMN parts.item IS 'The item, until it begins; then its journal has it.';
COMMENT ON COLUMN parts.ended_at IS 'When it ended.';
CREATE INDEX parts_left ON parts (parent_id, step, state, index) WHERE state <> 'succeeded';

ALTER TABLE runs ADD COLUMN parent_id uuid;
COMMENT ON COLUMN runs.parent_id IS 'The run that it is a part of, where it is one.';

ALTER TABLE queue ADD COLUMN woken boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN queue.woken IS 'Whether a part of the run ended while somebody held the run: it is due at once when it is given back.';

-- Waits for events: which runs an event may answer, found without asking each of them.

CREATE TABLE listeners (
    wait_id      uuid PRIMARY KEY,
    run_id       uuid NOT NULL,
    namespace_id integer NOT NULL,
    event        text NOT NULL,
    path         text NOT NULL,
    value        text NOT NULL
);
COMMENT ON TABLE listeners IS 'Open waits for events.';
COMMENT ON COLUMN listeners.wait_id IS 'The wait.';
COMMENT ON COLUMN listeners.run_id IS 'Its run.';
COMMENT ON COLUMN listeners.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN listeners.event IS 'The event.';
COMMENT ON COLUMN listeners.path IS 'The part of the event that tells which one is meant; empty where nothing does.';
COMMENT ON COLUMN listeners.value IS 'What stands there, as JSON text; empty where nothing does.';
CREATE INDEX listeners_by_event ON listeners (namespace_id, event, path, value, wait_id);
