//! Operator commands for schedules: list them, pause them, fire an instant by hand.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use semel_model::{ClaimId, FlowName, Key, KeySpace, NamespaceName, RunId, ScheduleId};
use semel_store::audit::{self, AuditEntry, ReasonError};
use semel_store::schedules::{self, Schedule, Tick, TickVerdict, TickView};
use semel_store::{ReadError, claims, runs};

use crate::catalogue::Release;
use crate::commands::connection::Actor;
use crate::ingest::{Intake, IntakeError};
use crate::runtime::Runtime;
use crate::services::scheduler::live::Live;
use crate::services::scheduler::{expected_run, tick_key};

/// A live schedule, as shown to operators.
#[derive(Clone, Debug)]
pub struct ScheduleView {
    /// The schedule.
    pub id: ScheduleId,
    /// The live release that names it.
    pub release: Arc<Release>,
    /// The next instant; none while it is paused.
    pub next: Option<Timestamp>,
    /// Every instant up to here is decided.
    pub decided_to: Timestamp,
    /// Since when it is paused.
    pub paused_at: Option<Timestamp>,
    /// Who paused it.
    pub paused_by: Option<String>,
    /// What became of its latest instant.
    pub latest: Option<TickView>,
}

/// Which instant is fired by hand.
#[derive(Clone, Debug)]
pub enum Moment {
    /// One that the schedule names.
    At(Timestamp),
    /// The present, which the schedule need not name, under a key of the caller's.
    Now(String),
}

/// An instant that was fired by hand.
#[derive(Clone, Debug)]
pub struct Fired {
    /// The instant, where the schedule names it.
    pub nominal: Option<Timestamp>,
    /// Its run.
    pub run: RunId,
    /// The run's key.
    pub key: Key,
    /// Whether it had its run before.
    pub replayed: bool,
}

