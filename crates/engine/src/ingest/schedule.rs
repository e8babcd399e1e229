//! Ticks of schedules, accepted like any other delivery.
//!
//! The key is the instant's, in a space of its own: no sender can bring it. What a release declares
//! as input may change from one to the next, and is no reason to refuse an instant that has its
//! run: another payload is a repeat here.

use std::sync::Arc;

use jiff::Timestamp;
use semel_model::{Key, KeySpace, Mismatch, TriggerKind};
use semel_store::schedules::ScheduleLease;

use super::{Inbound, Intake, IntakeError};
use crate::catalogue::Release;
use crate::runtime::Runtime;

impl Runtime {
    /// Accepts a tick of a release's schedule; `by` names the operator who fires it by hand. With a lease, it starts nothing
    /// once another server has the schedule.
    pub(crate) async fn receive_tick(
        self: &Arc<Self>,
        release: Arc<Release>,
        nominal: Timestamp,
        key: Key,
        by: Option<&str>,
        lease: Option<ScheduleLease>,
    ) -> Result<Intake, IntakeError> {
        let kind = TriggerKind::Schedule;
        let Some(declared) = &release.flow.trigger.schedule else {
            return Err(IntakeError::NoTrigger { kind });
        };
        let input = declared.input.clone();
        let text = input.to_string();
        let named = (KeySpace::Schedule, key);
        self.receive(Inbound {
            by: by.map(str::to_owned),
            nominal: Some(nominal),
            // An instant has one run, the first of its key, also where a server that stood still decides it after that
            // key was freed. By hand it may have another.
            run_max: by.is_none().then_some(0),
            lease,
            ..Inbound::new(release, kind, named, (input, text), Mismatch::Accept)
        })
        .await
    }
}
