//! What a run's own transition makes of its approvals.

use jiff::Timestamp;
use semel_model::WaitId;
use semel_model::approval::ApprovalRequest;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::journal::Transition;
use crate::wakes::wakes;

/// A write that is submitted twice asks once; asking again is another round, for which whatever was
/// decided before does not count. Lists of people travel as text: a list of lists has no array of
/// its own.
pub(crate) const OPEN: &str = "
    INSERT INTO approvals (id, run_id, namespace_id, flow, step, people, escalate, escalate_at,
                           shown, digest, login, not_by, until, opened_at, round)
    SELECT t.id, t.run_id, t.namespace_id, t.flow, t.step,
           ARRAY(SELECT json_array_elements_text(t.people::json)),
           ARRAY(SELECT json_array_elements_text(t.escalate::json)),
           t.escalate_at, t.shown::json, t.digest, t.login, t.not_by, t.until, (SELECT moment()),
           t.round
      FROM unnest($1::uuid[], $2::uuid[], $3::int4[], $4::text[], $5::text[], $6::text[],
                  $7::text[], $8::timestamptz[], $9::text[], $10::text[], $11::bool[],
                  $12::text[], $13::timestamptz[], $14::int4[])
        AS t (id, run_id, namespace_id, flow, step, people, escalate, escalate_at, shown, digest,
              login, not_by, until, round)
        ON CONFLICT (id) DO UPDATE
       SET state = 'open', people = EXCLUDED.people, escalate = EXCLUDED.escalate,
           escalate_at = EXCLUDED.escalate_at, shown = EXCLUDED.shown, digest = EXCLUDED.digest,
           login = EXCLUDED.login, not_by = EXCLUDED.not_by, until = EXCLUDED.until,
           opened_at = EXCLUDED.opened_at, round = EXCLUDED.round, ended_at = NULL,
           approved = NULL, decided_by = NULL, comment = NULL
     WHERE approvals.round < EXCLUDED.round";

/// Ends approvals whose time is over; refuses the transition if a decision came first.
pub(crate) const ELAPSE: &str = "
    WITH ended AS (
        UPDATE approvals
           SET state = 'elapsed', ended_at = (SELECT moment())
         WHERE id = ANY ($1) AND state IS NOT DISTINCT FROM 'open'
     RETURNING 1)
    SELECT all_or_nothing(count(*), $2) FROM ended";

/// Moves the times of approvals by that of a pause.
pub(crate) const DEFER: &str = "
    UPDATE approvals a
       SET until = t.until, escalate_at = coalesce(t.escalate_at, a.escalate_at)
      FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) AS t (id, until, escalate_at)
     WHERE a.id = t.id AND a.state IS NOT DISTINCT FROM 'open'";

/// Ends approvals of runs that end.
pub(crate) const WITHDRAW: &str = "
    UPDATE approvals
       SET state = 'withdrawn', ended_at = (SELECT moment())
     WHERE id = ANY ($1) AND state IS NOT DISTINCT FROM 'open'";

/// Wakes the runs of approvals that are decided: with the decision, and in the commit in which a
/// run falls asleep again.
pub(crate) const HEAR: &str = concat!(
    "
    UPDATE queue q
       SET ",
    wakes!("(SELECT moment())"),
    ",
           stage = CASE WHEN q.holder IS NULL THEN 'ready' ELSE q.stage END
      FROM approvals a
     WHERE a.id = ANY ($1) AND a.state = 'decided' AND q.run_id = a.run_id
       AND (q.holder IS NOT NULL OR q.stage = 'waiting') AND (q.holder IS NULL OR NOT q.woken)"
);

/// What happens to an approval.
#[derive(Clone, Debug)]
pub enum ApprovalChange {
    /// People are asked.
    Open {
        /// The approval.
        wait: WaitId,
        /// The flow, for people.
        flow: String,
        /// The step's path.
        step: String,
        /// What they are asked.
        asked: Box<ApprovalRequest>,
        /// When it ends by itself.
        until: Option<Timestamp>,
    },
    /// People are notified again; the run keeps sleeping, unless a decision came meanwhile.
    Told {
        /// The approval.
        wait: WaitId,
    },
    /// A pause is over, and its times are later.
    Defer {
        /// The approval.
        wait: WaitId,
        /// When it ends by itself.
        until: Option<Timestamp>,
        /// When others are asked too, where they were not yet.
        escalate_at: Option<Timestamp>,
    },
    /// Its time is over without a decision.
    Elapse {
        /// The approval.
        wait: WaitId,
    },
    /// The run ends while it is open.
    Withdraw {
        /// The approval.
        wait: WaitId,
    },
}

