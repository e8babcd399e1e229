//! `cron`: five fields, read and matched against the calendar of a time zone.
//!
//! The fields are croner's (lists, ranges, steps, names, `L`, `W`, `#`); it says which days a
//! pattern is for. Nothing here knows of offsets: [`seams`](super::dst) puts civil times on the
//! line of instants.

use std::ops::Range;

use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::{Date, DateTime, Time, Weekday, date};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::nearest::nearest;

/// How many days ahead a pattern is looked for: beyond the forty years in which every combination
/// of day, month and weekday comes round.
const DAYS_MAX: usize = 15_000;

/// From where a pattern is tried that may never be due.
const FIRST: Date = date(2024, 1, 1);

const FIELDS: [(&str, u8, u8); 5] = [
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
];

/// A pattern of times in a zone.
#[derive(Clone, Debug, PartialEq)]
pub struct Cron {
    pattern: String,
    days: croner::Cron,
    /// Minutes of a day on which it is due, in order.
    times: Vec<u16>,
    elapsed: bool,
    pub(super) zone: TimeZone,
    zone_name: String,
}

/// What is wrong with a pattern or its zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronProblem {
    /// Where it is.
    pub place: CronErrorPlace,
    /// What it is.
    pub message: String,
    /// The fix.
    pub help: String,
}

/// Where a mistake is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CronErrorPlace {
    /// In the pattern as a whole.
    Pattern,
    /// In these bytes of it.
    Field(Range<usize>),
    /// In the zone.
    Zone,
}

impl Cron {
    /// Reads a pattern and its zone.
    pub fn parse(pattern: &str, zone: &str) -> Result<Self, CronProblem> {
        let fields = fields(pattern)?;
        let normal = fields.join(" ").to_ascii_uppercase();
        let days = parser().parse(&normal).map_err(|error| CronProblem {
            place: CronErrorPlace::Pattern,
            message: format!("this is not a cron pattern: {error}"),
            help: "write five fields, such as `0 3 * * *` for every night at three".to_owned(),
        })?;
        let (zone, zone_name) = find_zone(zone)?;
        let times = (0..24 * 60_u16).filter(|minute| {
            let (hour, minute) = (u32::from(minute / 60), u32::from(minute % 60));
            let due = days.pattern.hour_match(hour).unwrap_or_default();
            due && days.pattern.minute_match(minute).unwrap_or_default()
        });
        let cron = Self {
            times: times.collect(),
            elapsed: fields[1] == "*",
            pattern: normal,
            days,
            zone,
            zone_name,
        };
        match cron.next_civil(FIRST.to_datetime(Time::midnight())) {
            Some(_) => Ok(cron),
            None => Err(CronProblem {
                place: CronErrorPlace::Pattern,
                message: "this schedule is never due: no month has such a day".to_owned(),
                help: "name a day that a month has; `L` is the last one".to_owned(),
            }),
        }
    }

    /// The fields, one blank between two.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// When it is due, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        self.days.describe()
    }

    /// The zone, by the name that the table of zones has for it.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.zone_name
    }

    /// Whether it goes by elapsed time: due in both passes of a repeated hour, and not in a
    /// skipped one.
    pub(super) const fn goes_by_elapsed_time(&self) -> bool {
        self.elapsed
    }

    /// The first time on the wall, from one on.
    pub(super) fn next_civil(&self, from: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut least = first_minute(from.time());
        for _ in 0..DAYS_MAX {
            if self.is_for(date) {
                let behind = self.times.partition_point(|minute| *minute < least);
                if let Some(minute) = self.times.get(behind) {
                    return Some(at_minute(date, *minute));
                }
            }
            date = date.tomorrow().ok()?;
            least = 0;
        }
        None
    }

    fn is_for(&self, date: Date) -> bool {
        let month = u32::from(date.month().unsigned_abs());
        let day = u32::from(date.day().unsigned_abs());
        let pattern = &self.days.pattern;
        pattern.month_match(month).unwrap_or_default()
            && pattern
                .day_match(i32::from(date.year()), month, day, weekday(date.weekday()))
                .unwrap_or_default()
    }
}

