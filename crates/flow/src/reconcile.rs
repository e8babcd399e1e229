//! `reconcile`: a list of what exists at the source, to compare with the runs that a flow has.
//!
//! A delivery that never came leaves no trace at Semel. The source knows: a pass reads its list,
//! finds the run of each item by the item's key, and starts a run for each item that has none.

use semel_model::Span;
use semel_model::request::ExternalRequest;
use serde::Serialize;
use serde_json::Value as Json;

use crate::expr::{Expr, Scope};
use crate::grammar::{DAY, FieldType, MINUTE, MapSchema, OneOf, Place, YEAR, field};
use crate::schedule::Recurrence;
use crate::steps::{DbStep, FindConnection, HttpStep, RenderError, db, http};
use crate::tree::Record;
use crate::triggers;

pub(crate) static RECONCILE: MapSchema = MapSchema::new(
    ("`reconcile`", "reconcile"),
    "Compares what exists at the source with the runs of this flow, and starts what no delivery brought.",
    &[
        field(
            "every",
            FieldType::Span(MINUTE, YEAR),
            "The interval, counted from 1970-01-01T00:00:00Z.",
        ),
        field(
            "cron",
            FieldType::Text,
            "Five fields: minute, hour, day, month, weekday.",
        ),
        field("zone", FieldType::Text, "The time zone of `cron`.").default("UTC"),
        field(
            "list",
            FieldType::Map(&LIST),
            "What to read. Its expressions see `window.start`, `window.end` and `env`.",
        )
        .needed("{ http: { get: \"https://…\" } }")
        .sees("window"),
        field(
            "in",
            FieldType::Expr(Place::Listed),
            "The items in `result`, page by page. Absent: `result.json`, with `db` `result.records`.",
        ),
        field(
            "key",
            FieldType::Expr(Place::Item),
            "The key that the trigger computes for the same thing.",
        )
        .needed("item.id"),
        field(
            "at",
            FieldType::Expr(Place::Item),
            "When the item came into being: a time, or seconds since 1970. Only items of the window start runs.",
        )
        .needed("item.created_at"),
        field(
            "when",
            FieldType::Condition(Place::Item),
            "Leaves out items for which it is false.",
        ),
        field(
            "input",
            FieldType::Expr(Place::Item),
            "The input of a run that was missed. Absent: the item.",
        ),
        field(
            "same",
            FieldType::Condition(Place::ItemOfRun),
            "Whether `run.result` agrees with `item`. What differs is reported, never acted on.",
        ),
        field(
            "window",
            FieldType::Span(MINUTE, YEAR),
            "How far back a pass looks; at most `keep`.",
        )
        .needed("7d"),
        field(
            "grace",
            FieldType::Span(0, 30 * DAY),
            "Younger items are left to their delivery.",
        )
        .default("15m"),
    ],
)
.one_of(&OneOf {
    fields: &["every", "cron"],
    none: (
        "`reconcile` does not say when",
        "write `every: 1h` or `cron: \"0 3 * * *\"`",
    ),
    many: ("a reconcile has one recurrence", "keep `every` or `cron`"),
});

static LIST: MapSchema = MapSchema::new(
    ("`list`", "list"),
    "The read that lists what exists at the source.",
    &[
        field(
            "http",
            FieldType::Map(&http::SCHEMA),
            "The request: a `get`. With `pages`, one page is read at a time.",
        ),
        field(
            "db",
            FieldType::Map(&db::SCHEMA),
            "The statement: a `query`.",
        ),
    ],
)
.one_of(&OneOf {
    fields: &["http", "db"],
    none: (
        "`list` does not say what to read",
        "add `http: { get: \"https://…\" }`",
    ),
    many: ("a list is one read", "keep `http` or `db`"),
});

/// What is compared with the runs of a flow, and when.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reconcile {
    /// When a pass is due.
    pub recurrence: Recurrence,
    /// What is read.
    pub list: ListRequest,
    /// The items in `result`; otherwise where its kind has them.
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    pub items: Option<Expr>,
    /// The key of an item, as the trigger computes it.
    pub key: Expr,
    /// When an item came into being.
    pub at: Expr,
    /// Which items count; all, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<Expr>,
    /// The input of a run that was missed; the item, when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Expr>,
    /// Whether a run's result agrees with its item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same: Option<Expr>,
    /// How far back a pass looks.
    pub window: Span,
    /// Younger items are left to their delivery.
    pub grace: Span,
}

/// The read that lists what exists at the source.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListRequest {
    /// A `get`.
    Http(Box<HttpStep>),
    /// A `query`.
    Db(Box<DbStep>),
}

impl ListRequest {
    /// The connection that it goes over, where it names one.
    #[must_use]
    pub fn connection(&self) -> Option<&str> {
        match self {
            Self::Http(request) => request.connection.as_deref(),
            Self::Db(query) => Some(&query.connection),
        }
    }

    /// How long the read may take.
    #[must_use]
    pub const fn timeout(&self) -> Span {
        match self {
            Self::Http(request) => request.timeout,
            Self::Db(query) => query.timeout,
        }
    }

    /// What is sent, with every expression evaluated.
    ///
    /// # Errors
    ///
    /// Where an expression cannot be evaluated, or the connection is not there.
    pub fn render(
        &self,
        scope: &Scope<'_>,
        find: FindConnection<'_>,
    ) -> Result<ExternalRequest, RenderError> {
        Ok(match self {
            Self::Http(request) => ExternalRequest::Http(request.render(scope, find, None)?),
            Self::Db(query) => ExternalRequest::Db(query.render(scope)?),
        })
    }

    /// Where the items of an answer are, if the author does not say.
    #[must_use]
    pub const fn items_field(&self) -> &'static str {
        match self {
            Self::Http(_) => "json",
            Self::Db(_) => "records",
        }
    }
}

pub(crate) fn lower(record: &Record, env: &Json) -> Option<Reconcile> {
    let expr = |name: &str| record.expr(name).map(|placed| placed.expr.clone());
    let list = record.map("list")?;
    let list = match list.map(db::KIND.name()) {
        Some(query) => ListRequest::Db(Box::new(DbStep::of(query)?)),
        None => {
            let request = list.map(http::KIND.name())?;
            ListRequest::Http(Box::new(HttpStep::of(request, env)?))
        }
    };
    Some(Reconcile {
        recurrence: triggers::recurrence(record)?,
        list,
        items: expr("in"),
        key: expr("key")?,
        at: expr("at")?,
        when: expr("when"),
        input: expr("input"),
        same: expr("same"),
        window: record.span_of("window")?,
        grace: record.span_of("grace")?,
    })
}
