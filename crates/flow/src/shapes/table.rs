//! The table of shapes.

use super::{Kind, ValueField, ValueShape};

const fn field(name: &'static str, kind: Kind, about: &'static str) -> ValueField {
    ValueField {
        name,
        kind,
        nullable: false,
        optional: false,
        about,
    }
}

impl ValueField {
    const fn or_null(mut self) -> Self {
        self.nullable = true;
        self
    }

    const fn maybe(mut self) -> Self {
        self.optional = true;
        self
    }
}

/// What an HTTP destination answered.
pub static HTTP: ValueShape = ValueShape {
    name: "http answer",
    about: "`response` of an `http` step, and `probe` where the probe asks by `http`",
    fields: &[
        field("status", Kind::Int, "The HTTP status."),
        field("headers", Kind::Map, "The headers, by lower-case name."),
        field(
            "json",
            Kind::Any,
            "The body, where it is JSON; otherwise null.",
        ),
        field("text", Kind::Text, "The body as text."),
        field(
            "resource",
            Kind::Of(&RESOURCE),
            "The body, where it is over 1 MiB.",
        )
        .maybe(),
        field("truncated", Kind::Bool, "True where the body was cut.").maybe(),
    ],
};

/// What a database answered.
pub static DB: ValueShape = ValueShape {
    name: "db answer",
    about: "`response` of a `db` step, and `probe` where the probe asks by `db`",
    fields: &[
        field("rows", Kind::Int, "How many rows the statement met."),
        field(
            "records",
            Kind::List,
            "What it gave, a map by column for each row.",
        ),
        field(
            "repeated",
            Kind::Bool,
            "With `execute`: whether the marker was there already.",
        )
        .maybe(),
    ],
};

/// The result of a `db` step.
pub static DB_RESULT: ValueShape = ValueShape {
    name: "db result",
    about: "`steps.ID.result` of a `db` step",
    fields: &[
        field("rows", Kind::Int, "How many rows the statement met."),
        field(
            "records",
            Kind::List,
            "What it gave, a map by column for each row.",
        )
        .or_null(),
        field(
            "resource",
            Kind::Text,
            "Where the result is over 64 KiB: it is kept there.",
        )
        .maybe(),
        field("bytes", Kind::Int, "How many bytes are kept there.").maybe(),
        field("type", Kind::Text, "Of which type.").maybe(),
    ],
};

/// What a command on another machine gave.
pub static SSH: ValueShape = ValueShape {
    name: "ssh answer",
    about: "`response` and result of an `ssh` step",
    fields: &[
        field(
            "exit",
            Kind::Int,
            "The exit status: 0, or the step has failed.",
        ),
        field("stdout", Kind::Text, "What the command wrote."),
        field("stderr", Kind::Text, "What it complained about."),
        field("truncated", Kind::Bool, "Whether some of that was cut."),
        field(
            "repeated",
            Kind::Bool,
            "Whether the marker was there already.",
        ),
    ],
};

/// What a command gave that goes on by itself.
pub static SSH_DETACHED: ValueShape = ValueShape {
    name: "ssh answer with `detach`",
    about: "`response` and result of an `ssh` step with `detach: true`",
    fields: &[
        field("started", Kind::Bool, "True."),
        field("pid", Kind::Any, "The command's process."),
    ],
};

/// What carried a message.
pub static NOTIFY: ValueShape = ValueShape {
    name: "notify answer",
    about: "`response` and result of a `notify` step: the first two by `smtp`, the others by `slack` and `webhook`",
    fields: &[
        field("message_id", Kind::Text, "The mail's id.").maybe(),
        field("reply", Kind::Text, "What the mail server said.").maybe(),
        field("status", Kind::Int, "The HTTP status.").maybe(),
        field("headers", Kind::Map, "The headers, by lower-case name.").maybe(),
        field("json", Kind::Any, "The body, where it is JSON.").maybe(),
        field("text", Kind::Text, "The body as text.").maybe(),
    ],
};

/// What a model said.
pub static LLM: ValueShape = ValueShape {
    name: "llm answer",
    about: "`response` of an `llm` step",
    fields: &[
        field("text", Kind::Text, "What it said.").or_null(),
        field(
            "json",
            Kind::Any,
            "What it said, where `schema` asks for JSON.",
        ),
        field("model", Kind::Text, "Which model it was.").or_null(),
        field("tokens", Kind::Of(&TOKENS), "How many tokens it took."),
        field(
            "cost",
            Kind::Number,
            "What it cost, where the connection has a `price`.",
        )
        .or_null(),
    ],
};

static TOKENS: ValueShape = ValueShape {
    name: "tokens",
    about: "`response.tokens` of an `llm` step",
    fields: &[
        field("input", Kind::Int, "Those of the question.").or_null(),
        field("output", Kind::Int, "Those of the answer.").or_null(),
    ],
};

/// A reference to bytes that are kept elsewhere.
pub static RESOURCE: ValueShape = ValueShape {
    name: "resource",
    about: "result of a `persist` step, and of any step whose result is over 64 KiB",
    fields: &[
        field("resource", Kind::Text, "`res://` and the digest."),
        field("bytes", Kind::Int, "How many bytes."),
        field("type", Kind::Text, "Of which media type."),
    ],
};

