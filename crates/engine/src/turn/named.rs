//! How a turn begins the named effect of a step with a business key.
//!
//! ```text
//! asked ══▶ the run may hold the name      in the run's journal, so that its end frees the name
//! begin ══▶ the name is this run's, or what is there instead
//! held  ══▶ token and key                  in the run's journal, with the intent
//! ```
//!
//! `══▶` is a commit. A turn that begins again after a crash meets its own hold.

use jiff::Timestamp;
use semel_model::event::{Event, NameEvent, NameHolder};
use semel_model::request::StepRequest;
use semel_model::run::StopReason;
use semel_model::storable::excerpt;
use semel_model::{EffectName, Fault, NamedEffectId};
use semel_store::duplicates::{DuplicateVerdict, StoppedRepeat, Subject};
use semel_store::journal::LeaseChange;
use semel_store::kept_generations::KeyMemory;
use semel_store::named_effects::{
    self as names, HolderView, NamedBegin, NamedBegun, NamedEffectView, NamedHold, NamedHolder,
    ReportedHold, Reporter,
};
use semel_store::runs::Stage;

use super::{Turn, TurnError, notice, sent, unsure};
use crate::decide::{NameRequest, in_doubt_elsewhere};
use crate::key_memory::key_memory;
use crate::state::{Current, NameStanding};

/// The most characters of a request in a message.
const REQUEST_CHARS_MAX: usize = 600;

impl Turn {
    /// Begins the named effect of the current step. False where the run sleeps or is stopped.
    pub(super) async fn begin_named(&mut self, asked: NameRequest) -> Result<bool, TurnError> {
        let name = match EffectName::new(asked.scope.clone(), asked.key.as_bytes()) {
            Ok(name) => name,
            Err(error) => {
                let fault = Fault::permanent("key-failed", format!("`key`: {error}"));
                self.refuse(&asked.step, fault).await?;
                return Ok(!self.lease_over);
            }
        };
        let id = NamedEffectId::derive(&self.release.namespace, &name);
        if let Some(past) = self.state.past(&asked.step)
            && asked.doubt.is_some_and(|sent| !id.owns(sent))
        {
            let fault = in_doubt_elsewhere(past);
            self.stop_run(StopReason::NeedsReview, fault).await?;
            return Ok(false);
        }
        self.ask_for_name(&asked, id).await?;
        // What the run said of the name in an earlier life comes first.
        if self.state.reopened {
            let told = notice::deliver(&self.runtime, self.run, id, "").await;
            told.map_err(unsure)?;
        }
        let begin = self.name_begin(&asked, id, name);
        self.reach("name.before").await;
        let begun = names::begin(self.runtime.cell.of(id), &begin).await;
        let begun = begun.map_err(unsure)?;
        self.reach("name.after").await;
        match begun {
            NamedBegun::First(hold) => self.hold_name(&asked, id, hold).await,
            NamedBegun::Done(view) => self.meet_done(&asked, &view).await,
            NamedBegun::Other(view) => {
                let (action, by) = (&view.action, holder(&view));
                let message = format!(
                    "the key {} names another effect: {} {} {}, done by {by}; give this one another \
                     key",
                    asked.key, action.kind, action.method, action.destination,
                );
                let fault = Fault::permanent("key-names-other-effect", message);
                self.refuse(&asked.step, fault).await?;
                Ok(!self.lease_over)
            }
            NamedBegun::Held(view) => self.wait_for_name(&asked, &view, false).await,
            NamedBegun::InDoubt(view) => self.wait_for_name(&asked, &view, true).await,
            NamedBegun::Over(_) => unreachable!("a run may begin again what failed"),
        }
    }

    /// Commits that the run may hold the name from now on.
    async fn ask_for_name(
        &mut self,
        asked: &NameRequest,
        id: NamedEffectId,
    ) -> Result<(), TurnError> {
        let known = self.state.names.get(&asked.step);
        let live = known.is_some_and(|it| {
            it.name == id && !matches!(it.standing, NameStanding::Over | NameStanding::Done)
        });
        if live {
            return self.commit_what_matters().await;
        }
        self.record(Event::Named {
            step: asked.step.clone(),
            named: NameEvent::Asked {
                name: id,
                scope: asked.scope.clone(),
                key: asked.key.clone(),
                fingerprint: asked.fingerprint,
                generation: asked.generation,
            },
        })?;
        self.commit(LeaseChange::Keep).await
    }

