//! A rehearsal: a schema, the plain examples, their cases, and the verdicts.

mod examples;
mod timelines;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use semel_engine::{Options, Secret};
use semel_flow::release::Ask;
use semel_flow::{CheckContext, Example, Flow, KnownConnection};
use semel_model::id::digest;
use semel_model::{Connection, Span};
use semel_steps::resources::ResourcesInMemory;
use semel_store::rehearsals::{self, StagedFlow};
use semel_store::{Cell, migrate};
use tokio::sync::Mutex;

use crate::case::other_triggers;
use crate::connections::stage_connections;
use crate::error::RehearseError;
use crate::fault::{FaultClass, RehearsedFault};
use crate::plan;
use crate::play::{Played, Setting, play};
use crate::report::{CaseReport, CaseVerdict, Report};
use crate::verdict;
use timelines::timelines;

pub(crate) use examples::select_examples;

/// How many cases are played at once.
const CASES_AT_ONCE: usize = 300;

/// How long a rehearsal may take in all.
const REHEARSAL_MAX: Duration = Duration::from_secs(600);

/// What is rehearsed.
#[derive(Clone, Debug)]
pub struct Subject {
    /// What the author calls the file, for the commands that a report prints.
    pub file: String,
    /// Its text.
    pub source: String,
    /// The flows that it calls.
    pub called: Vec<StagedFlow>,
    /// The connections of its namespace.
    pub connections: BTreeMap<String, Connection>,
}

/// Which cases are played.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Only this example.
    pub example: Option<String>,
    /// Only this fault, or this class of faults.
    pub fault: Option<String>,
    /// What the order of the cases is made from.
    pub seed: u64,
}

/// How far a rehearsal is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many cases were begun.
    pub done: usize,
    /// How many there are, as far as that is known.
    pub total: usize,
}

/// Rehearses a flow in a schema of its own.
///
/// # Errors
///
/// Where there is nothing to rehearse, or the database does not answer.
///
/// Boxed in a function that is no coroutine: so its code is compiled once, in this crate, and not
/// again in every crate that awaits it.
pub fn rehearse<'a>(
    live: &'a Cell,
    options: &'a Options,
    subject: &'a Subject,
    selection: &'a Selection,
    progress: &'a (dyn Fn(Progress) + Send + Sync),
) -> BoxFuture<'a, Result<Report, RehearseError>> {
    Box::pin(rehearse_here(live, options, subject, selection, progress))
}

async fn rehearse_here(
    live: &Cell,
    options: &Options,
    subject: &Subject,
    selection: &Selection,
    progress: &(dyn Fn(Progress) + Send + Sync),
) -> Result<Report, RehearseError> {
    let begun = Instant::now();
    let flow = check(subject)?;
    let examples = select_examples(subject, selection)?;
    let created = rehearsals::create_schema(live).await;
    let schema = created.map_err(RehearseError::Create)?;
    let stage = Stagehand {
        subject,
        selection,
        flow: Arc::new(flow),
        examples,
        progress,
    };
    let played = stage.rehearse_in(live, options, &schema).await;
    let dropped = rehearsals::drop_schema(live, &schema).await;
    if let Err(error) = dropped {
        tracing::warn!(%error, schema = schema.as_str(), "a rehearsal's schema is left; a later rehearsal drops it");
    }
    let mut report = played?;
    report.took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(report)
}

/// The flow that is rehearsed, as its connections make it.
pub(crate) fn check(subject: &Subject) -> Result<Flow, RehearseError> {
    let known = subject.connections.iter().map(|(name, connection)| {
        let known = KnownConnection {
            key_window: connection.idempotency_keys.window,
            kind: Some(connection.kind()),
        };
        (name.clone(), known)
    });
    let context = CheckContext {
        connections: known.collect(),
        unknown: None,
    };
    let checked = semel_flow::check_with(&subject.file, &subject.source, &context);
    match checked.flow {
        Some(flow) => Ok(flow),
        None => Err(RehearseError::Invalid(checked.render(false))),
    }
}

struct Stagehand<'a> {
    subject: &'a Subject,
    selection: &'a Selection,
    flow: Arc<Flow>,
    examples: Vec<Arc<Example>>,
    progress: &'a (dyn Fn(Progress) + Send + Sync),
}

