//! `schedule`: runs by the clock.

use std::ops::Range;

use semel_model::TriggerKind;
use serde::Serialize;
use serde_json::Value as Json;

use super::{Proof, TriggerSpec};
use crate::diagnostic::{Code, Report};
use crate::grammar::{FieldType, MINUTE, MapSchema, OneOf, YEAR, field};
use crate::schedule::{Cron, CronErrorPlace, Missed, Recurrence};
use crate::tree::{Record, Value};

/// The kind.
pub(crate) static SPEC: TriggerSpec = TriggerSpec {
    kind: TriggerKind::Schedule,
    about: "A schedule.",
    schema: &SCHEMA,
    check: Some(check),
    implied_key: |_| "the nominal time",
    proof: |_| Proof::Inside,
    has_instant: true,
};

static SCHEMA: MapSchema = MapSchema::new(
    ("`schedule`", "schedule"),
    "Starts runs by the clock. The key is the nominal time, so each instant fires once.",
    &[
        field(
            "cron",
            FieldType::Text,
            "Five fields: minute, hour, day, month, weekday.",
        ),
        field(
            "every",
            FieldType::Span(MINUTE, YEAR),
            "The interval, counted from 1970-01-01T00:00:00Z.",
        ),
        field(
            "zone",
            FieldType::Text,
            "The time zone of `cron`.",
        )
        .default("UTC"),
        field(
            "missed",
            FieldType::Word(&["skip", "once", "all"]),
            "Instants that passed while no server ran: none, the last, or each of them starts a run.",
        )
        .default("once"),
        field(
            "most",
            FieldType::Whole(1, 1_000),
            "With `missed: all`: the maximum number of runs to catch up on; the latest instants have them.",
        )
        .default("100"),
        field("input", FieldType::Constant, "The input of each run."),
    ],
)
.one_of(&OneOf {
    fields: &["cron", "every"],
    none: (
        "`schedule` does not say when",
        "write `cron: \"0 3 * * *\"` or `every: 1h`",
    ),
    many: ("a schedule has one recurrence", "keep `cron` or `every`"),
});

fn check(report: &mut Report<'_>, schedule: &Record) {
    check_recurrence(report, schedule);
    if schedule.has("most") && schedule.word("missed") != Some("all") {
        let message = "`most` is only for `missed: all`";
        let help = "leave it out, or write `missed: all`";
        let span = schedule.name_span("most");
        report.add(Code::FieldConflict, span, message, help);
    }
}

/// Whether `cron` can be read, and `zone` goes with it.
pub(crate) fn check_recurrence(report: &mut Report<'_>, schedule: &Record) {
    let zone = schedule.word("zone").unwrap_or("UTC");
    if let Some(cron) = schedule.text("cron")
        && !schedule.has("every")
        && let Err(problem) = Cron::parse(cron, zone)
    {
        let span = match problem.place {
            CronErrorPlace::Zone => schedule.value_span("zone"),
            CronErrorPlace::Pattern => schedule.value_span("cron"),
            CronErrorPlace::Field(field) => {
                within(report, schedule.value_span("cron"), cron, field)
            }
        };
        let (message, help) = (&problem.message, &problem.help);
        report.add(Code::ScheduleInvalid, span, message, help);
    }
    if schedule.has("zone") && schedule.has("every") {
        let message = "`zone` is only for `cron`";
        let span = schedule.name_span("zone");
        report.add(Code::FieldConflict, span, message, "leave it out");
    }
}

/// The bytes of the file behind a part of a text that stands there as it is.
fn within(
    report: &Report<'_>,
    whole: Range<usize>,
    text: &str,
    part: Range<usize>,
) -> Range<usize> {
    let written = report.source.get(whole.clone());
    match written.and_then(|written| written.find(text)) {
        Some(begin) => {
            let begin = whole.start + begin;
            begin + part.start..begin + part.end
        }
        None => whole,
    }
}

/// Runs by the clock. The nominal instant of a tick is its key.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduleTrigger {
    /// When it is due.
    pub recurrence: Recurrence,
    /// What happens to instants that passed while nothing ran.
    pub missed: Missed,
    /// The most instants that `missed: all` catches up on.
    pub most: u32,
    /// The input of each run.
    pub input: Json,
}

/// How many instants `missed: all` catches up on, where nothing is said.
const MOST: u32 = 100;

/// When a map with `cron` or `every` is due.
pub(crate) fn recurrence(record: &Record) -> Option<Recurrence> {
    Some(match record.text("cron") {
        Some(cron) => Recurrence::Cron(Box::new(Cron::parse(cron, record.word("zone")?).ok()?)),
        None => Recurrence::Every(record.span_of("every")?),
    })
}

pub(super) fn lower(record: &Record) -> Option<ScheduleTrigger> {
    let most = record.whole("most");
    Some(ScheduleTrigger {
        recurrence: recurrence(record)?,
        missed: match record.word("missed")? {
            "skip" => Missed::Skip,
            "all" => Missed::All,
            _ => Missed::Once,
        },
        most: most
            .and_then(|most| u32::try_from(most).ok())
            .unwrap_or(MOST),
        input: match record.value("input") {
            Some(Value::Json(input)) => input.clone(),
            Some(_) | None => Json::Null,
        },
    })
}
