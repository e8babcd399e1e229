//! What every step can have, and what it can do.

use super::action::{DB, EMIT, KV, LLM, NOTIFY, PERSIST, PROBE, SSH, UNDO};
use super::control::{ALLOW, APPROVAL, CALL, FAIL, FOREACH, PARALLEL, RETRY, SWITCH, TASK, WAIT};
use super::http::HTTP;
use super::{Field, OneOf, Shape, Takes, YEAR, field};
use crate::read::names::Place;

/// What a step can do, in the order of the documentation.
pub(crate) const ACTIONS: &[&str] = &[
    "http", "db", "kv", "function", "llm", "notify", "ssh", "persist", "emit", "wait", "approval",
    "task", "call", "switch", "foreach", "parallel", "fail", "return",
];

pub(crate) static STEP: Shape =
    Shape::new(("a step", "step"), "One thing that a run does.", FIELDS).one_of(&OneOf {
        fields: ACTIONS,
        none: (
            "this step does nothing",
            "add one of: http, db, kv, function, llm, notify, ssh, persist, emit, wait, approval, \
             task, call, switch, foreach, parallel, fail, return",
        ),
        many: ("a step does one thing", "make two steps of it"),
    });

const FIELDS: &[Field] = &[
    field(
        "id",
        Takes::StepName,
        "What the step is called; its outcome is read as `steps.ID`.",
    )
    .needed("name"),
    field("about", Takes::Text, "What the step is for."),
    field(
        "if",
        Takes::Condition(Place::Step),
        "The step is skipped where this is false.",
    ),
    field("http", Takes::Map(&HTTP), "Sends one HTTP request."),
    field("db", Takes::Map(&DB), "Runs one SQL statement."),
    field(
        "kv",
        Takes::Map(&KV),
        "Reads or changes an entry that flows share.",
    ),
    field("function", Takes::Expr(Place::Step), "Works out a value."),
    field("llm", Takes::Map(&LLM), "Asks a language model."),
    field("notify", Takes::Map(&NOTIFY), "Sends a message to people."),
    field(
        "ssh",
        Takes::Map(&SSH),
        "Runs a command on another machine.",
    ),
    field(
        "persist",
        Takes::Map(&PERSIST),
        "Keeps a large value by reference.",
    ),
    field(
        "emit",
        Takes::Map(&EMIT),
        "Tells other flows that something happened.",
    ),
    field("wait", Takes::Map(&WAIT), "Parks the run."),
    field("approval", Takes::Map(&APPROVAL), "Asks a person."),
    field(
        "task",
        Takes::Map(&TASK),
        "Hands work to a program of your own.",
    ),
    field("call", Takes::Map(&CALL), "Runs another flow."),
    field("switch", Takes::Map(&SWITCH), "Goes one of several ways."),
    field(
        "foreach",
        Takes::Map(&FOREACH),
        "Does the same for each item of a list.",
    ),
    field(
        "parallel",
        Takes::Map(&PARALLEL),
        "Goes several ways together.",
    ),
    field("fail", Takes::Map(&FAIL), "Ends the run as failed."),
    field(
        "return",
        Takes::Expr(Place::Step),
        "Ends the run with this result.",
    ),
    field(
        "does",
        Takes::Word(&["create", "update", "notify"]),
        "What kind of change it is, where that does not follow from the call.",
    ),
    field(
        "key",
        Takes::Expr(Place::Step),
        "A business key of the effect, instead of one derived from run and step.",
    ),
    field(
        "scope",
        Takes::Word(&["flow", "namespace"]),
        "How far `key` holds.",
    )
    .default("flow"),
    field(
        "guard",
        Takes::Word(&["transaction", "key", "natural", "probe", "review", "repeat"]),
        "How the effect is made safe to meet twice.",
    ),
    field(
        "window",
        Takes::Span(1_000, YEAR),
        "With `guard: key`: how long the destination remembers a key. Absent: 24h, or what the \
         connection says.",
    ),
    field(
        "because",
        Takes::Text,
        "With `guard: repeat`: why a second time does no harm.",
    ),
    field(
        "probe",
        Takes::Map(&PROBE),
        "With `guard: probe`: the read that tells whether it happened.",
    ),
    field(
        "result",
        Takes::Expr(Place::Response),
        "What is kept of the answer, over `response`, which has what its kind of step answers: docs/shapes.md.",
    ),
    field(
        "external_id",
        Takes::Expr(Place::ExternalId),
        "What the destination calls it, over `result`.",
    ),
    field(
        "undo",
        Takes::Map(&UNDO),
        "What takes the effect back, where `on_failure: undo` or a person asks for it.",
    ),
    field(
        "retry",
        Takes::Map(&RETRY),
        "How often a failed attempt is made again.",
    ),
    field(
        "allow",
        Takes::Maps(&ALLOW),
        "Rules that do not hold for this step, each with a reason.",
    ),
];