impl Stagehand<'_> {
    async fn rehearse_in(
        &self,
        live: &Cell,
        options: &Options,
        schema: &rehearsals::RehearsalSchema,
    ) -> Result<Report, RehearseError> {
        let cell = live.in_schema(schema);
        migrate(&cell).await.map_err(RehearseError::Schema)?;
        rehearsals::start_clock(&cell).await?;
        let mut notes = Vec::new();
        notes.extend(other_triggers(&self.flow));
        let setting = Setting {
            live: live.clone(),
            schema: schema.clone(),
            cell,
            options: staged_options(options)?,
            flow: self.flow.clone(),
            flows: self.staged_flows(),
            connections: stage_connections(
                &self.flow,
                (&self.subject.called, &self.subject.connections),
                &mut notes,
            ),
            probed: Arc::new(self.probed()),
            hall: Arc::default(),
            deadline: tokio::time::Instant::now() + REHEARSAL_MAX,
            process: Mutex::default(),
        };
        let plain = self.play_plain(&setting).await?;
        let timelines = match self.selection.fault.as_deref() == Some(FaultClass::None.as_str()) {
            true => timelines(&setting, &plain).await?,
            false => Vec::new(),
        };
        let cases = self.play_cases(&setting, &plain).await?;
        let report = self.report(&plain, &cases, notes);
        Ok(Report {
            timelines,
            ..report
        })
    }

    async fn play_plain(&self, setting: &Setting) -> Result<Vec<Played>, RehearseError> {
        let none = RehearsedFault::of(FaultClass::None);
        let plans = self.examples.iter().map(|one| (one.clone(), none.clone()));
        let plans: Vec<_> = plans.collect();
        let names = (0..plans.len()).map(|place| format!("plain-{place}"));
        play(setting, names.collect(), plans, &|_| {}).await
    }

    async fn play_cases(
        &self,
        setting: &Setting,
        plain: &[Played],
    ) -> Result<Vec<Played>, RehearseError> {
        let plans = self.select(plain.iter().flat_map(|one| plan::cases(&self.flow, one)));
        let mut played = self.play_all(setting, plans, 0).await?;
        // What can go wrong while a run undoes what it did shows only where it does.
        let undoing = self.select(plan::undo_cases(&played).into_iter());
        let before = played.len();
        played.extend(self.play_all(setting, undoing, before).await?);
        match &self.selection.fault {
            Some(filter) if *filter == FaultClass::None.as_str() => Ok(played),
            Some(filter) if !played.iter().any(|one| one.case.fault.matches(filter)) => {
                Err(RehearseError::UnknownFault(filter.clone()))
            }
            Some(_) | None => Ok(played),
        }
    }

    /// Plays cases, after so many others.
    async fn play_all(
        &self,
        setting: &Setting,
        plans: Vec<(Arc<Example>, RehearsedFault)>,
        before: usize,
    ) -> Result<Vec<Played>, RehearseError> {
        let total = before + plans.len();
        let order = shuffled(plans.len(), self.selection.seed);
        let mut played = Vec::with_capacity(plans.len());
        for places in order.chunks(CASES_AT_ONCE) {
            let batch = places.iter().map(|place| plans[*place].clone()).collect();
            let done_before = before + played.len();
            // By its place in the plan, from which its keys are derived: the seed decides the order alone.
            let names = places
                .iter()
                .map(|place| format!("case-{}", before + place));
            let report = |done| {
                let done = done_before + done;
                (self.progress)(Progress { done, total });
            };
            played.extend(play(setting, names.collect(), batch, &report).await?);
        }
        let mut placed: Vec<_> = order.into_iter().zip(played).collect();
        placed.sort_by_key(|(place, _)| *place);
        Ok(placed.into_iter().map(|(_, played)| played).collect())
    }

    /// The cases that are asked for, and those that they are compared with.
    fn select(
        &self,
        plans: impl Iterator<Item = (Arc<Example>, RehearsedFault)>,
    ) -> Vec<(Arc<Example>, RehearsedFault)> {
        let mut plans: Vec<_> = plans.collect();
        let Some(filter) = &self.selection.fault else {
            return plans;
        };
        let compares = filter.starts_with(FaultClass::SecondIntent.as_str());
        let refuses = self.flow.undoes && RehearsedFault::needs_refusals(filter);
        plans.retain(|(_, fault)| {
            let compared = compares && fault.class == FaultClass::AnswerLostBefore;
            let refused = refuses && fault.class == FaultClass::EffectRefused;
            fault.matches(filter) || compared || refused
        });
        plans
    }

    fn report(&self, plain: &[Played], cases: &[Played], mut notes: Vec<String>) -> Report {
        let flow = &self.flow;
        let judged = |one: &Played| {
            let compared = compared_with(one, plain, cases)?;
            Some(verdict::judge(flow, compared, one))
        };
        let mut reports: Vec<CaseReport> = cases.iter().filter_map(judged).collect();
        for (index, violation) in verdict::compare_intents(cases) {
            if let Some(report) = reports.get_mut(index) {
                report.verdict = CaseVerdict::Violated;
                report.violations.push(violation);
            }
        }
        let missed = cases.iter().filter(|one| {
            let strikes = one.case.fault.at.is_some();
            strikes && !one.case.stage.log().used
        });
        notes.extend(missed.map(|one| {
            let example = &one.case.example.name;
            format!("{example}: the run did not come to {}", one.case.fault)
        }));
        let mut all: Vec<CaseReport> = plain.iter().filter_map(judged).collect();
        all.append(&mut reports);
        all.iter_mut().for_each(|case| self.say_how_to_repeat(case));
        Report {
            flow: flow.name.to_string(),
            digest: flow.digest().to_string(),
            seed: self.selection.seed,
            passed: all.iter().all(|case| case.verdict != CaseVerdict::Violated),
            examples: self.examples.iter().map(|one| one.name.clone()).collect(),
            cases: all,
            timelines: Vec::new(),
            notes,
            took_ms: 0,
        }
    }

    fn say_how_to_repeat(&self, case: &mut CaseReport) {
        if case.verdict == CaseVerdict::Violated {
            let (file, example, fault) = (&self.subject.file, &case.example, &case.fault);
            let seed = match self.selection.seed {
                0 => String::new(),
                seed => format!(" --seed {seed}"),
            };
            case.repeat = Some(format!(
                "semel rehearse '{file}' --example {example} --fault '{fault}'{seed}"
            ));
        }
    }

    fn staged_flows(&self) -> Vec<StagedFlow> {
        let own = StagedFlow {
            name: self.flow.name.to_string(),
            digest: self.flow.digest().to_string(),
            source: self.subject.source.clone(),
        };
        std::iter::once(own)
            .chain(self.subject.called.iter().cloned())
            .collect()
    }

    fn probed(&self) -> BTreeSet<String> {
        let steps = self.flow.steps.iter();
        let probed = steps.filter(|step| {
            let probe = step.guard.probe();
            probe.is_some_and(|probe| probe.ask != Ask::Marker)
        });
        probed.map(|step| step.id.to_string()).collect()
    }
}

