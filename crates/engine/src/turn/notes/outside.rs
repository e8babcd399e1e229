//! What a turn asks of programs and people outside.

use semel_flow::{Action, Flow};
use semel_model::event::Event;
use semel_model::request::Call;
use semel_model::{EffectId, FaultKind, RunId, WaitId, effect};
use semel_store::approvals::ApprovalChange;
use semel_store::outbox::Emitted;
use semel_store::tasks::TaskChange;

use super::Notes;

impl Notes {
    /// Notes that an approval is left open by a run that ends.
    pub(in crate::turn) fn withdraw_approval(&mut self, wait: WaitId) {
        self.approvals.push(ApprovalChange::Withdraw { wait });
    }

    /// Notes that an event of Semel's own goes out with the next write.
    pub(in crate::turn) fn tell(&mut self, emitted: Emitted) {
        self.emitted.push(emitted);
    }

    /// Notes what an event makes of tasks and approvals.
    pub(super) fn ask_outside(&mut self, flow: &Flow, run: RunId, event: &Event) {
        if let Event::Intended {
            step,
            effect,
            attempt,
            call,
            ..
        } = event
            && is_task(flow, step)
        {
            self.open_task(*effect, step, *attempt, call.as_deref());
        } else if let Event::Failed { step, fault, .. } = event {
            self.withdraw(flow, step, fault.kind);
        } else if let Event::Doubted { step, doubt, .. } = event {
            self.withdraw(flow, step, doubt.kind);
        } else if let Event::ApprovalOpened {
            step,
            wait,
            until,
            asked,
        } = event
        {
            self.approvals.push(ApprovalChange::Open {
                wait: *wait,
                flow: flow.name.to_string(),
                step: step.clone(),
                asked: asked.clone(),
                until: *until,
            });
        } else if let Event::ApprovalTold { step, .. } = event {
            let wait = WaitId::derive(run, step);
            self.approvals.push(ApprovalChange::Told { wait });
        } else if let Event::ApprovalElapsed { step, .. } = event {
            let wait = WaitId::derive(run, step);
            self.approvals.push(ApprovalChange::Elapse { wait });
        }
    }

    fn open_task(&mut self, task: EffectId, step: &str, attempt: u32, call: Option<&Call>) {
        self.tasks.push(match call {
            Some(Call::Task(request)) => TaskChange::Open {
                task,
                step: step.to_owned(),
                request: Box::new(request.clone()),
            },
            Some(_) | None => TaskChange::Reopen { task, attempt },
        });
    }

    /// Takes a task back that nobody has.
    fn withdraw(&mut self, flow: &Flow, step: &str, kind: FaultKind) {
        let pending = self
            .current
            .filter(|known| known.state == effect::State::Pending);
        if let Some(known) = pending
            && kind == FaultKind::Untaken
            && is_task(flow, step)
        {
            self.tasks.push(TaskChange::Withdraw { task: known.effect });
        }
    }
}

fn is_task(flow: &Flow, step: &str) -> bool {
    let action = flow.find_step(step).map(|step| &step.action);
    matches!(action, Some(Action::Task(_)))
}