    fn name_begin(&self, asked: &NameRequest, id: NamedEffectId, name: EffectName) -> NamedBegin {
        let generation = self.state.names.get(&asked.step).map(|it| it.generation);
        let step = self.release.flow.find_step(&asked.step);
        let memory = step.and_then(|step| key_memory(step, None));
        NamedBegin {
            id,
            namespace_id: self.release.namespace_id,
            name,
            action: asked.action.clone(),
            fingerprint: asked.fingerprint,
            holder: NamedHolder::Run {
                run: self.run,
                step: asked.step.clone(),
                item: String::new(),
                generation: generation.unwrap_or_default(),
            },
            keep: asked.keep,
            accepts_other: asked.accepts_other,
            seq: Some(self.seq),
            renews: asked.renews,
            endless: !matches!(memory, Some(KeyMemory::For(_))),
        }
    }

    /// The name is this run's. An effect whose request has the key of another generation in it is
    /// not sent: the key and the request would say two things. One that is about to be renewed has another
    /// request.
    async fn hold_name(
        &mut self,
        asked: &NameRequest,
        id: NamedEffectId,
        hold: NamedHold,
    ) -> Result<bool, TurnError> {
        if let Current::Effect(pending) = &self.state.current
            && pending.key() != hold.key
            && asked.generation == self.state.generation(&asked.step)
        {
            let own = ReportedHold {
                namespace_id: self.release.namespace_id,
                id,
                token: hold.token,
                by: Reporter::Run,
            };
            let freed = names::free(self.runtime.cell.of(id), own).await;
            freed.map_err(unsure)?;
            let message = format!(
                "another effect was begun under the key {} since this one failed: start a new run",
                asked.key
            );
            let fault = Fault::permanent("key-begun-since", message);
            self.stop_run(StopReason::NeedsReview, fault).await?;
            return Ok(false);
        }
        self.record(Event::Named {
            step: asked.step.clone(),
            named: NameEvent::Held {
                token: hold.token,
                effect: hold.key,
            },
        })?;
        Ok(true)
    }

    /// Reuses what another holder did, unless it did it with another request.
    async fn meet_done(
        &mut self,
        asked: &NameRequest,
        view: &NamedEffectView,
    ) -> Result<bool, TurnError> {
        let by = holder(view);
        let same = view.fingerprint == Some(asked.fingerprint);
        if !same && !asked.accepts_other {
            let own = shown(&asked.request);
            let theirs = self.request_of(view).await?;
            let message = format!(
                "{by} performed {} under the key {} with another request; nothing was sent. Its \
                 request: {theirs}. This one: {own}. Correct the input and start a new run, or \
                 write `mismatch: accept`, publish it, and semel run replay {}",
                asked.step, asked.key, self.run,
            );
            let fault = Fault::permanent("key-other-request", message);
            self.stop_run(StopReason::NeedsReview, fault).await?;
            return Ok(false);
        }
        self.note_named_reuse(asked, view, same);
        self.record(Event::Named {
            step: asked.step.clone(),
            named: NameEvent::Reused {
                effect: view.key(),
                by,
                external_id: view.external_id.clone(),
                status: view.status,
                result: view.result.clone().unwrap_or_default(),
            },
        })?;
        Ok(true)
    }

    /// Counts an effect that another holder had performed as a duplicate, stopped at the ledger.
    fn note_named_reuse(&self, asked: &NameRequest, view: &NamedEffectView, same: bool) {
        self.runtime.metrics.effects_reused.add_one();
        self.runtime.writers.duplicates.add(StoppedRepeat {
            subject: Subject::Effect(view.key()),
            namespace_id: self.release.namespace_id,
            run: match &view.holder {
                HolderView::Run { run, .. } => *run,
                HolderView::Script { .. } => self.run,
            },
            fingerprint: asked.fingerprint,
            kind: match same {
                true => DuplicateVerdict::Repeat,
                false => DuplicateVerdict::Mismatch,
            },
            payload: None,
            arrival: None,
            at: self.runtime.clock.now(),
        });
    }