impl Serialize for Cron {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("cron", 2)?;
        map.serialize_field("pattern", &self.pattern)?;
        map.serialize_field("zone", &self.zone_name)?;
        map.end()
    }
}

/// The minute of the day that a time has reached or comes to next; 1,440 beyond the last.
fn first_minute(time: Time) -> u16 {
    let whole =
        u16::from(time.hour().unsigned_abs()) * 60 + u16::from(time.minute().unsigned_abs());
    let begun = time.second() > 0 || time.subsec_nanosecond() > 0;
    whole + u16::from(begun)
}

fn at_minute(date: Date, minute: u16) -> DateTime {
    let number = |value: u16| i8::try_from(value).unwrap_or_default();
    date.at(number(minute / 60), number(minute % 60), 0, 0)
}

const fn weekday(day: Weekday) -> croner::Weekday {
    match day {
        Weekday::Sunday => croner::Weekday::Sunday,
        Weekday::Monday => croner::Weekday::Monday,
        Weekday::Tuesday => croner::Weekday::Tuesday,
        Weekday::Wednesday => croner::Weekday::Wednesday,
        Weekday::Thursday => croner::Weekday::Thursday,
        Weekday::Friday => croner::Weekday::Friday,
        Weekday::Saturday => croner::Weekday::Saturday,
    }
}

fn parser() -> CronParser {
    CronParser::builder()
        .seconds(Seconds::Disallowed)
        .year(Year::Disallowed)
        .build()
}

/// The five fields, each judged by itself, so that the wrong one is named.
fn fields(pattern: &str) -> Result<Vec<&str>, CronProblem> {
    let found: Vec<&str> = pattern.split_whitespace().collect();
    if found.len() != FIELDS.len() {
        return Err(CronProblem {
            place: CronErrorPlace::Pattern,
            message: format!("a schedule has five fields, not {}", found.len()),
            help: "write minute, hour, day, month and weekday, such as `0 3 * * *`".to_owned(),
        });
    }
    let start = pattern.as_ptr() as usize;
    for (index, (field, (name, least, most))) in found.iter().zip(FIELDS).enumerate() {
        if is_sound(field, index) {
            continue;
        }
        let begin = field.as_ptr() as usize - start;
        return Err(CronProblem {
            place: CronErrorPlace::Field(begin..begin + field.len()),
            message: format!("`{field}` is not a valid {name}: it ranges from {least} to {most}"),
            help: "write numbers, `*`, lists `1,2`, ranges `1-5` or steps `*/15`".to_owned(),
        });
    }
    Ok(found)
}

/// Whether a field can stand in its place, all others being open.
fn is_sound(field: &str, index: usize) -> bool {
    let mut alone = ["*"; FIELDS.len()];
    alone[index] = field;
    let plain = |c: char| c.is_ascii_alphanumeric() || "*,-/#+".contains(c);
    let stepped = |part: &str| match part.split_once('/') {
        Some((_, step)) => step.parse::<u8>().is_ok_and(|step| step > 0),
        None => !part.is_empty(),
    };
    field.chars().all(plain)
        && field.split(',').all(stepped)
        && parser().parse(&alone.join(" ")).is_ok()
}

/// The zone of a name, and how the table writes it.
fn find_zone(name: &str) -> Result<(TimeZone, String), CronProblem> {
    let table = TimeZoneDatabase::bundled();
    if let Ok(zone) = table.get(name) {
        let known = zone.iana_name().unwrap_or(name).to_owned();
        return Ok((zone, known));
    }
    let names: Vec<String> = table.available().map(|name| name.to_string()).collect();
    let near = nearest(name, names.iter().map(String::as_str));
    Err(CronProblem {
        place: CronErrorPlace::Zone,
        message: format!("there is no time zone `{name}`"),
        help: match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => "write its name, such as `Europe/Berlin`".to_owned(),
        },
    })
}
