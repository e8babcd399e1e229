//! Routes about effects, doubts, and deliveries that started no run.

use semel_api::Code;
use semel_api::types::{
    AcceptAsNew, Amend, Amended, AssignDoubt, AttendedEffect, DecidedHeld, DoubtFilter, Duplicate,
    DuplicateFilter, Effect, EffectFilter, EffectReason, EffectReopened, GroupedDoubts, HeldReason,
    NoteDoubt, RefusedDelivery, RefusedFilter, Settle, SettleGroup, Settled, SnoozeDoubt,
};
use semel_model::Right::{Operate, Override, Read, Redo, Settle as MaySettle};

use crate::access::Routes;
use crate::{duplicates, effects, refusals};

pub(super) fn routes() -> Routes {
    ledger().merge(doubts()).merge(stopping())
}

fn ledger() -> Routes {
    Routes::default()
        .get("/effects", Read, effects::list)
        .op("list_effects", "List effects, latest first.")
        .query::<EffectFilter>()
        .page::<Effect>()
        .fails(&[Code::RunNotFound, Code::KeyNotFound, Code::KeyInvalid])
        .get("/effects/{effect}", Read, effects::show)
        .op(
            "get_effect",
            "Show an effect, what was sent, and what people did about it.",
        )
        .ok::<Effect>()
        .fails(&[Code::EffectNotFound, Code::Overloaded])
        .post("/effects/{effect}/settle", MaySettle, effects::settle)
        .op(
            "settle_effect",
            "Record what an operator found about an effect in doubt.",
        )
        .keyed()
        .takes::<Settle>()
        .ok::<Settled>()
        .fails(SETTLE)
        .post("/effects/{effect}/amend", MaySettle, effects::amend)
        .op(
            "amend_effect",
            "Correct the result that an operator gave an effect.",
        )
        .keyed()
        .takes::<Amend>()
        .ok::<Amended>()
        .fails(SETTLE)
        .post("/effects/{effect}/undo", Redo, effects::undo)
        .op("undo_effect", "Undo one done effect of an ended run.")
        .keyed()
        .takes::<EffectReason>()
        .accepted::<EffectReopened>()
        .fails(REOPEN)
        .post("/effects/{effect}/redo", Redo, effects::redo)
        .op(
            "redo_effect",
            "Perform one done effect of an ended run again.",
        )
        .keyed()
        .takes::<EffectReason>()
        .accepted::<EffectReopened>()
        .fails(REOPEN)
}

fn doubts() -> Routes {
    Routes::default()
        .get("/doubts", Read, effects::list_doubts)
        .op("list_doubts", "List effects in doubt, oldest first.")
        .query::<DoubtFilter>()
        .page::<Effect>()
        .post("/doubts/settle", MaySettle, effects::settle_group)
        .op(
            "settle_group",
            "Settle every doubt of one step, as its preview showed.",
        )
        .keyed()
        .takes::<SettleGroup>()
        .ok::<GroupedDoubts>()
        .fails(SETTLE)
        .post("/doubts/settle/preview", MaySettle, effects::preview_group)
        .op(
            "preview_settlement",
            "Show which doubts of one step would be settled.",
        )
        .takes::<SettleGroup>()
        .ok::<GroupedDoubts>()
        .fails(SETTLE)
        .merge(attending())
}

/// The routes for doubts while they are looked into.
fn attending() -> Routes {
    Routes::default()
        .post("/effects/{effect}/assign", MaySettle, effects::assign)
        .op("assign_doubt", "Say who looks into a doubt.")
        .keyed()
        .takes::<AssignDoubt>()
        .ok::<AttendedEffect>()
        .fails(ATTEND)
        .post("/effects/{effect}/note", MaySettle, effects::note)
        .op("note_doubt", "Note what was found about a doubt so far.")
        .keyed()
        .takes::<NoteDoubt>()
        .ok::<AttendedEffect>()
        .fails(ATTEND)
        .post("/effects/{effect}/snooze", MaySettle, effects::snooze)
        .op(
            "snooze_doubt",
            "Put a doubt off: lists leave it out until then, unless asked; the console lists it last.",
        )
        .keyed()
        .takes::<SnoozeDoubt>()
        .ok::<AttendedEffect>()
        .fails(ATTEND)
}

/// The routes for deliveries that started no run.
fn stopping() -> Routes {
    let as_new = "/duplicates/{duplicate}/accept-as-new";
    let as_repeat = "/duplicates/{duplicate}/accept-as-repeat";
    let dismiss = "/duplicates/{duplicate}/dismiss";
    Routes::default()
        .get("/duplicates", Read, duplicates::list)
        .op(
            "list_duplicates",
            "List stopped deliveries, those of the latest minute first.",
        )
        .query::<DuplicateFilter>()
        .page::<Duplicate>()
        .fails(&[Code::KeyInvalid])
        // What was held may be a replay: a run of its own passes over that safeguard.
        .post(as_new, Override, duplicates::accept_as_new)
        .op("accept_as_new", "Give a held delivery a run of its own.")
        .keyed()
        .takes::<AcceptAsNew>()
        .ok::<DecidedHeld>()
        .fails(HELD)
        .fails(super::INTAKE)
        .post(as_repeat, Operate, duplicates::accept_as_repeat)
        .op("accept_as_repeat", "Accept a held delivery as a repeat.")
        .keyed()
        .takes::<HeldReason>()
        .ok::<DecidedHeld>()
        .fails(HELD)
        .post(dismiss, Operate, duplicates::dismiss)
        .op("dismiss_held", "Dismiss a held delivery.")
        .keyed()
        .takes::<HeldReason>()
        .ok::<DecidedHeld>()
        .fails(HELD)
        .get("/refusals", Read, refusals::list)
        .op("list_refused", "List refused deliveries, latest first.")
        .query::<RefusedFilter>()
        .page::<RefusedDelivery>()
}

/// Why a doubt is not settled, or a result not corrected.
const SETTLE: &[Code] = &[
    Code::EffectNotFound,
    Code::NotInDoubt,
    Code::SettleTooSoon,
    Code::ResultNeeded,
    Code::DoubtsChanged,
    Code::NotAmendable,
    Code::BodyInvalid,
    Code::ReasonInvalid,
    Code::RunBusy,
    Code::JournalInconsistent,
];

/// Why nothing is said of a doubt.
const ATTEND: &[Code] = &[Code::EffectNotFound, Code::NotInDoubt, Code::BodyInvalid];

/// Why an effect is not undone or performed again.
const REOPEN: &[Code] = &[
    Code::EffectNotFound,
    Code::NotRepeatable,
    Code::ReasonInvalid,
    Code::RunBusy,
];

/// Why a held delivery is not decided.
const HELD: &[Code] = &[
    Code::DuplicateNotFound,
    Code::HeldDecided,
    Code::HeldNotAccepted,
    Code::ReasonInvalid,
];