    /// Sleeps until the name is settled, as long as the step's retries may take.
    async fn wait_for_name(
        &mut self,
        asked: &NameRequest,
        view: &NamedEffectView,
        in_doubt: bool,
    ) -> Result<bool, TurnError> {
        let behind = holder(view);
        let until = self.name_deadline(&asked.step);
        if until.is_some_and(|until| self.runtime.clock.now() >= until) {
            let message = format!(
                "{behind} has the key {}, and the time of `retry.within` is over; {}, then semel run \
                 resume {}",
                asked.key,
                way_out(view, in_doubt),
                self.run
            );
            let fault = Fault::passing("key-held", message);
            self.stop_run(StopReason::NeedsReview, fault).await?;
            return Ok(false);
        }
        let waiting = NameStanding::Waiting {
            behind: behind.clone(),
            in_doubt,
        };
        let known = self.state.names.get(&asked.step);
        if known.is_none_or(|it| it.standing != waiting) {
            self.record(Event::Named {
                step: asked.step.clone(),
                named: NameEvent::Waiting { behind, in_doubt },
            })?;
        }
        let stage = Stage::Waiting;
        let due_at = until;
        self.commit(LeaseChange::Return { due_at, stage }).await?;
        Ok(false)
    }

    fn name_deadline(&self, step: &str) -> Option<Timestamp> {
        let since = self.state.names.get(step)?.since;
        let within = self.step().retry.within;
        since.checked_add(within.to_duration()).ok()
    }

    /// The step cannot be carried out. An effect that was sent before is left to an operator.
    async fn refuse(&mut self, step: &str, fault: Fault) -> Result<(), TurnError> {
        if let Current::Effect(_) = &self.state.current {
            return self.stop_run(StopReason::NeedsReview, fault).await;
        }
        self.record(Event::Broken {
            step: Some(step.to_owned()),
            fault,
        })
    }

    /// What the holder of a named effect sent, for people.
    async fn request_of(&self, view: &NamedEffectView) -> Result<String, TurnError> {
        let HolderView::Run { run, step, .. } = &view.holder else {
            return Ok("a command".to_owned());
        };
        let sent = sent::request_of(&self.runtime, self.release.namespace_id, *run, step).await;
        Ok(sent
            .map_err(unsure)?
            .map_or_else(|| "no longer known".to_owned(), |it| shown(&it)))
    }

    /// Tells named effects what the run came to, now that it is committed. What this process does
    /// not get to is recorded as a notice, which name repair delivers.
    pub(super) fn tell_names(&self, told: Vec<NamedEffectId>) {
        for name in told {
            let (runtime, run) = (self.runtime.clone(), self.run);
            let subject = self.key.text();
            let telling = async move {
                if let Err(error) = notice::deliver(&runtime, run, name, &subject).await {
                    tracing::warn!(%error, run.id = %run, named_effect.id = %name,
                        "failed to update a named effect; name repair retries");
                }
            };
            self.runtime.work.turns.spawn(telling);
        }
    }
}

fn holder(view: &NamedEffectView) -> NameHolder {
    match &view.holder {
        HolderView::Run { run, .. } => NameHolder::Run(*run),
        HolderView::Script { name, .. } => NameHolder::Script(name.clone()),
    }
}

/// What an operator does about a key that another holder has.
fn way_out(view: &NamedEffectView, in_doubt: bool) -> String {
    let key = view.key();
    match (&view.holder, in_doubt) {
        (_, true) => format!(
            "check the destination for {key} and record what you found, semel doubt settle {key} \
             --happened (or --did-not-happen) --reason …"
        ),
        (HolderView::Run { run, .. }, false) => {
            format!("see what it waits for, semel run show {run}")
        }
        (HolderView::Script { .. }, false) => {
            format!("see when it was last heard of, semel once show {key}")
        }
    }
}

fn shown(request: &StepRequest) -> String {
    let summary = request.summary();
    let body = summary.body.unwrap_or_default();
    let text = format!("{} {} {body}", request.kind(), summary.what);
    excerpt(text.trim_end(), REQUEST_CHARS_MAX).to_string()
}
