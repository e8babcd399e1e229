//! Amending: an operator corrects the result that an operator gave when settling an effect.
//!
//! Only a run that stopped can be corrected, and only while no step has used the wrong result: a
//! step that read it and acted cannot be corrected any more. The correction and the resumption of
//! the run are one commit.

use std::sync::Arc;

use semel_flow::Flow;
use semel_model::effect::{ConfirmedBy, EffectState};
use semel_model::event::{Event, NameEvent, ResultAmendment};
use semel_model::{EffectId, RunId, run};
use semel_store::named_effects::{NameNotice, NameOutcome, NamedResult};
use semel_store::runs::{Amended, RunView};
use semel_store::{effects, flows, journal, runs};
use serde_json::Value;

use super::operator_result::derive_id;
use super::settle::SettleError;
use crate::commands::connection::Actor;
use crate::runtime::Runtime;
use crate::turn::notice;

/// The corrected result of an effect.
#[derive(Clone, Debug)]
pub struct Amendment {
    /// The destination's identity for what was made; as it was, or as the result tells, when
    /// absent.
    pub external_id: Option<String>,
    /// The step's result.
    pub result: Value,
    /// Why, for the audit log.
    pub reason: String,
}

impl Runtime {
    /// Corrects the result that an operator gave an effect, and resumes its run. When this returns,
    /// both are committed.
    ///
    /// # Errors
    ///
    /// Where the result is not an operator's, the run did not stop, or a step has used the result.
    pub async fn amend(
        self: &Arc<Self>,
        by: Actor<'_>,
        effect: EffectId,
        amendment: &Amendment,
    ) -> Result<RunId, SettleError> {
        let cell = &self.cell;
        let act = by.act("effect.amend", &effect.to_string());
        let act = act.because(&amendment.reason)?;
        let found = effects::find(cell.of(effect), by.namespace_id, effect).await;
        let view = found?.ok_or(SettleError::Unknown)?;
        if view.state != EffectState::Done {
            return Err(not(format!("the effect is {}, not done", view.state)));
        }
        let run = runs::find(cell.of(view.run), by.namespace_id, view.run).await;
        let run = run?.ok_or(SettleError::Unknown)?;
        has_stopped(&run)?;
        let flow = self.flow_of(by.namespace_id, &run).await?;
        let lines = journal::read(cell.of(run.id), run.partition_date, run.id).await?;
        let mut happened = Vec::new();
        for line in &lines {
            let events = line.read();
            let unread = |_| not("its journal cannot be read by this build".to_owned());
            happened.extend(events.map_err(unread)?);
        }
        let step = view.step;
        is_unused(&flow, &step, &happened)?;
        let external_id = amendment.external_id.clone();
        let external_id = external_id.or_else(|| derive_id(&flow, &step, &amendment.result));
        let events = [
            Event::Amended(ResultAmendment {
                step: step.clone(),
                external_id: external_id.clone(),
                result: amendment.result.clone(),
            }),
            Event::Resumed {
                reason: amendment.reason.trim().to_owned(),
                by: Some(by.actor.to_owned()),
                asks_again: false,
            },
        ];
        let last = lines.last().map_or(0, |line| line.seq);
        let corrected = NamedResult {
            result: Some(amendment.result.clone()),
            external_id: external_id.clone(),
        };
        let notice = name_notice(&step, &happened, corrected);
        let amended = Amended {
            run: run.id,
            effect,
            external_id: external_id.as_deref(),
            seq: last,
            keep: flow.keep,
            namespace_id: by.namespace_id,
            notice: notice.as_ref(),
        };
        let act = act.about(run.id);
        let done = runs::amend(cell.of(amended.run), &amended, &events, &act).await;
        match done? {
            true => {
                self.signals.wake.notify_one();
                // It is committed: what is not delivered now, name repair delivers.
                if let Some(notice) = notice
                    && let Err(error) = notice::deliver(self, run.id, notice.name, "").await
                {
                    tracing::warn!(%error, run.id = %run.id,
                        "failed to update a named effect; name repair retries");
                }
                Ok(run.id)
            }
            false => Err(SettleError::Busy),
        }
    }

    async fn flow_of(
        self: &Arc<Self>,
        namespace_id: i32,
        run: &RunView,
    ) -> Result<Flow, SettleError> {
        let cell = &self.cell;
        let found = runs::find_release(cell.of(run.id), namespace_id, run.id).await;
        let (release, _) = found?.ok_or(SettleError::Unknown)?;
        let release = flows::find_release(cell.home(), release).await;
        let release = release?.ok_or(SettleError::Unknown)?;
        semel_flow::load(&release.source)
            .ok_or_else(|| not("the run's release cannot be read by this build".to_owned()))
    }
}

