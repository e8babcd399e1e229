//! Amending: a person corrects what a person said that an effect gave.
//!
//! Only a run that stopped can be corrected, and only while nobody has used the wrong word: a step
//! that read it and did something rests on it for good. The correction and the run's going on are
//! one commit.

use semel_flow::Flow;
use semel_model::effect::{State, Witness};
use semel_model::event::Event;
use semel_model::{EffectId, RunId, run};
use semel_store::runs::{Amended, RunView};
use semel_store::{effects, flows, journal, runs};
use serde_json::Value;

use super::SettleError;
use super::said::derive_id;
use crate::connections::By;
use crate::engine::Engine;

/// What a person says that an effect gave after all.
#[derive(Clone, Debug)]
pub struct Amendment {
    /// The destination's identity for what was made; as it was, or as the result tells, when
    /// absent.
    pub external_id: Option<String>,
    /// The step's result.
    pub result: Value,
    /// Why, as it stands on the record.
    pub reason: String,
}

impl Engine {
    /// Corrects what a person said that an effect gave, and lets its run go on. When this returns,
    /// both are committed.
    ///
    /// # Errors
    ///
    /// Where a person did not say it, the run did not stop, or somebody has used it.
    pub async fn amend(
        &self,
        by: By<'_>,
        effect: EffectId,
        amendment: &Amendment,
    ) -> Result<RunId, SettleError> {
        let cell = &self.inner.cell;
        let unavailable =
            |error: semel_store::ReadError| SettleError::Unavailable(error.to_string());
        let act = by.act("effect.amend", &effect.to_string());
        let act = act.because(&amendment.reason)?;
        let found = effects::find(cell, by.namespace_id, effect).await;
        let view = found.map_err(unavailable)?.ok_or(SettleError::Unknown)?;
        if view.state != State::Done {
            return Err(not(format!("the effect is {}, not done", view.state)));
        }
        let run = runs::find(cell, by.namespace_id, view.run).await;
        let run = run.map_err(unavailable)?.ok_or(SettleError::Unknown)?;
        has_stopped(&run)?;
        let flow = self.flow_of(by.namespace_id, &run).await?;
        let lines = journal::read(cell, run.born, run.id).await;
        let lines = lines.map_err(unavailable)?;
        let events = lines.iter().filter_map(|line| line.read().ok()).flatten();
        is_unused(&flow, &view.step, events)?;
        let external_id = amendment.external_id.clone();
        let external_id = external_id.or_else(|| derive_id(&flow, &view.step, &amendment.result));
        let events = [
            Event::Amended {
                step: view.step,
                external_id: external_id.clone(),
                result: amendment.result.clone(),
            },
            Event::Resumed {
                reason: amendment.reason.trim().to_owned(),
                by: Some(by.actor.to_owned()),
                asks_again: false,
            },
        ];
        let id = external_id.as_deref().map(|text| text.replace('\0', ""));
        let last = lines.last().map_or(0, |line| line.seq);
        let amended = Amended {
            run: run.id,
            effect,
            external_id: id.as_deref(),
            seq: last,
        };
        let act = act.about(run.id);
        let done = runs::amend(cell, &amended, &events, &act).await;
        match done.map_err(unavailable)? {
            true => {
                self.inner.wake.notify_one();
                Ok(run.id)
            }
            false => Err(SettleError::Busy),
        }
    }

    async fn flow_of(&self, namespace_id: i32, run: &RunView) -> Result<Flow, SettleError> {
        let unavailable =
            |error: semel_store::ReadError| SettleError::Unavailable(error.to_string());
        let cell = &self.inner.cell;
        let found = runs::find_release(cell, namespace_id, run.id).await;
        let (release, _) = found.map_err(unavailable)?.ok_or(SettleError::Unknown)?;
        let release = flows::find_release(cell, release).await;
        let release = release.map_err(unavailable)?.ok_or(SettleError::Unknown)?;
        semel_flow::load(&release.source)
            .ok_or_else(|| not("the run's release cannot be read by this build".to_owned()))
    }
}

fn not(why: String) -> SettleError {
    SettleError::NotAmendable(why)
}

fn has_stopped(run: &RunView) -> Result<(), SettleError> {
    match (run.state, run.parent) {
        (run::State::Failed, Some(parent)) => Err(not(format!(
            "its run is a part of {parent}, which goes on only as a whole"
        ))),
        (run::State::Failed | run::State::NeedsReview | run::State::Quarantined, _) => Ok(()),
        (run::State::Active, _) => Err(not("its run is under way".to_owned())),
        (run::State::InDoubt, _) => Err(not("its run waits for another doubt".to_owned())),
        (run::State::Succeeded, _) => Err(not("its run has succeeded with it".to_owned())),
        (run::State::Cancelled, _) => Err(not("its run was cancelled".to_owned())),
    }
}

/// Whether a person said what the step gave, and nobody has done anything with it since.
fn is_unused(
    flow: &Flow,
    step: &str,
    events: impl Iterator<Item = Event>,
) -> Result<(), SettleError> {
    let readers = flow.reads_of(step);
    let mut said = false;
    for event in events {
        match &event {
            Event::Done { step: done, by, .. } if done == step => said = *by == Witness::Person,
            _ if !said => {}
            event => {
                let user = acted(event).filter(|user| readers.all().any(|reader| reader == *user));
                if let Some(user) = user {
                    return Err(not(format!("the step `{user}` has used it")));
                }
            }
        }
    }
    match said {
        true => Ok(()),
        false => Err(not("no person said what it gave".to_owned())),
    }
}

/// The step that did something, or decided not to, with what it read.
fn acted(event: &Event) -> Option<&str> {
    match event {
        Event::Computed { step, .. }
        | Event::Skipped { step }
        | Event::Intended { step, .. }
        | Event::Started { step, .. }
        | Event::Switched { step, .. }
        | Event::FanOpened { step }
        | Event::WaitOpened { step, .. }
        | Event::ApprovalOpened { step, .. } => Some(step),
        Event::Accepted { .. }
        | Event::Held { .. }
        | Event::Admitted { .. }
        | Event::Joined { .. }
        | Event::Begun { .. }
        | Event::FanLoaded { .. }
        | Event::FanStopped { .. }
        | Event::FanEnded { .. }
        | Event::Undoing { .. }
        | Event::ReadFailed { .. }
        | Event::Broken { .. }
        | Event::Done { .. }
        | Event::Failed { .. }
        | Event::Doubted { .. }
        | Event::Probed { .. }
        | Event::Licensed { .. }
        | Event::WaitEnded { .. }
        | Event::ApprovalTold { .. }
        | Event::ApprovalDecided { .. }
        | Event::ApprovalElapsed { .. }
        | Event::Parked { .. }
        | Event::Resumed { .. }
        | Event::Amended { .. }
        | Event::Ended { .. } => None,
    }
}
