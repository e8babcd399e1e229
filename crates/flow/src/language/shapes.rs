//! What expressions can name everywhere, as shapes, and the shapes of all kinds of steps.

use crate::shapes::{ValueKind, ValueShape, value};
use crate::steps::KINDS;

/// What is known of a step.
static STEP: ValueShape = ValueShape {
    name: "step",
    about: "`steps.ID`, once the step has ended",
    fields: &[
        value(
            "result",
            ValueKind::Any,
            "Its result: see the shape of its kind.",
        ),
        value(
            "external_id",
            ValueKind::Any,
            "The destination's id for it, if the step has `external_id`.",
        )
        .or_null(),
        value(
            "status",
            ValueKind::Int,
            "The HTTP status of the response, if there was one.",
        )
        .or_null(),
    ],
};

/// What is known of a run.
static RUN: ValueShape = ValueShape {
    name: "run",
    about: "`run` in steps and in the flow's `result`",
    fields: &[
        value("id", ValueKind::Text, "The run."),
        value("key", ValueKind::Text, "Its key."),
        value("flow", ValueKind::Text, "The flow."),
        value("release", ValueKind::Int, "The number of its release."),
    ],
};

/// What is known of a trigger.
static TRIGGER: ValueShape = ValueShape {
    name: "trigger",
    about: "`trigger`: what started the run",
    fields: &[
        value(
            "kind",
            ValueKind::Text,
            "`webhook`, `api`, `manual`, `event`, `schedule` or `call`.",
        ),
        value(
            "nominal",
            ValueKind::Text,
            "The nominal time, if a schedule started it.",
        )
        .maybe(),
    ],
};

/// What is known of a wait.
static WAIT: ValueShape = ValueShape {
    name: "wait",
    about: "`waits.ID` of a step that waits for a callback or an approval",
    fields: &[value(
        "url",
        ValueKind::Text,
        "The address for the callback or the decision.",
    )],
};

/// What is known of a step's own effect.
static EFFECT: ValueShape = ValueShape {
    name: "effect",
    about: "`effect` in what an effect sends and in its `probe`",
    fields: &[value(
        "key",
        ValueKind::Text,
        "The key that the destination is sent.",
    )],
};

/// Every shape, in reading order.
#[must_use]
pub fn value_shapes() -> Vec<&'static ValueShape> {
    let own = [&STEP, &RUN, &TRIGGER, &WAIT, &EFFECT];
    let kinds = KINDS.iter().flat_map(|kind| kind.shapes.iter().copied());
    own.into_iter().chain(kinds).collect()
}
