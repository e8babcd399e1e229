//! Where a run goes: one of several ways, in parts, to another flow, and back.

use semel_model::Event;

use super::value;

/// What happened, in one line.
pub(super) fn tell(event: &Event) -> String {
    match event {
        Event::Begun {
            parent,
            step,
            index,
            item,
            ..
        } => match item.is_null() {
            true => format!("branch {index} of {step} of {parent}"),
            false => format!("item {index} of {step} of {parent}: {}", value(item)),
        },
        Event::Switched { step, case } => match case {
            Some(case) => format!("{step}: case {} is true", case + 1),
            None => format!("{step}: no case is true"),
        },
        Event::FanOpened { step } => format!("{step}: its parts are put on record"),
        Event::FanLoaded {
            step,
            count,
            repeats,
        } => match repeats {
            0 => format!("{step}: {count} parts"),
            repeats => {
                format!("{step}: {count} parts, {repeats} more with the key of an earlier one")
            }
        },
        Event::FanStopped {
            step,
            cancels,
            fault,
        } => {
            let why = match (fault, cancels) {
                (Some(fault), _) => fault.message.clone(),
                (None, true) => "one is enough, and the others are asked to end".to_owned(),
                (None, false) => "one failed".to_owned(),
            };
            format!("{step}: no further part begins: {why}")
        }
        Event::FanEnded {
            step,
            result,
            fault,
            ..
        } => match fault {
            Some(fault) => format!("{step}: failed ({}): {}", fault.code, fault.message),
            None if result.is_null() => format!("{step}: all parts ended"),
            None => format!("{step}: all parts ended: {}", value(result)),
        },
        Event::Started { step, run, wait } => match wait {
            Some(_) => format!("{step}: called {run}, and waits for its end"),
            None => format!("{step}: called {run}"),
        },
        Event::Undoing { fault } => {
            format!(
                "failed ({}): {}; what was done is taken back",
                fault.code, fault.message
            )
        }
        Event::Accepted { .. }
        | Event::Held { .. }
        | Event::Admitted { .. }
        | Event::Joined { .. }
        | Event::Computed { .. }
        | Event::ReadFailed { .. }
        | Event::Skipped { .. }
        | Event::Broken { .. }
        | Event::Intended { .. }
        | Event::Done { .. }
        | Event::Failed { .. }
        | Event::Doubted { .. }
        | Event::Probed { .. }
        | Event::Licensed { .. }
        | Event::WaitOpened { .. }
        | Event::WaitEnded { .. }
        | Event::ApprovalOpened { .. }
        | Event::ApprovalTold { .. }
        | Event::ApprovalDecided { .. }
        | Event::ApprovalElapsed { .. }
        | Event::Parked { .. }
        | Event::Resumed { .. }
        | Event::Amended { .. }
        | Event::Ended { .. } => String::new(),
    }
}
