//! The kinds of steps: one file each, and this registry.
//!
//! A kind's file holds everything that the language knows about it: its [`StepKind`], the table of
//! its fields, its own checks, how it is lowered, and what it is in a release. A new kind is a file
//! beside the others and a line in `kinds!`; the compiler names whatever that file leaves out.
//! Whether a kind has an effect, and which guard holds by itself, are fields without a default.

mod approval;
mod body;
mod call;
pub(crate) mod db;
mod descriptor;
mod effect;
mod emit;
mod fail;
mod foreach;
mod function;
pub(crate) mod http;
mod kv;
mod llm;
mod notify;
mod parallel;
mod persist;
mod released;
mod r#return;
mod ssh;
mod switch;
mod task;
mod wait;
mod work;

pub use approval::ApprovalStep;
pub use call::CallStep;
pub use db::DbStep;
pub use descriptor::{Docs, StepKind};
pub use effect::EffectKind;
pub use emit::EmitStep;
pub use fail::FailStep;
pub use foreach::{Foreach, OnError};
pub use function::FunctionStep;
pub use http::{HttpStep, Method, PartTemplate, RequestBody};
pub use kv::{KvStep, KvVerb};
pub use llm::LlmStep;
pub use notify::NotifyStep;
pub use parallel::{Join, Parallel};
pub use persist::PersistStep;
pub use released::{FindConnection, RenderError};
pub use r#return::ReturnStep;
pub use ssh::SshStep;
pub use switch::{Case, Switch};
pub use task::TaskStep;
pub use wait::{EventTopic, WaitStep};
pub use work::{ControlStep, StepWork};

pub(crate) use body::{BodyCheck, Lowering};
pub(crate) use descriptor::{Holds, ResultOrigin};
pub(crate) use released::ReleasedStep;

use serde::Serialize;

use crate::tree::Record;

/// Makes the registry from one line per kind: its word in a flow, its name in Rust, what it is in a
/// release, and its descriptor.
macro_rules! kinds {
    ($($(#[$about:meta])* $word:literal => $kind:ident($step:ty) = $descriptor:path;)+) => {
        /// A kind of step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum ActionKind {
            $($(#[$about])* $kind,)+
        }

        impl ActionKind {
            /// The word that a flow writes.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$kind => $word,)+
                }
            }

            /// Everything that the language knows about it.
            #[must_use]
            pub const fn descriptor(self) -> &'static StepKind {
                match self {
                    $(Self::$kind => &$descriptor,)+
                }
            }
        }

        $(const _: () = assert!(
            matches!($descriptor.kind, ActionKind::$kind),
            "a descriptor says which kind it is of"
        );)+

        /// Every kind of step, in the order of the documentation.
        pub static KINDS: &[&StepKind] = &[$(&$descriptor,)+];

        /// What a step does.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Action {
            $($(#[$about])* $kind($step),)+
        }

        impl Action {
            /// The kind of step.
            #[must_use]
            pub const fn kind(&self) -> ActionKind {
                match self {
                    $(Self::$kind(_) => ActionKind::$kind,)+
                }
            }

            /// What all kinds of steps say about themselves.
            pub(crate) fn released(&self) -> &dyn ReleasedStep {
                match self {
                    $(Self::$kind(step) => step,)+
                }
            }
        }
    };
}

kinds! {
    /// Sends one HTTP request.
    "http" => Http(Box<HttpStep>) = http::KIND;
    /// Runs one SQL statement.
    "db" => Db(DbStep) = db::KIND;
    /// Reads or changes an entry of the namespace's key-value table.
    "kv" => Kv(KvStep) = kv::KIND;
    /// Computes a value.
    "function" => Function(FunctionStep) = function::KIND;
    /// Asks a language model.
    "llm" => Llm(Box<LlmStep>) = llm::KIND;
    /// Sends a message to people.
    "notify" => Notify(Box<NotifyStep>) = notify::KIND;
    /// Runs a command on another machine.
    "ssh" => Ssh(Box<SshStep>) = ssh::KIND;
    /// Keeps a value by reference.
    "persist" => Persist(Box<PersistStep>) = persist::KIND;
    /// Emits an event for other flows.
    "emit" => Emit(EmitStep) = emit::KIND;
    /// Pauses the run.
    "wait" => Wait(WaitStep) = wait::KIND;
    /// Asks people.
    "approval" => Approval(Box<ApprovalStep>) = approval::KIND;
    /// Has a program outside do it.
    "task" => Task(Box<TaskStep>) = task::KIND;
    /// Runs another flow.
    "call" => Call(CallStep) = call::KIND;
    /// Takes one of several branches.
    "switch" => Switch(Switch) = switch::KIND;
    /// Does the same for each item of a list.
    "foreach" => Foreach(Box<Foreach>) = foreach::KIND;
    /// Runs several branches together.
    "parallel" => Parallel(Parallel) = parallel::KIND;
    /// Ends the run as failed.
    "fail" => Fail(FailStep) = fail::KIND;
    /// Ends the run with this result.
    "return" => Return(ReturnStep) = r#return::KIND;
}

/// The kind of a word that an author writes.
#[must_use]
pub fn find(word: &str) -> Option<&'static StepKind> {
    KINDS.iter().copied().find(|kind| kind.name() == word)
}

/// The kind of step that stands in a map (a step, an `undo` or a `probe`); the first where there are
/// more.
pub(crate) fn kind_in(record: &Record) -> Option<&'static StepKind> {
    record.fields.iter().find_map(|entry| find(entry.name))
}