/// The result of an `emit` step.
pub static EMIT: ValueShape = ValueShape {
    name: "emit result",
    about: "result of an `emit` step",
    fields: &[field(
        "id",
        Kind::Text,
        "The event's id, which is the effect's.",
    )],
};

/// The result of a conditional `set`.
pub static KV_SET: ValueShape = ValueShape {
    name: "kv result of a conditional `set`",
    about: "result of `kv: { set }` with `if_absent` or `expect`",
    fields: &[
        field("set", Kind::Bool, "Whether it was set."),
        field("value", Kind::Any, "What is there now."),
    ],
};

/// The result of a `lock`.
pub static KV_LOCK: ValueShape = ValueShape {
    name: "kv result of `lock`",
    about: "result of `kv: { lock }`",
    fields: &[
        field(
            "token",
            Kind::Int,
            "Grows each time another run takes the lock.",
        ),
        field("until", Kind::Text, "Until when this run has it."),
    ],
};

/// The result of an `unlock`.
pub static KV_UNLOCK: ValueShape = ValueShape {
    name: "kv result of `unlock`",
    about: "result of `kv: { unlock }`",
    fields: &[field(
        "released",
        Kind::Bool,
        "False where this run no longer had it.",
    )],
};

/// What somebody decided.
pub static APPROVAL: ValueShape = ValueShape {
    name: "approval result",
    about: "result of an `approval` step",
    fields: &[
        field(
            "approved",
            Kind::Bool,
            "True; null where nobody decided and `on_timeout: continue`.",
        )
        .or_null(),
        field("by", Kind::Text, "Who decided.").or_null(),
        field("comment", Kind::Text, "What they said.").or_null(),
        field("at", Kind::Text, "When.").or_null(),
    ],
};

/// What came of a list.
pub static FOREACH: ValueShape = ValueShape {
    name: "foreach result",
    about: "result of a `foreach` step",
    fields: &[
        field("count", Kind::Int, "How many items there are."),
        field("succeeded", Kind::Int, "How many succeeded."),
        field("failed", Kind::Int, "How many failed or were cancelled."),
        field(
            "results",
            Kind::List,
            "What each item's last step gave; null for more than 1,000 items or 64 KiB.",
        )
        .or_null(),
        field(
            "failures",
            Kind::ListOf(&FAILURE),
            "The first 20 that failed.",
        ),
    ],
};

static FAILURE: ValueShape = ValueShape {
    name: "failure of an item",
    about: "an item of `failures` of a `foreach` result",
    fields: &[
        field("index", Kind::Int, "Its place in the list."),
        field("key", Kind::Text, "Its key."),
        field("run", Kind::Text, "Its run."),
        field("code", Kind::Text, "The fault's code.").or_null(),
        field("message", Kind::Text, "The fault's message.").or_null(),
    ],
};

/// What a call that does not wait gives.
pub static CALL: ValueShape = ValueShape {
    name: "call result without `wait`",
    about: "result of a `call` step with `wait: false`; otherwise it is the other run's result",
    fields: &[field("run", Kind::Text, "The run that was started.")],
};

/// What is known of a step.
pub static STEP: ValueShape = ValueShape {
    name: "step",
    about: "`steps.ID`, once the step has ended",
    fields: &[
        field(
            "result",
            Kind::Any,
            "Its result: see the shape of its kind.",
        ),
        field(
            "external_id",
            Kind::Any,
            "What the destination calls it, where the step has `external_id`.",
        )
        .or_null(),
        field(
            "status",
            Kind::Int,
            "The HTTP status of the answer, where there was one.",
        )
        .or_null(),
    ],
};

/// What is known of a run.
pub static RUN: ValueShape = ValueShape {
    name: "run",
    about: "`run` in steps and in the flow's `result`",
    fields: &[
        field("id", Kind::Text, "The run."),
        field("key", Kind::Text, "Its key."),
        field("flow", Kind::Text, "The flow."),
        field("release", Kind::Int, "The number of its release."),
    ],
};

/// What is known of a trigger.
pub static TRIGGER: ValueShape = ValueShape {
    name: "trigger",
    about: "`trigger`: what started the run",
    fields: &[
        field(
            "kind",
            Kind::Text,
            "`webhook`, `api`, `manual`, `event`, `schedule` or `call`.",
        ),
        field(
            "nominal",
            Kind::Text,
            "The instant, where a schedule started it.",
        )
        .maybe(),
    ],
};

/// What is known of a wait.
pub static WAIT: ValueShape = ValueShape {
    name: "wait",
    about: "`waits.ID` of a step that waits for a callback or an approval",
    fields: &[field(
        "url",
        Kind::Text,
        "Where the callback or the decision is sent to.",
    )],
};

/// Every shape, in reading order.
pub static ALL: [&ValueShape; 21] = [
    &STEP,
    &RUN,
    &TRIGGER,
    &WAIT,
    &HTTP,
    &DB,
    &DB_RESULT,
    &KV_SET,
    &KV_LOCK,
    &KV_UNLOCK,
    &LLM,
    &TOKENS,
    &NOTIFY,
    &SSH,
    &SSH_DETACHED,
    &RESOURCE,
    &EMIT,
    &APPROVAL,
    &FOREACH,
    &FAILURE,
    &CALL,
];
