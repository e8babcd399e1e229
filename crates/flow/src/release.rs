//! What a checked flow is: everything that a run needs to know, and nothing about how it was
//! spelled.
//!
//! Two files that mean the same have one canonical form and so one [`ReleaseDigest`].

mod business_key;
mod follow;
mod gate;
mod guard;
mod readers;
mod step;

pub use crate::digest::{DigestError, ReleaseDigest};
pub use crate::input_schema::InputSchema;
pub use crate::reconcile::{ListRequest, Reconcile};
pub use crate::steps::{
    Action, ActionKind, ApprovalStep, CallStep, Case, ControlStep, DbStep, EmitStep, EventTopic,
    FailStep, FindConnection, Foreach, FunctionStep, HttpStep, Join, KvStep, KvVerb, LlmStep,
    Method, NotifyStep, OnError, Parallel, PartTemplate, PersistStep, RenderError, RequestBody,
    ReturnStep, SshStep, StepWork, Switch, TaskStep, WaitStep,
};
pub use crate::triggers::{
    EventTrigger, Order, ScheduleTrigger, Scheme, Sent, SentAt, Signature, SignedPart,
    StartTrigger, Triggers, Webhook, WebhookAuth, object_of,
};
pub use business_key::{BusinessKey, BusinessScope};
pub use follow::Follow;
pub use gate::{Limit, Overlap};
pub use guard::{Ask, Probe, StepGuard};
pub use readers::Reads;
pub use step::Step;

pub(crate) use guard::KEY_WINDOW;

use std::collections::BTreeSet;

use semel_model::{FlowName, RetryPolicy, Span};
use serde::Serialize;
use serde_json::Value;

use crate::expr::Expr;

/// One flow, checked.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Flow {
    /// What its author calls it.
    #[serde(rename = "flow")]
    pub name: FlowName,
    /// What it is for, in the author's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    /// What starts runs.
    pub trigger: Triggers,
    /// What is compared with its runs, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile: Option<Box<Reconcile>>,
    /// What the input of every run looks like.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<InputSchema>,
    /// How long a key is remembered after its run has ended.
    pub keep: Span,
    /// Whether a key that comes back after that is a new intent, whose effects have new keys.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub expires_as_new: bool,
    /// How long ended runs are kept; where the author does not say, the server's setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<Span>,
    /// What happens to a run while another one of the same object is active.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<Overlap>,
    /// How many runs, and how fast.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// What holds for steps that do not say otherwise.
    pub retry: RetryPolicy,
    /// Constants that expressions read as `env`: one map.
    pub env: Value,
    /// What a run does, in order.
    pub steps: Vec<Step>,
    /// What a run yields; null if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Expr>,
    /// Whether done steps are taken back where a run fails.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub undoes: bool,
}

impl Flow {
    /// The step of that name.
    #[must_use]
    pub fn find_step(&self, id: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.id.as_str() == id)
    }

    /// How much sooner than those of other flows its runs begin where several are due, in steps.
    #[must_use]
    pub fn priority(&self) -> i8 {
        self.limit.as_ref().map_or(0, |limit| limit.priority)
    }

    /// The place of what comes after a step; nothing if its list is over.
    #[must_use]
    pub fn after(&self, place: usize) -> Option<usize> {
        match self.steps.get(place)?.follow {
            Follow::Next => Some(place + 1).filter(|next| *next < self.steps.len()),
            Follow::At(next) => Some(next),
            Follow::End => None,
        }
    }

    /// Whether something that the parts of a step do can be taken back.
    #[must_use]
    pub fn undoes_inside(&self, place: usize) -> bool {
        let inside = |step: &&Step| {
            let around = std::iter::successors(step.inside, |(holder, _)| {
                self.steps.get(*holder).and_then(|holder| holder.inside)
            });
            around.into_iter().any(|(holder, _)| holder == place)
        };
        let mut undone = self.steps.iter().filter(|step| step.undo.is_some());
        undone.any(|step| inside(&step))
    }

    /// The flow as canonical JSON (RFC 8785).
    #[must_use]
    pub fn to_canonical_json(&self) -> String {
        // Keys are text and numbers are finite: the reader admits nothing else.
        let written = serde_json_canonicalizer::to_string(self);
        assert!(written.is_ok(), "a checked flow has a canonical form");
        written.unwrap_or_default()
    }

    /// What this flow is, in 32 bytes: equal for equal meaning, whatever the spelling.
    #[must_use]
    pub fn digest(&self) -> ReleaseDigest {
        ReleaseDigest::of(&self.to_canonical_json())
    }

    /// The connections that its steps go over.
    #[must_use]
    pub fn connections(&self) -> BTreeSet<&str> {
        let probes = self.steps.iter().filter_map(|step| step.guard.probe());
        let probes = probes.filter_map(Probe::connection);
        let listed = self.reconcile.as_ref();
        let listed = listed.and_then(|reconcile| reconcile.list.connection());
        self.steps
            .iter()
            .filter_map(Step::connection)
            .chain(probes)
            .chain(listed)
            .collect()
    }

    /// The steps of the flow that ask people, in order.
    pub fn approvals(&self) -> impl Iterator<Item = &Step> {
        self.steps
            .iter()
            .filter(|step| matches!(step.action, Action::Approval(_)))
    }

    /// The waits of the flow that a callback ends, by step, in order.
    pub fn callbacks(&self) -> impl Iterator<Item = &Step> {
        self.steps
            .iter()
            .filter(|step| matches!(step.action, Action::Wait(WaitStep::Callback { .. })))
    }
}
