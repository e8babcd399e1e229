//! `ssh`: one command on another machine.

use semel_model::request::{Detach, ExternalRequest, SshRequest};
use semel_model::{EffectId, Guard, Span};
use serde::Serialize;

use super::body::{BodyCheck, CONNECTION, Lowering, list_of_texts, text, texts};
use super::descriptor::{Docs, ResultOrigin, StepKind, no_link, waits_for_nobody};
use super::effect::{EffectKind, EffectRule, always, no_verb};
use super::{Action, ActionKind, FindConnection, ReleasedStep, RenderError, StepWork};
use crate::diagnostic::Code;
use crate::expr::{EvalError, Expr, Scope};
use crate::grammar::{FieldType, MINUTE, MapSchema, field};
use crate::shapes::{ValueKind, ValueShape, value};
use crate::template::{TextMap, TextTemplate};
use crate::tree::Record;
use crate::types::{Type, of_shape};

/// The kind.
pub(crate) static KIND: StepKind = StepKind {
    kind: ActionKind::Ssh,
    about: "Runs a command on another machine.",
    summary: "one command on another machine",
    docs: Docs::Page(include_str!("../../../../docs/steps/ssh.md")),
    article: "an",
    takes: FieldType::Map(&SCHEMA),
    effect: Some(EffectRule {
        changes: always,
        verb: no_verb,
        effect_kind: |_| EffectKind::Update,
        guards: &[
            Guard::Review,
            Guard::Key,
            Guard::Natural,
            Guard::Probe,
            Guard::Repeat,
        ],
        default_guard,
        asks_connection: false,
        review_is_usual: false,
        commits_here: false,
    }),
    undoable: true,
    connection: &["ssh"],
    check: Some(check),
    lower: |step| lower(step).map(Box::new).map(Action::Ssh),
    response: result,
    result,
    takes_result: true,
    takes_external_id: true,
    origin: ResultOrigin::World,
    holds: None,
    pauses: false,
    shapes: &[&ANSWER, &DETACHED],
    ends_run: false,
    has_link: no_link,
    waits_for: waits_for_nobody,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`ssh`", "ssh"),
    "One command on another machine. Each argument is quoted; no shell interprets it.",
    &[
        CONNECTION.needed("builder"),
        field(
            "command",
            FieldType::List(&FieldType::Holes),
            "The program and its arguments.",
        )
        .needed("[make, release]"),
        field("stdin", FieldType::Holes, "The command's stdin."),
        field(
            "env",
            FieldType::Named(&FieldType::Holes),
            "Environment variables of the command.",
        ),
        field(
            "marker",
            FieldType::Truth,
            "A marker on the other machine records the outcome: the command runs once.",
        ),
        field(
            "detach",
            FieldType::Truth,
            "The command runs on after Semel disconnects.",
        ),
        field(
            "callback",
            FieldType::Holes,
            "With `detach`: the address to call when the command ends.",
        ),
        field(
            "timeout",
            FieldType::Span(1, 60 * MINUTE),
            "The maximum time.",
        )
        .default("5m"),
    ],
);

/// What a command on another machine gave.
static ANSWER: ValueShape = ValueShape {
    name: "ssh answer",
    about: "`response` and result of an `ssh` step",
    fields: &[
        value(
            "exit",
            ValueKind::Int,
            "The exit status: 0, otherwise the step failed.",
        ),
        value("stdout", ValueKind::Text, "The command's stdout."),
        value("stderr", ValueKind::Text, "The command's stderr."),
        value("truncated", ValueKind::Bool, "Whether the output was cut."),
        value(
            "repeated",
            ValueKind::Bool,
            "Whether the marker existed already.",
        ),
    ],
};

/// The result of a detached command.
static DETACHED: ValueShape = ValueShape {
    name: "ssh answer with `detach`",
    about: "`response` and result of an `ssh` step with `detach: true`",
    fields: &[
        value("started", ValueKind::Bool, "True."),
        value("pid", ValueKind::Any, "The command's process id."),
    ],
};

fn result(body: Option<&Record>) -> Type {
    match body.and_then(|body| body.truth("detach")) {
        Some(true) => of_shape(&DETACHED),
        Some(false) | None => of_shape(&ANSWER),
    }
}

/// The marker that a command leaves shows what happened to it.
fn default_guard(body: &Record) -> Guard {
    let marked = body.truth("marker") == Some(true) || body.truth("detach") == Some(true);
    match marked {
        true => Guard::Probe,
        false => Guard::Review,
    }
}

fn check(check: &mut BodyCheck<'_, '_>, body: &Record) {
    let detached = body.truth("detach") == Some(true);
    if detached && !body.has("callback") {
        let message = "a detached command calls back when it ends, and `callback` is missing";
        let help = "add `callback: \"${{ waits.ID.url }}\"`, and a `wait` step ID after this one";
        check.add(Code::MissingField, body.name_span("detach"), message, help);
    }
    if body.has("callback") && !detached {
        let message = "`callback` is only for a detached command";
        let help = "add `detach: true`, or leave it out";
        let span = body.name_span("callback");
        check.add(Code::FieldConflict, span, message, help);
    }
}

fn lower(step: &Lowering<'_>) -> Option<SshStep> {
    let body = step.body?;
    let detach = body.truth("detach") == Some(true);
    Some(SshStep {
        connection: body.text("connection")?.to_owned(),
        command: list_of_texts(body, "command")?,
        stdin: text(body, "stdin"),
        env: texts(body, "env", str::to_owned)?,
        marker: detach || body.truth("marker") == Some(true),
        callback: match detach {
            true => Some(text(body, "callback")?),
            false => None,
        },
        timeout: body.span_of("timeout")?,
    })
}

/// One command on another machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SshStep {
    /// The connection.
    pub connection: String,
    /// The program and its arguments.
    pub command: Vec<TextTemplate>,
    /// What it reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<TextTemplate>,
    /// Variables that it sees.
    pub env: TextMap<TextTemplate>,
    /// Whether a marker on the other machine shows what happened to it.
    pub marker: bool,
    /// The address that a detached command calls when it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback: Option<TextTemplate>,
    /// How long it may take.
    pub timeout: Span,
}

impl SshStep {
    /// The command with every hole evaluated.
    ///
    /// # Errors
    ///
    /// If a hole cannot be evaluated.
    pub fn render(&self, scope: &Scope<'_>) -> Result<SshRequest, EvalError> {
        let command = self.command.iter().map(|part| part.render(scope));
        let env = self.env.iter();
        let env = env.map(|(name, value)| Ok((name.clone(), value.render(scope)?)));
        let text =
            |text: &Option<TextTemplate>| text.as_ref().map(|it| it.render(scope)).transpose();
        let callback = text(&self.callback)?;
        Ok(SshRequest {
            connection: self.connection.clone(),
            command: command.collect::<Result<_, _>>()?,
            stdin: text(&self.stdin)?,
            env: env.collect::<Result<_, EvalError>>()?,
            marker: self.marker,
            detach: callback.map(|callback| Detach { callback }),
            timeout: self.timeout,
        })
    }
}

impl ReleasedStep for SshStep {
    fn exprs(&self) -> Vec<&Expr> {
        let texts = self.command.iter().chain(&self.stdin);
        let texts = texts.chain(self.env.values()).chain(&self.callback);
        texts.flat_map(TextTemplate::exprs).collect()
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
        Ok(StepWork::request(ExternalRequest::Ssh(self.render(scope)?)))
    }
}