/// Changes of a batch, by column.
#[derive(Default)]
pub(crate) struct Rows<'a> {
    ids: Vec<Uuid>,
    runs: Vec<Uuid>,
    namespaces: Vec<i32>,
    flows: Vec<&'a str>,
    steps: Vec<&'a str>,
    people: Vec<String>,
    escalate: Vec<String>,
    escalate_at: Vec<Option<Timestamp>>,
    shown: Vec<String>,
    digests: Vec<&'a str>,
    logins: Vec<bool>,
    not_by: Vec<Option<&'a str>>,
    untils: Vec<Option<Timestamp>>,
    rounds: Vec<i32>,
    told: Vec<Uuid>,
    deferred: Vec<Uuid>,
    deferred_untils: Vec<Option<Timestamp>>,
    deferred_escalations: Vec<Option<Timestamp>>,
    elapsed: Vec<Uuid>,
    elapsed_count: i64,
    withdrawn: Vec<Uuid>,
}

type Statements<'a> = Vec<(&'static str, Vec<&'a (dyn ToSql + Sync)>)>;

impl<'a> Rows<'a> {
    pub(crate) fn push(&mut self, item: &Transition, change: &'a ApprovalChange) {
        match change {
            ApprovalChange::Open {
                wait,
                flow,
                step,
                asked,
                until,
            } => {
                self.ids.push(*wait.as_uuid());
                self.runs.push(*item.run.as_uuid());
                self.namespaces.push(item.namespace_id);
                self.flows.push(flow);
                self.steps.push(step);
                self.untils.push(*until);
                self.ask(asked);
            }
            ApprovalChange::Defer {
                wait,
                until,
                escalate_at,
            } => {
                self.deferred.push(*wait.as_uuid());
                self.deferred_untils.push(*until);
                self.deferred_escalations.push(*escalate_at);
            }
            ApprovalChange::Told { wait } => self.told.push(*wait.as_uuid()),
            ApprovalChange::Elapse { wait } => {
                self.elapsed.push(*wait.as_uuid());
                self.elapsed_count += 1;
            }
            ApprovalChange::Withdraw { wait } => self.withdrawn.push(*wait.as_uuid()),
        }
    }

    fn ask(&mut self, asked: &'a ApprovalRequest) {
        self.people.push(to_text(&asked.from));
        self.escalate.push(to_text(&asked.escalate));
        self.escalate_at.push(asked.escalate_at);
        self.shown.push(asked.shown.to_string());
        self.digests.push(asked.digest.as_str());
        self.logins.push(asked.login);
        self.not_by.push(asked.not_by.as_deref());
        self.rounds
            .push(i32::try_from(asked.round).unwrap_or(i32::MAX));
    }

    /// The statements that these changes need, with their parameters.
    pub(crate) fn statements(&'a self) -> Statements<'a> {
        let mut all: Statements<'a> = Vec::new();
        if !self.ids.is_empty() {
            let values: Vec<&(dyn ToSql + Sync)> = vec![
                &self.ids,
                &self.runs,
                &self.namespaces,
                &self.flows,
                &self.steps,
                &self.people,
                &self.escalate,
                &self.escalate_at,
                &self.shown,
                &self.digests,
                &self.logins,
                &self.not_by,
                &self.untils,
                &self.rounds,
            ];
            all.push((OPEN, values));
        }
        if !self.deferred.is_empty() {
            let values: Vec<&(dyn ToSql + Sync)> = vec![
                &self.deferred,
                &self.deferred_untils,
                &self.deferred_escalations,
            ];
            all.push((DEFER, values));
            // A decision may have come since the run looked.
            all.push((HEAR, vec![&self.deferred]));
        }
        if !self.elapsed.is_empty() {
            all.push((ELAPSE, vec![&self.elapsed, &self.elapsed_count]));
        }
        if !self.withdrawn.is_empty() {
            all.push((WITHDRAW, vec![&self.withdrawn]));
        }
        if !self.told.is_empty() {
            all.push((HEAR, vec![&self.told]));
        }
        all
    }
}

fn to_text(names: &[String]) -> String {
    serde_json::to_string(names).unwrap_or_else(|_| "[]".to_owned())
}
