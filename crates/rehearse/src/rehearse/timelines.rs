//! What happened in a rehearsal without faults, for people to read.

use semel_engine::event::describe;
use semel_model::event::Event;
use semel_store::rehearsals;
use serde::Deserialize as _;

use crate::error::RehearseError;
use crate::play::{Played, Setting};
use crate::report::{Timeline, TimelineLine};

/// What happened in each example, from the journals of its runs.
pub(super) async fn timelines(
    setting: &Setting,
    plain: &[Played],
) -> Result<Vec<Timeline>, RehearseError> {
    let journals = rehearsals::list_journals(setting.cell.every()).await?;
    let timeline = |one: &Played| {
        let own = journals
            .iter()
            .filter(|(namespace_id, ..)| *namespace_id == one.case.namespace_id);
        let lines = own.flat_map(|(_, _, row)| {
            let events = row.values().into_iter();
            let known = events.filter_map(|event| Event::deserialize(&event).ok());
            known.map(|event| TimelineLine {
                at: row.at,
                text: describe(&event),
            })
        });
        Timeline {
            example: one.case.example.name.clone(),
            lines: lines.collect(),
        }
    };
    Ok(plain.iter().map(timeline).collect())
}
