//! Rehearsals: a release is played on a stage, against duplicates, crashes and lost answers, before
//! it goes live.
//!
//! The engine and the PostgreSQL are real; destinations and people are played from the flow's
//! examples. Each case has a namespace of its own in a schema of its own, so that hundreds of them
//! run at once and none meets another.
//!
//! ```text
//! rehearse ─▶ plan      which faults there are for a flow and an example
//!          ─▶ play      all cases at once: deliver, wait until all is quiet, act, jump to what is due
//!               ├ process   an engine that can be paused and ended
//!               ├ people    who answers callbacks, approvals and tasks
//!               └ stage     who answers requests, counts effects and ends processes
//!          ─▶ verdict   what happened more than once, or not at all
//!          ─▶ report    as text, JSON and JUnit
//! ```
//!
//! Modules use only those before them: `error` `answer` `fault` `vary` `connections` `first_example` ▶ `stage` ▶ `process` `case` ▶ `people`
//! ▶ `play` `plan` ▶ `report` ▶ `verdict` ▶ `rehearse` ▶ `basis`
//! ▶ `turns` ▶ `service` `proof` ▶ `background`.

mod answer;
mod background;
mod basis;
mod case;
mod connections;
mod error;
mod fault;
mod first_example;
mod people;
mod plan;
mod play;
mod process;
mod proof;
mod rehearse;
mod report;
mod service;
mod stage;
mod turns;
mod vary;
mod verdict;

pub use background::Background;
pub use error::RehearseError;
pub use fault::{FaultClass, RehearsedFault, Spot};
pub use first_example::first_example;
pub use proof::{Proof, ReleaseText, UnprovenRelease, list_unproven, promote, proof_of, proofs_of};
pub use rehearse::{Progress, Selection, Subject, rehearse};
pub use report::{CaseReport, CaseVerdict, Report, Timeline, TimelineLine, Violation};
pub use service::{RehearsalRequest, Rehearsals};