/// What a case is compared with: the same example without a fault, or with the refusal alone.
fn compared_with<'a>(one: &Played, plain: &'a [Played], cases: &'a [Played]) -> Option<&'a Played> {
    let same = |other: &&Played| other.case.example.name == one.case.example.name;
    match &one.case.fault.refused {
        None => plain.iter().find(same),
        Some(spot) => {
            let alone = RehearsedFault::at(FaultClass::EffectRefused, spot.clone());
            cases
                .iter()
                .filter(same)
                .find(|other| other.case.fault == alone)
        }
    }
}

/// The places of so many cases in an order that the seed decides; for 0, as they are.
fn shuffled(count: usize, seed: u64) -> Vec<usize> {
    let mut places: Vec<usize> = (0..count).collect();
    if seed != 0 {
        places.sort_by_cached_key(|place| {
            let words = [seed.to_be_bytes(), (*place as u64).to_be_bytes()].concat();
            digest("rehearsal order", &[&words])
        });
    }
    places
}

/// The least lease of its processes. They renew it by real time: on a busy machine a shorter one would be over
/// while a process is alive, and what is taken over from it is another case than the one that was to be played.
const LEASE_MIN: Span = Span::from_const_secs(120);

/// How many runs one of its processes carries, on small servers and on large ones.
const CAPACITY: usize = 1_024;

/// What the engine of a rehearsal is started with: a secret of its own, so that its addresses open
/// nothing that is live.
fn staged_options(live: &Options) -> Result<Options, RehearseError> {
    let fresh = Options::new(Secret::from_hex(&Secret::generate())?);
    Ok(Options {
        process: format!("{} (rehearsal)", live.process),
        lease: live.lease.max(LEASE_MIN),
        capacity: CAPACITY,
        settle_margin: live.settle_margin,
        // A request that missed the stage would arrive where live ones do: a test listens there.
        allow_private: live.allow_private.clone(),
        // As the server does, and where none of it outlives the rehearsal. All its processes share it.
        resources: match live.resources.is_on() {
            true => Arc::new(ResourcesInMemory::default()),
            false => fresh.resources.clone(),
        },
        ..fresh
    })
}
