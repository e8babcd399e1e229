//! `db`: one SQL statement.

use semel_model::request::{DbRequest, ExternalRequest};
use semel_model::{EffectId, Guard, Span};
use serde::Serialize;
use serde_json::{Value, json};

use super::body::{BodyCheck, CONNECTION, Lowering};
use super::descriptor::{Docs, ResultOrigin, StepKind, no_link, waits_for_nobody};
use super::effect::{EffectKind, EffectRule, transaction};
use super::{Action, ActionKind, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::diagnostic::Code;
use crate::expr::{EvalError, Expr, Scope};
use crate::grammar::{FieldType, MapSchema, OneOf, SECOND, field};
use crate::shapes::{ValueKind, ValueShape, value};
use crate::template::Template;
use crate::tree::Record;
use crate::types::of_shape;

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Db,
    about: "Runs one SQL statement.",
    summary: "one SQL statement",
    docs: Docs::Page(include_str!("../../../../docs/steps/db.md")),
    article: "a",
    takes: FieldType::Map(&SCHEMA),
    effect: Some(EffectRule {
        changes: |body| Some(body.has("execute")),
        verb: |body| body.which(&["query", "execute"]),
        effect_kind,
        guards: &[Guard::Transaction],
        default_guard: transaction,
        asks_connection: false,
        review_is_usual: false,
        commits_here: false,
    }),
    undoable: true,
    connection: &["postgres"],
    check: Some(check),
    lower: |step| lower(step).map(Action::Db),
    response: |_| of_shape(&ANSWER),
    result: |_| of_shape(&RESULT),
    takes_result: true,
    takes_external_id: true,
    origin: ResultOrigin::World,
    holds: None,
    pauses: false,
    shapes: &[&ANSWER, &RESULT],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

pub(crate) static SCHEMA: MapSchema = MapSchema::new(
    ("`db`", "db"),
    "One SQL statement; a change commits together with its marker.",
    &[
        CONNECTION.needed("warehouse"),
        field(
            "query",
            FieldType::Text,
            "A statement that reads. Values are $1, $2, …",
        ),
        field(
            "execute",
            FieldType::Text,
            "A statement that changes. Values are $1, $2, …",
        ),
        field(
            "values",
            FieldType::List(&FieldType::Value),
            "The values, in order.",
        ),
        field(
            "rows",
            FieldType::Whole(0, 10_000),
            "How many rows a change must affect; otherwise it is rolled back and fails.",
        ),
        field(
            "timeout",
            FieldType::Span(1, 600 * SECOND),
            "The maximum time.",
        )
        .default("30s"),
    ],
)
.one_of(&OneOf {
    fields: &["query", "execute"],
    none: (
        "`db` does not say what to run",
        "add `query: SELECT …` or `execute: INSERT …`",
    ),
    many: ("a `db` step runs one statement", "split it into two steps"),
});

/// What a database answered.
pub(crate) static ANSWER: ValueShape = ValueShape {
    name: "db answer",
    about: "`response` of a `db` step, and `probe` if the probe uses `db`",
    fields: &[
        value(
            "rows",
            ValueKind::Int,
            "The number of rows affected or returned.",
        ),
        value(
            "records",
            ValueKind::List,
            "The rows that it returned, each a map by column.",
        ),
        value(
            "repeated",
            ValueKind::Bool,
            "With `execute`: whether the marker existed already.",
        )
        .maybe(),
    ],
};

/// The result of a `db` step.
static RESULT: ValueShape = ValueShape {
    name: "db result",
    about: "`steps.ID.result` of a `db` step",
    fields: &[
        value(
            "rows",
            ValueKind::Int,
            "The number of rows affected or returned.",
        ),
        value(
            "records",
            ValueKind::List,
            "The rows that it returned, each a map by column.",
        )
        .or_null(),
        value(
            "resource",
            ValueKind::Text,
            "If the result is over 64 KiB: the resource that has it.",
        )
        .maybe(),
        value(
            "bytes",
            ValueKind::Int,
            "The number of bytes of that resource.",
        )
        .maybe(),
        value("type", ValueKind::Text, "The media type of that resource.").maybe(),
    ],
};

/// An `INSERT` makes something new.
fn effect_kind(body: &Record) -> EffectKind {
    match body.text("execute") {
        Some(sql) if sql.trim_start().to_ascii_lowercase().starts_with("insert") => {
            EffectKind::Create
        }
        Some(_) | None => EffectKind::Update,
    }
}

fn check(check: &mut BodyCheck<'_, '_>, body: &Record) {
    for field in ["query", "execute"] {
        if body.text(field).is_some_and(|sql| sql.contains("${{")) {
            let message =
                "SQL must be constant: a value in its text could become part of the statement";
            let help = "write $1 in its place, and put the value under `values`";
            check.add(Code::SqlHoles, body.value_span(field), message, help);
        }
    }
    if body.has("rows") && body.has("query") {
        let message = "`rows` is only for `execute`";
        let span = body.name_span("rows");
        check.add(Code::FieldConflict, span, message, "leave it out");
    }
}

fn lower(step: &Lowering<'_>) -> Option<DbStep> {
    DbStep::of(step.body?)
}

/// One SQL statement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DbStep {
    /// The connection.
    pub connection: String,
    /// The statement: a constant.
    pub statement: String,
    /// What `$1`, `$2`, … stand for.
    pub values: Vec<Template>,
    /// How many rows a change must affect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// How long it may take.
    pub timeout: Span,
}

impl DbStep {
    /// The statement that a map asks for.
    pub(crate) fn of(body: &Record) -> Option<Self> {
        let statement = body.text("query").or_else(|| body.text("execute"))?;
        let values = body.list("values").iter();
        let values = values.map(|item| item.value.as_template().cloned());
        Some(Self {
            connection: body.text("connection")?.to_owned(),
            statement: statement.to_owned(),
            values: values.collect::<Option<_>>()?,
            rows: body.whole("rows").and_then(|rows| u64::try_from(rows).ok()),
            timeout: body.span_of("timeout")?,
        })
    }

    /// The statement with its values evaluated.
    ///
    /// # Errors
    ///
    /// If a value cannot be evaluated.
    pub fn render(&self, scope: &Scope<'_>) -> Result<DbRequest, EvalError> {
        let values = self.values.iter().map(|value| value.render(scope));
        Ok(DbRequest {
            connection: self.connection.clone(),
            statement: self.statement.clone(),
            values: values.collect::<Result<_, _>>()?,
            rows: self.rows,
            timeout: self.timeout,
        })
    }
}

impl ReleasedStep for DbStep {
    fn exprs(&self) -> Vec<&Expr> {
        self.values.iter().flat_map(Template::exprs).collect()
    }

    fn connection(&self) -> Option<&str> {
        Some(&self.connection)
    }

    fn work(
        &self,
        scope: &Scope<'_>,
        _: FindConnection<'_>,
        _: Option<EffectId>,
    ) -> Result<StepWork<'_>, RenderError> {
        Ok(StepWork::request(ExternalRequest::Db(self.render(scope)?)))
    }

    /// Whether the marker existed is for the journal: a repeat gives what the first gave.
    fn result_of(&self, response: &Value) -> Value {
        json!({ "rows": response.get("rows"), "records": response.get("records") })
    }
}