/// Why a schedule is not paused or resumed.
#[derive(Debug, thiserror::Error)]
pub enum PauseError {
    /// The flow has no live schedule.
    #[error("the flow has no live schedule")]
    Unknown,
    /// What was due before the pause cannot be decided now.
    #[error("the schedule cannot be decided now")]
    NotNow,
    /// The reason cannot be recorded; nothing was done.
    #[error(transparent)]
    Reason(#[from] ReasonError),
    /// The database did not answer in time.
    #[error("the schedule could not be changed")]
    Unavailable(#[from] ReadError),
}

/// Why an instant is not fired.
#[derive(Debug, thiserror::Error)]
pub enum FireError {
    /// The flow has no live schedule.
    #[error("the flow has no live schedule")]
    Unknown,
    /// The schedule does not name this instant.
    #[error("the schedule does not name {at}")]
    NotNamed {
        /// The instant.
        at: Timestamp,
        /// The first that it names after it.
        next: Option<Timestamp>,
    },
    /// The key is none.
    #[error("the key cannot be used: {0}")]
    Key(String),
    /// It could not be accepted.
    #[error(transparent)]
    Intake(#[from] IntakeError),
    /// The database did not answer in time.
    #[error("the schedule could not be read")]
    Unavailable(#[from] ReadError),
}

impl Runtime {
    /// Lists the live schedules of a namespace, by flow.
    pub async fn list_schedules(
        self: &Arc<Self>,
        namespace_id: i32,
    ) -> Result<Vec<ScheduleView>, ReadError> {
        self.catalogue.refresh().await?;
        let (_, mut releases) = self.catalogue.all_live();
        releases.retain(|release| {
            release.namespace_id == namespace_id && release.flow.trigger.schedule.is_some()
        });
        releases.sort_by(|one, other| one.flow.name.cmp(&other.flow.name));
        let cell = self.cell.for_people();
        let rows = schedules::list_of_namespace(cell.every(), namespace_id).await?;
        let rows: HashMap<_, Schedule> = rows.into_iter().map(|row| (row.id, row)).collect();
        let id = |release: &Release| ScheduleId::derive(&release.namespace, &release.flow.name);
        let ids: Vec<ScheduleId> = releases.iter().map(|release| id(release)).collect();
        let latest = schedules::list_latest(self.cell.every(), &ids).await?;
        let mut latest: HashMap<ScheduleId, TickView> = latest.into_iter().collect();
        let views = releases.into_iter().zip(ids);
        Ok(views
            .map(|(release, id)| self.view(release, id, rows.get(&id), latest.remove(&id)))
            .collect())
    }

    /// The live schedule of a flow.
    pub async fn find_schedule(
        self: &Arc<Self>,
        namespace_id: i32,
        flow: &FlowName,
    ) -> Result<Option<ScheduleView>, ReadError> {
        self.catalogue.refresh().await?;
        let live = self.catalogue.find_flow(namespace_id, flow);
        let live = live.filter(|live| live.flow.trigger.schedule.is_some());
        let Some(release) = live else { return Ok(None) };
        let id = ScheduleId::derive(&release.namespace, flow);
        let cell = self.cell.for_people();
        let row = schedules::find(cell.of(id), id).await?;
        let mut latest = schedules::list_latest(cell.every(), &[id]).await?;
        let latest = latest.pop().map(|(_, tick)| tick);
        Ok(Some(self.view(release, id, row.as_ref(), latest)))
    }

    fn view(
        self: &Arc<Self>,
        release: Arc<Release>,
        id: ScheduleId,
        row: Option<&Schedule>,
        latest: Option<TickView>,
    ) -> ScheduleView {
        let paused_at = row.and_then(|row| row.paused_at);
        let decided_to = row.map_or_else(|| self.clock.now(), |row| row.decided_to);
        let declared = release.flow.trigger.schedule.as_ref();
        let next = declared.and_then(|declared| declared.recurrence.next_after(decided_to));
        ScheduleView {
            id,
            next: next.filter(|_| paused_at.is_none()),
            decided_to,
            paused_at,
            paused_by: row.and_then(|row| row.paused_by.clone()),
            latest,
            release,
        }
    }

    /// Pauses a schedule: its instants start nothing until it is resumed. False where it was
    /// paused before.
    pub async fn pause_schedule(
        self: &Arc<Self>,
        by: Actor<'_>,
        namespace: &NamespaceName,
        flow: &FlowName,
        reason: Option<&str>,
    ) -> Result<bool, PauseError> {
        let (_, id, act) = self
            .prepare_schedule_act(by, "schedule.pause", namespace, flow, reason)
            .await?;
        Ok(schedules::pause(self.cell.of(id), id, by.actor, &act).await?)
    }

    /// Finds a live schedule, and makes the audit record of an action on it.
    pub(super) async fn prepare_schedule_act(
        self: &Arc<Self>,
        by: Actor<'_>,
        action: &'static str,
        namespace: &NamespaceName,
        flow: &FlowName,
        reason: Option<&str>,
    ) -> Result<(Live, ScheduleId, AuditEntry), PauseError> {
        let id = ScheduleId::derive(namespace, flow);
        let live = Live::current(self).await?;
        live.find(id).ok_or(PauseError::Unknown)?;
        let act = by.act(action, flow.as_str());
        let act = match reason {
            Some(reason) => act.because(reason)?,
            None => act,
        };
        Ok((live, id, act))
    }

    /// Starts the run of an instant by hand. An instant that has its run keeps it, and a later tick
    /// of the same instant finds it.
    pub async fn fire_schedule(
        self: &Arc<Self>,
        by: Actor<'_>,
        namespace: &NamespaceName,
        flow: &FlowName,
        moment: &Moment,
    ) -> Result<Fired, FireError> {
        let id = ScheduleId::derive(namespace, flow);
        let live = Live::current(self).await?;
        let release = live.find(id).ok_or(FireError::Unknown)?;
        let fired = match moment {
            Moment::At(at) => self.fire_named(by, id, release, *at).await?,
            Moment::Now(key) => self.fire_now(by, release, key).await?,
        };
        Ok(fired)
    }

    /// Accepts the run of an instant that is fired by hand. The writer that all deliveries share
    /// makes the run, so the audit record comes first, and the run's own journal names who fired
    /// it.
    async fn accept_fired(
        self: &Arc<Self>,
        by: Actor<'_>,
        release: &Arc<Release>,
        nominal: Timestamp,
        key: &Key,
    ) -> Result<(RunId, bool), FireError> {
        let (namespace, flow) = (&release.namespace, &release.flow.name);
        let claim = ClaimId::derive_in(KeySpace::Schedule, namespace, flow, key);
        if claims::find(self.cell.of(claim), claim).await?.is_none() {
            audit::begin(self.cell.of(claim), &by.act("schedule.fire", &key.text())).await?;
        }
        let release = release.clone();
        let taken = self
            .receive_tick(release, nominal, key.clone(), Some(by.name()), None)
            .await?;
        Ok(accepted(taken)?)
    }

    async fn fire_named(
        self: &Arc<Self>,
        by: Actor<'_>,
        id: ScheduleId,
        release: &Arc<Release>,
        at: Timestamp,
    ) -> Result<Fired, FireError> {
        let (flow, namespace) = (&release.flow, &release.namespace);
        let key = tick_key(&flow.name, at);
        // An instant that has its run keeps it, even if the live release no longer names it.
        let run = match schedules::find_fired(self.cell.of(id), id, at).await? {
            Some(run) => Some(run),
            None => {
                let expected = expected_run(namespace, &flow.name, at);
                let known = runs::find_snapshot(self.cell.of(expected), expected).await?;
                known.map(|snapshot| snapshot.run)
            }
        };
        let declared = flow.trigger.schedule.as_ref().ok_or(FireError::Unknown)?;
        if run.is_none() && !declared.recurrence.names(at) {
            let next = declared.recurrence.next_after(at);
            return Err(FireError::NotNamed { at, next });
        }
        let (run, replayed) = match run {
            Some(run) => (run, true),
            None => {
                let taken = self.accept_fired(by, release, at, &key).await?;
                semel_steps::failpoint::failpoint("tick.accepted", &key.text()).await;
                taken
            }
        };
        let tick = Tick {
            nominal: at,
            last: at,
            instants: 1,
            verdict: TickVerdict::Fired {
                run,
                by: Some(by.actor.to_owned()),
            },
        };
        schedules::record(self.cell.of(id), id, &tick).await?;
        Ok(Fired {
            nominal: Some(at),
            run,
            key,
            replayed,
        })
    }

    async fn fire_now(
        self: &Arc<Self>,
        by: Actor<'_>,
        release: &Arc<Release>,
        key: &str,
    ) -> Result<Fired, FireError> {
        let (nominal, _) = schedules::look(&self.cell).await?;
        let text = format!("{}@now/{key}", release.flow.name);
        let key = Key::new(text.into_bytes()).map_err(|error| FireError::Key(error.to_string()))?;
        let (run, replayed) = self.accept_fired(by, release, nominal, &key).await?;
        Ok(Fired {
            nominal: None,
            run,
            key,
            replayed,
        })
    }
}

fn accepted(taken: Intake) -> Result<(RunId, bool), IntakeError> {
    match taken {
        Intake::Accepted(accepted) | Intake::Held(accepted) => {
            Ok((accepted.run, accepted.replayed))
        }
        Intake::Ignored | Intake::Stale(_) => {
            Err(IntakeError::KeyFailed("the tick starts nothing".to_owned()))
        }
    }
}
