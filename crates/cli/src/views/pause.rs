//! Pauses.

use semel_api::types::Pause;

use crate::text::{ago, printable};

/// Why something does not move, in one line.
pub(crate) fn tell(pause: &Pause) -> String {
    let held = match pause.held_runs {
        Some(1) => "; 1 run is held".to_owned(),
        Some(count) => format!("; {count} runs are held"),
        None => String::new(),
    };
    format!(
        "the {} {} is paused since {} by {}: {}{held}",
        printable(&pause.kind),
        printable(&pause.name),
        ago(pause.since),
        printable(&pause.by),
        printable(&pause.reason),
    )
}
