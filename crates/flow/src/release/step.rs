//! Steps, checked.

use semel_model::connection::Connection;
use semel_model::request::Call;
use semel_model::{EffectId, Fault, Guard, RetryPolicy, Span, StepId};
use serde::Serialize;
use serde_json::{Value, json};

use super::approval::ApprovalStep;
use super::control::{CallStep, FailStep, Follow, Foreach, Parallel, Switch};
use super::db::DbStep;
use super::guard::StepGuard;
use super::http::Request;
use super::keep::{EmitStep, PersistStep};
use super::kv::KvStep;
use super::llm::LlmStep;
use super::notify::NotifyStep;
use super::ssh::SshStep;
use super::task::TaskStep;
use super::topic::Topic;
use crate::expr::{EvalError, Expr, Scope};
use crate::template::TextTemplate;

/// One step of a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What its author calls it.
    pub id: StepId,
    /// The step is skipped where this is false.
    #[serde(rename = "if", skip_serializing_if = "Option::is_none")]
    pub condition: Option<Expr>,
    /// What it does.
    #[serde(flatten)]
    pub action: Action,
    /// How meeting it twice is made safe.
    pub guard: StepGuard,
    /// The step's result, over `response`; otherwise what its kind yields.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Expr>,
    /// What the destination calls the effect, over `result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_id: Option<Expr>,
    /// How often a failed attempt is made again; the flow's policy where the step says nothing.
    pub retry: RetryPolicy,
    /// What comes after it.
    #[serde(skip_serializing_if = "Follow::is_next")]
    pub follow: Follow,
    /// The place of the step whose parts do it, and which list of that step it is in.
    #[serde(skip)]
    pub inside: Option<(usize, u32)>,
    /// The place of the step that takes it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<usize>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Sends one HTTP request.
    Http(Box<Request>),
    /// Works out a value.
    Function(Expr),
    /// Reads or changes an entry of the namespace's key-value table.
    Kv(KvStep),
    /// Parks the run.
    Wait(Wait),
    /// Runs one SQL statement.
    Db(DbStep),
    /// Runs a command on another machine.
    Ssh(Box<SshStep>),
    /// Sends a message to people.
    Notify(Box<NotifyStep>),
    /// Asks a language model.
    Llm(Box<LlmStep>),
    /// Keeps a value by reference.
    Persist(Box<PersistStep>),
    /// Tells other flows.
    Emit(EmitStep),
    /// Has a program outside do it.
    Task(Box<TaskStep>),
    /// Asks people.
    Approval(Box<ApprovalStep>),
    /// Runs another flow.
    Call(CallStep),
    /// Goes one of several ways.
    Switch(Switch),
    /// Does the same for each item of a list.
    Foreach(Box<Foreach>),
    /// Goes several ways together.
    Parallel(Parallel),
    /// Ends the run as failed.
    Fail(FailStep),
    /// Ends the run with this result.
    Return(Expr),
}

