-- People and programs outside: tasks that workers take, approvals that people decide, and the
-- groups that a token speaks for.

CREATE TYPE task_state AS ENUM ('open', 'held', 'done', 'failed', 'lost', 'withdrawn');

CREATE TABLE tasks (
    id             uuid PRIMARY KEY,
    run_id         uuid NOT NULL,
    namespace_id   integer NOT NULL,
    queue          text NOT NULL,
    step           text NOT NULL,
    state          task_state NOT NULL DEFAULT 'open',
    attempt        integer NOT NULL,
    token          bigint NOT NULL DEFAULT 0,
    lease_ms       bigint NOT NULL,
    lease_until    timestamptz,
    worker         text,
    claim_id       uuid,
    opened_at      timestamptz NOT NULL,
    until          timestamptz,
    ended_at       timestamptz,
    answered_token bigint,
    input          json NOT NULL,
    answer         json
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0);
COMMENT ON TABLE tasks IS 'Work that programs outside take from a queue. The run opens it; a worker answers under the token of its claim.';
COMMENT ON COLUMN tasks.id IS 'The effect: the key that the worker passes on. Begins with the run''s first eight bytes.';
COMMENT ON COLUMN tasks.run_id IS 'The run.';
COMMENT ON COLUMN tasks.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN tasks.queue IS 'The queue that workers take it from.';
COMMENT ON COLUMN tasks.step IS 'The step''s path in the flow.';
COMMENT ON COLUMN tasks.state IS 'Open until a worker claims it, held until the worker answers or its lease is over.';
COMMENT ON COLUMN tasks.attempt IS 'The number of the latest attempt, as the ledger has it.';
COMMENT ON COLUMN tasks.token IS 'Grows with every claim. An answer that carries an older one is evidence and nothing else.';
COMMENT ON COLUMN tasks.lease_ms IS 'How long a worker may be silent, in milliseconds.';
COMMENT ON COLUMN tasks.lease_until IS 'When the worker that holds it counts as lost.';
COMMENT ON COLUMN tasks.worker IS 'What the latest worker calls itself.';
COMMENT ON COLUMN tasks.claim_id IS 'The request that claimed it, so that a repeat of the request gets the same tasks.';
COMMENT ON COLUMN tasks.opened_at IS 'When the latest attempt was opened: the oldest is claimed first.';
COMMENT ON COLUMN tasks.until IS 'When its time is over in all.';
COMMENT ON COLUMN tasks.ended_at IS 'When the latest attempt ended.';
COMMENT ON COLUMN tasks.answered_token IS 'The token under which the latest answer was given.';
COMMENT ON COLUMN tasks.input IS 'What the worker gets.';
COMMENT ON COLUMN tasks.answer IS 'What the worker answered: its result, or why it failed.';
CREATE INDEX tasks_to_claim ON tasks (namespace_id, queue, opened_at) WHERE state = 'open';
CREATE INDEX tasks_by_lease ON tasks (lease_until) WHERE state = 'held';
CREATE INDEX tasks_by_claim ON tasks (claim_id) WHERE state = 'held';
CREATE INDEX tasks_by_age ON tasks (namespace_id, opened_at);

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
    comment      text
);
COMMENT ON TABLE approvals IS 'What people are asked to decide, and what they decided. Left once, from open, by whoever is first.';
COMMENT ON COLUMN approvals.id IS 'The wait: derived from run and step. Begins with the run''s first eight bytes.';
COMMENT ON COLUMN approvals.run_id IS 'The run.';
COMMENT ON COLUMN approvals.namespace_id IS 'Whose it is.';
COMMENT ON COLUMN approvals.flow IS 'The flow, for people.';
COMMENT ON COLUMN approvals.step IS 'The step''s path in the flow.';
COMMENT ON COLUMN approvals.state IS 'Where it stands.';
COMMENT ON COLUMN approvals.people IS 'Who may decide: names of tokens or of their groups.';
COMMENT ON COLUMN approvals.escalate IS 'Who else may, from escalate_at on.';
COMMENT ON COLUMN approvals.escalate_at IS 'When half of the time is over.';
COMMENT ON COLUMN approvals.shown IS 'What is decided about, as it was when people were asked.';
COMMENT ON COLUMN approvals.digest IS 'SHA-256 of the canonical form of what is shown; a decision has to name it.';
COMMENT ON COLUMN approvals.login IS 'Whether the link alone is not enough.';
COMMENT ON COLUMN approvals.not_by IS 'Who may not decide, because they started the run.';
COMMENT ON COLUMN approvals.opened_at IS 'When people were asked.';
COMMENT ON COLUMN approvals.until IS 'When it ends by itself.';
COMMENT ON COLUMN approvals.ended_at IS 'When it was decided, or ended otherwise.';
COMMENT ON COLUMN approvals.approved IS 'Yes or no, where it is decided.';
COMMENT ON COLUMN approvals.decided_by IS 'Who decided: the name of a token, or link.';
COMMENT ON COLUMN approvals.comment IS 'What they said about it.';
CREATE INDEX approvals_open ON approvals (namespace_id, opened_at) WHERE state = 'open';
CREATE INDEX approvals_by_age ON approvals (namespace_id, opened_at);

ALTER TABLE tokens ADD COLUMN groups text[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN tokens.groups IS 'The groups that its owner belongs to: an approval may be from one of them.';
