//! Commands: what operators and clients ask of flows, runs, keys and destinations. Each may be asked
//! twice. One file per verb, written over [`Runtime`](crate::runtime::Runtime).

pub mod alert;
pub mod amend;
pub mod answer_task;
pub mod attend;
mod await_end;
pub mod cancel;
mod complete_wait;
pub mod connection;
pub mod decide_approval;
pub mod decide_held;
pub mod drop_key;
pub mod erase;
pub mod fire_schedule;
pub mod job_maker;
pub mod member;
pub mod namespace;
pub mod once;
mod operator_result;
pub mod operator_step;
pub mod pause;
mod promote;
pub mod publish;
pub mod reconcile;
pub mod rehearse;
pub mod replay;
pub mod replay_plan;
pub mod resume;
mod resume_schedule;
pub mod run_job;
pub mod settle;
pub mod subscription;
pub mod token;