/// What a parked run waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// Time to pass.
    #[serde(rename = "for")]
    Timer(Span),
    /// A call to the wait's address; its payload is the step's result.
    Callback {
        /// How long at the most.
        within: Span,
        /// Whether the run goes on where no call came in time; it fails otherwise.
        #[serde(skip_serializing_if = "is_false")]
        goes_on: bool,
    },
    /// A point in time.
    Until(Expr),
    /// An event of this name; its data is the step's result.
    Event {
        /// The event.
        name: String,
        /// Which one is meant, over `event`.
        #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
        matching: Option<Expr>,
        /// What that one is found by.
        #[serde(skip)]
        topic: Option<Topic>,
        /// How long at the most.
        #[serde(skip_serializing_if = "Option::is_none")]
        within: Option<Span>,
        /// Whether the run goes on where none came in time; it fails otherwise.
        #[serde(skip_serializing_if = "is_false")]
        goes_on: bool,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(truth: &bool) -> bool {
    !truth
}

/// Why a call could not be put together. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// A hole could not be worked out.
    #[error(transparent)]
    Eval(#[from] EvalError),
    /// There is no such connection.
    #[error("there is no connection `{0}`: semel connection create {0}")]
    NoConnection(String),
    /// The connection leads to something else.
    #[error("the connection `{name}` is of the kind {kind}, which an `http` step cannot use")]
    Unfit {
        /// The connection.
        name: String,
        /// Its kind.
        kind: &'static str,
    },
    /// The key has no place in the body.
    #[error("the key goes into the field `{0}` of the body, and the body is no map")]
    NoField(String),
}

impl RenderError {
    /// What a run is told.
    #[must_use]
    pub fn to_fault(&self) -> Fault {
        let code = match self {
            Self::Eval(error) => error.code(),
            Self::NoConnection(_) => "connection-missing",
            Self::Unfit { .. } => "connection-unfit",
            Self::NoField(_) => "key-without-field",
        };
        Fault::permanent(code, self.to_string())
    }
}

/// Finds connections by name.
pub type FindConnection<'a> = &'a dyn Fn(&str) -> Option<&'a Connection>;

impl Step {
    /// How its effect is made safe, where it has one. What only the connection decides counts as
    /// `review`.
    #[must_use]
    pub const fn guard(&self) -> Option<Guard> {
        self.guard.guard()
    }

    /// The kind of step, in one word.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self.action {
            Action::Http(_) => "http",
            Action::Function(_) => "function",
            Action::Kv(_) => "kv",
            Action::Wait(_) => "wait",
            Action::Db(_) => "db",
            Action::Ssh(_) => "ssh",
            Action::Notify(_) => "notify",
            Action::Llm(_) => "llm",
            Action::Persist(_) => "persist",
            Action::Emit(_) => "emit",
            Action::Task(_) => "task",
            Action::Approval(_) => "approval",
            Action::Call(_) => "call",
            Action::Switch(_) => "switch",
            Action::Foreach(_) => "foreach",
            Action::Parallel(_) => "parallel",
            Action::Fail(_) => "fail",
            Action::Return(_) => "return",
        }
    }

    /// Whether its effect is made in this database, in the commit of its outcome.
    #[must_use]
    pub const fn commits_here(&self) -> bool {
        matches!(
            self.action,
            Action::Kv(_) | Action::Emit(_) | Action::Call(_)
        )
    }

    /// The connection that it goes over, where it names one.
    #[must_use]
    pub fn connection(&self) -> Option<&str> {
        match &self.action {
            Action::Http(request) => request.connection.as_deref(),
            Action::Db(db) => Some(&db.connection),
            Action::Ssh(ssh) => Some(&ssh.connection),
            Action::Notify(notify) => Some(&notify.connection),
            Action::Llm(llm) => Some(&llm.connection),
            Action::Function(_)
            | Action::Kv(_)
            | Action::Wait(_)
            | Action::Persist(_)
            | Action::Emit(_)
            | Action::Task(_)
            | Action::Approval(_)
            | Action::Call(_)
            | Action::Switch(_)
            | Action::Foreach(_)
            | Action::Parallel(_)
            | Action::Fail(_)
            | Action::Return(_) => None,
        }
    }

    /// The call that it makes, with every hole worked out; nothing where it makes none. `key` is
    /// the effect's, where it has one.
    ///
    /// # Errors
    ///
    /// Where a hole cannot be worked out, or its connection is not there.
    pub fn render(
        &self,
        scope: &Scope<'_>,
        find: FindConnection<'_>,
        key: Option<EffectId>,
    ) -> Result<Option<Call>, RenderError> {
        let call = match &self.action {
            Action::Function(_)
            | Action::Wait(_)
            | Action::Approval(_)
            | Action::Switch(_)
            | Action::Foreach(_)
            | Action::Parallel(_)
            | Action::Fail(_)
            | Action::Return(_) => return Ok(None),
            Action::Http(request) => Call::Http(request.render(scope, find, key)?),
            Action::Kv(kv) => Call::Kv(kv.render(scope)?),
            Action::Db(db) => Call::Db(db.render(scope)?),
            Action::Ssh(ssh) => Call::Ssh(ssh.render(scope)?),
            Action::Notify(notify) => Call::Notify(notify.render(scope)?),
            Action::Llm(llm) => Call::Llm(llm.render(scope)?),
            Action::Persist(persist) => Call::Persist(persist.render(scope)?),
            Action::Emit(emit) => Call::Emit(emit.render(scope)?),
            Action::Task(task) => Call::Task(task.render(scope)?),
            Action::Call(call) => Call::Start(call.render(scope)?),
        };
        match call.connection() {
            Some(name) if find(name).is_none() => Err(RenderError::NoConnection(name.to_owned())),
            Some(_) | None => Ok(Some(call)),
        }
    }

    /// What the step yields for an answer, over a scope that has `response` in it.
    ///
    /// # Errors
    ///
    /// Where the author's `result` cannot be worked out.
    pub fn result_of(&self, scope: &Scope<'_>) -> Result<Value, EvalError> {
        if let Some(expr) = &self.result {
            return expr.eval(scope);
        }
        let Some(response) = scope.find("response") else {
            return Ok(Value::Null);
        };
        let part = |name| response.get(name).filter(|part| !part.is_null()).cloned();
        Ok(match &self.action {
            Action::Http(_) | Action::Llm(_) => part("json")
                .or_else(|| part("resource"))
                .or_else(|| part("text"))
                .unwrap_or_default(),
            // Whether the marker was met is for the journal: a repeat gives what the first gave.
            Action::Db(_) => json!({ "rows": part("rows"), "records": part("records") }),
            Action::Ssh(_)
            | Action::Notify(_)
            | Action::Persist(_)
            | Action::Kv(_)
            | Action::Emit(_)
            | Action::Task(_)
            | Action::Approval(_)
            | Action::Call(_)
            | Action::Function(_)
            | Action::Wait(_)
            | Action::Switch(_)
            | Action::Foreach(_)
            | Action::Parallel(_)
            | Action::Fail(_)
            | Action::Return(_) => response.clone(),
        })
    }

    /// Every expression of what it sends.
    #[must_use]
    pub fn exprs(&self) -> Vec<&Expr> {
        match &self.action {
            Action::Function(expr) | Action::Return(expr) | Action::Wait(Wait::Until(expr)) => {
                vec![expr]
            }
            Action::Wait(Wait::Event { matching, .. }) => matching.iter().collect(),
            Action::Wait(Wait::Timer(_) | Wait::Callback { .. }) | Action::Parallel(_) => {
                Vec::new()
            }
            Action::Switch(switch) => switch.cases.iter().map(|case| &case.when).collect(),
            Action::Foreach(each) => std::iter::once(&each.items).chain(&each.key).collect(),
            Action::Fail(fail) => fail.message.exprs().collect(),
            Action::Call(call) => call.input.iter().flat_map(|it| it.exprs()).collect(),
            Action::Http(request) => request.exprs(),
            Action::Kv(kv) => kv.exprs(),
            Action::Db(db) => db.values.iter().flat_map(|value| value.exprs()).collect(),
            Action::Ssh(ssh) => {
                let mut all: Vec<&TextTemplate> = ssh.command.iter().collect();
                all.extend(&ssh.stdin);
                all.extend(ssh.env.values());
                all.extend(&ssh.callback);
                vec_of(all)
            }
            Action::Notify(notify) => {
                let mut all: Vec<&TextTemplate> = notify.to.iter().collect();
                all.extend(&notify.subject);
                all.push(&notify.text);
                all.extend(&notify.html);
                vec_of(all)
            }
            Action::Llm(llm) => {
                let mut all: Vec<&TextTemplate> = llm.system.iter().collect();
                all.push(&llm.prompt);
                vec_of(all)
            }
            Action::Persist(persist) => {
                let mut exprs: Vec<&Expr> = persist.value.exprs();
                exprs.extend(persist.name.iter().flat_map(TextTemplate::exprs));
                exprs
            }
            Action::Emit(emit) => emit.data.iter().flat_map(|data| data.exprs()).collect(),
            Action::Task(task) => task.input.iter().flat_map(|input| input.exprs()).collect(),
            Action::Approval(approval) => {
                approval.show.iter().flat_map(|show| show.exprs()).collect()
            }
        }
    }
}

fn vec_of(texts: Vec<&TextTemplate>) -> Vec<&Expr> {
    texts.into_iter().flat_map(TextTemplate::exprs).collect()
}