/// What the named effect of a step is told, where the step has a business key under which this run
/// performed it: other runs reuse the corrected result from then on.
fn name_notice(step: &str, events: &[Event], corrected: NamedResult) -> Option<NameNotice> {
    let (mut asked, mut hold) = (None, None);
    for event in events {
        let Event::Named { step: at, named } = event else {
            continue;
        };
        match named {
            NameEvent::Asked {
                name, generation, ..
            } if at == step => (asked, hold) = (Some((*name, *generation)), None),
            NameEvent::Held { token, .. } if at == step => hold = Some(*token),
            NameEvent::Asked { .. }
            | NameEvent::Held { .. }
            | NameEvent::Waiting { .. }
            | NameEvent::Reused { .. }
            | NameEvent::Undoing { .. }
            | NameEvent::Shared { .. }
            | NameEvent::Left => {}
        }
    }
    let ((name, generation), token) = (asked?, hold?);
    Some(NameNotice {
        name,
        step: step.to_owned(),
        generation,
        token: Some(token),
        outcome: NameOutcome::Amended(corrected),
    })
}

fn not(why: String) -> SettleError {
    SettleError::NotAmendable(why)
}

fn has_stopped(run: &RunView) -> Result<(), SettleError> {
    match (run.state, run.parent) {
        (run::RunState::Failed, Some(parent)) => Err(not(format!(
            "its run is a child of {parent}, which can only be resumed as a whole"
        ))),
        (run::RunState::Failed | run::RunState::NeedsReview | run::RunState::Quarantined, _) => {
            Ok(())
        }
        (run::RunState::Active, _) => Err(not("its run has not stopped".to_owned())),
        (run::RunState::InDoubt, _) => Err(not("its run waits for another doubt".to_owned())),
        (run::RunState::Succeeded, _) => Err(not("its run has succeeded with it".to_owned())),
        (run::RunState::Cancelled, _) => Err(not("its run was cancelled".to_owned())),
        (run::RunState::Superseded, _) => Err(not("its run was superseded".to_owned())),
    }
}

/// Whether the step's result is an operator's, and no step has used it since.
fn is_unused(flow: &Flow, step: &str, events: &[Event]) -> Result<(), SettleError> {
    let readers = flow.reads_of(step);
    let mut said = false;
    for event in events {
        if let Event::Done { step: done, by, .. } = event
            && done == step
        {
            said = *by == ConfirmedBy::Operator;
        } else if said
            && let Some(user) = acted(event)
            && readers.all().any(|reader| reader == user)
        {
            return Err(not(format!("the step `{user}` has used it")));
        } else if said
            && let Event::FanOpened { step: fan } = event
            && let Some(reader) = readers.all().find(|reader| is_inside(flow, reader, fan))
        {
            let why = format!("the step `{reader}` of a child run of `{fan}` may have used it");
            return Err(not(why));
        }
    }
    match said {
        true => Ok(()),
        false => Err(not("its result is not an operator's".to_owned())),
    }
}

/// Whether a step is done by the child runs of another one, which have journals of their own.
fn is_inside(flow: &Flow, step: &str, fan: &str) -> bool {
    let place = |id: &str| flow.steps.iter().position(|step| step.id.as_str() == id);
    let (Some(step), Some(fan)) = (flow.find_step(step), place(fan)) else {
        return false;
    };
    let mut around = std::iter::successors(step.inside, |(holder, _)| {
        flow.steps.get(*holder).and_then(|holder| holder.inside)
    });
    around.any(|(holder, _)| holder == fan)
}

/// The step that acted, or decided not to, by what it read.
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
        | Event::GateWaiting(_)
        | Event::Admitted { .. }
        | Event::Joined { .. }
        | Event::Begun(_)
        | Event::Follows(_)
        | Event::Inherited { .. }
        | Event::Reused { .. }
        | Event::TakenOver { .. }
        | Event::Named { .. }
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
        | Event::Stopped { .. }
        | Event::Resumed { .. }
        | Event::Deferred(_)
        | Event::OperatorStep(_)
        | Event::Amended(_)
        | Event::Ended { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTED: &str = "flow: charging\ntrigger: { api: {} }\nsteps:\n\
        \x20 - id: charge\n    guard: review\n    http: { post: 'https://bank.example/c' }\n\
        \x20 - id: idle\n    foreach:\n      in: input.items\n      key: item\n      steps:\n\
        \x20       - { id: nothing, function: item }\n\
        \x20 - id: each\n    foreach:\n      in: input.items\n      key: item\n      steps:\n\
        \x20       - { id: bill, function: steps.charge.result.id }\n";

    fn said() -> Event {
        Event::Done {
            step: "charge".to_owned(),
            by: ConfirmedBy::Operator,
            external_id: None,
            status: None,
            result: Value::Null,
        }
    }

    fn opened(fan: &str) -> Event {
        Event::FanOpened {
            step: fan.to_owned(),
        }
    }

    #[test]
    fn a_part_that_reads_it_has_used_it_whatever_its_own_journal_says() {
        let flow = semel_flow::load(PARTED).unwrap();

        let unused = is_unused(&flow, "charge", &[said(), opened("idle")]);
        let used = is_unused(&flow, "charge", &[said(), opened("idle"), opened("each")]);

        assert!(unused.is_ok(), "{unused:?}");
        assert!(matches!(used, Err(SettleError::NotAmendable(why)) if why.contains("`bill`")));
    }
}
