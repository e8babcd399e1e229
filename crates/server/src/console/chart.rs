//! Charts of what happened, by the minute, the hour or the day: stacked bars, drawn here.
//!
//! Geometry is in attributes and colours are in the stylesheet, so that a page needs no style of its own.
//! Words stand beside the picture and not in it, so that they keep their size on a narrow screen; one table
//! has everything that the pictures show.

use std::collections::HashMap;
use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use semel_api::types::TallySeries;
use semel_model::Span;

use super::markup::{Markup, assembled, escape, table_to_scroll};
use super::words;

const HEIGHT: u64 = 80;
const STEP: usize = 10;
const BAR: usize = 8;

/// The most bars of a chart.
const INTERVALS_MAX: i64 = 200;

/// What one colour of a chart stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Series {
    /// The word of the tallies.
    pub(super) what: &'static str,
    /// What it is called.
    pub(super) name: &'static str,
    /// Its colour.
    pub(super) class: &'static str,
    /// Its shape in the legend, so that no colour stands alone.
    pub(super) shape: &'static str,
}

/// A chart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chart {
    /// What its identity begins with.
    pub(super) id: &'static str,
    /// What it shows.
    pub(super) title: &'static str,
    /// What is stacked, from below.
    pub(super) series: &'static [Series],
}

/// The counts of a time, one interval of it after the other.
pub(super) struct Intervals<'a> {
    counts: HashMap<(Timestamp, &'a str), u64>,
    starts: Vec<Timestamp>,
    words: IntervalWords,
    zone: TimeZone,
}

/// What intervals of one length are called.
struct IntervalWords {
    /// "hour".
    one: String,
    /// "hours".
    more: String,
    /// "an hour".
    length: String,
    /// How the beginning of one is written.
    format: &'static str,
    /// Days are those of UTC, whatever zone the reader is in.
    is_day: bool,
}

impl IntervalWords {
    fn of(every: Span) -> Self {
        let plain = |one: &str, article: &str, format| Self {
            one: one.to_owned(),
            more: format!("{one}s"),
            length: format!("{article} {one}"),
            format,
            is_day: one == "day",
        };
        match every.as_millis() / 1_000 {
            60 => plain("minute", "a", "%H:%M"),
            3_600 => plain("hour", "an", "%H:%M"),
            86_400 => plain("day", "a", "%d %b"),
            _ => Self {
                one: format!("interval of {every}"),
                more: format!("intervals of {every}"),
                length: every.to_string(),
                format: "%a %H:%M",
                is_day: false,
            },
        }
    }
}

impl<'a> Intervals<'a> {
    /// Every interval from the first that is counted up to now.
    pub(super) fn new(found: &'a TallySeries, now: Timestamp, zone: &TimeZone) -> Self {
        let first = found.since.as_second();
        let every = i64::try_from(found.every.as_millis() / 1_000).unwrap_or(i64::MAX);
        let every = every.max(1);
        let count = (now.as_second() - first).max(0) / every + 1;
        // The API gives no more; a clock that was moved must not make a page without end.
        let starts = (0..count.min(INTERVALS_MAX)).filter_map(|number| {
            let at = first.checked_add(number.checked_mul(every)?)?;
            Timestamp::from_second(at).ok()
        });
        let items = found.items.iter();
        let counts = items.map(|it| ((it.at, it.what.as_str()), it.count.max(0).unsigned_abs()));
        let words = IntervalWords::of(found.every);
        let zone = if words.is_day { &TimeZone::UTC } else { zone };
        Self {
            counts: counts.collect(),
            starts: starts.collect(),
            zone: zone.clone(),
            words,
        }
    }

    /// What one of them is called: an hour.
    pub(super) fn one(&self) -> &str {
        &self.words.one
    }

    /// How long one of them is: an hour.
    pub(super) fn length(&self) -> &str {
        &self.words.length
    }

    /// How much of something there was in one of them.
    fn count(&self, at: Timestamp, what: &str) -> u64 {
        self.counts.get(&(at, what)).copied().unwrap_or_default()
    }

    /// How much of something there was altogether.
    fn sum(&self, what: &str) -> u64 {
        self.starts.iter().map(|at| self.count(*at, what)).sum()
    }

    fn name(&self, at: Timestamp) -> String {
        at.to_zoned(self.zone.clone())
            .strftime(self.words.format)
            .to_string()
    }
}

/// Draws a chart, with its legend.
pub(super) fn draw(chart: &Chart, times: &Intervals<'_>) -> Markup {
    let of_one = |at: &Timestamp| -> u64 {
        let series = chart.series.iter();
        series.map(|it| times.count(*at, it.what)).sum()
    };
    let most = times.starts.iter().map(of_one).max().unwrap_or(0);
    let width = times.starts.len() * STEP;
    let (id, title) = (chart.id, chart.title);
    let mut markup = format!(
        "<figure class=\"chart\"><figcaption id=\"{id}\">{title}</figcaption>{}\
         <p class=\"most\">At most {most} in {}</p>\
         <svg viewBox=\"0 0 {width} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"{id} {id}-told\">\
         <desc id=\"{id}-told\">{}</desc>",
        legend(chart, times),
        escape(times.length()),
        told(chart, times, most),
    );
    for (number, at) in times.starts.iter().enumerate() {
        let mut below = 0;
        for series in chart.series {
            let count = times.count(*at, series.what);
            if count == 0 {
                continue;
            }
            // Rounded as a whole from below, so that no gap comes between two of them; what is there is seen.
            let from = scaled(below, most);
            let to = scaled(below + count, most).max(from + 1);
            below += count;
            let _ = write!(
                markup,
                "<rect class=\"c-{}\" x=\"{}\" y=\"{}\" width=\"{BAR}\" height=\"{}\"><title>{}: {count} {}</title></rect>",
                series.class,
                number * STEP + (STEP - BAR) / 2,
                HEIGHT.saturating_sub(to),
                to - from,
                times.name(*at),
                series.name
            );
        }
    }
    let first = times.starts.first().map(|at| times.name(*at));
    let _ = write!(
        markup,
        "<line class=\"base\" x1=\"0\" y1=\"{HEIGHT}\" x2=\"{width}\" y2=\"{HEIGHT}\"/></svg>\
         <p class=\"axis\"><span>{}</span><span>now</span></p></figure>",
        first.unwrap_or_default()
    );
    assembled(markup)
}

fn scaled(count: u64, most: u64) -> u64 {
    match most {
        0 => 0,
        most => count.saturating_mul(HEIGHT) / most,
    }
}

/// What the colours stand for, with how much of each there was.
fn legend(chart: &Chart, times: &Intervals<'_>) -> String {
    let mut markup = "<ul class=\"legend\">".to_owned();
    for series in chart.series {
        let _ = write!(
            markup,
            "<li><span class=\"shape {}\" aria-hidden=\"true\">{}</span><b>{}</b> {}</li>",
            series.class,
            series.shape,
            times.sum(series.what),
            series.name
        );
    }
    markup.push_str("</ul>");
    markup
}

/// What the picture shows, for who does not see it.
fn told(chart: &Chart, times: &Intervals<'_>, most: u64) -> String {
    let sums: Vec<String> = chart
        .series
        .iter()
        .map(|it| format!("{} {}", times.sum(it.what), it.name))
        .collect();
    let IntervalWords {
        one, more, length, ..
    } = &times.words;
    let count = words::count(times.starts.len(), one, more);
    escape(&format!(
        "Bars for {count}: {}. {most} in {length} at most. The table below has every {one}.",
        sums.join(", ")
    ))
}

/// Everything that charts show, as a table, the latest interval first.
pub(super) fn as_table(caption: &str, charts: &[Chart], times: &Intervals<'_>) -> Markup {
    let series: Vec<&Series> = charts.iter().flat_map(|it| it.series).collect();
    let columns: Vec<&'static str> = ["From"]
        .into_iter()
        .chain(series.iter().map(|it| it.name))
        .collect();
    let row = |at: &Timestamp| {
        let exact = words::exact(*at, &times.zone);
        let name = assembled(format!(
            "<time datetime=\"{at}\" title=\"{exact}\">{}</time>",
            times.name(*at)
        ));
        let counts = series.iter().map(|it| times.count(*at, it.what));
        let counts = counts.map(|count| Markup::text(&count.to_string()));
        [name].into_iter().chain(counts).collect()
    };
    let rows: Vec<Vec<Markup>> = times.starts.iter().rev().map(row).collect();
    table_to_scroll(caption, &columns, &rows)
}

#[cfg(test)]
mod tests {
    use semel_api::types::TallyPoint;

    use super::*;

    const CHART: Chart = Chart {
        id: "ends",
        title: "Runs that ended",
        series: &[
            Series {
                what: "succeeded",
                name: "succeeded",
                class: "good",
                shape: "●",
            },
            Series {
                what: "failed",
                name: "failed",
                class: "bad",
                shape: "■",
            },
        ],
    };

    const HOUR_SECS: i64 = 3_600;

    fn found(every: &str, counts: &[(i64, &str, i64)]) -> TallySeries {
        let every: Span = every.parse().unwrap();
        let secs = i64::try_from(every.as_millis() / 1_000).unwrap();
        let items = counts.iter().map(|(number, what, count)| TallyPoint {
            at: Timestamp::from_second(number * secs).unwrap(),
            what: (*what).to_owned(),
            count: *count,
        });
        TallySeries {
            since: Timestamp::UNIX_EPOCH,
            every,
            items: items.collect(),
        }
    }

    #[test]
    fn bars_stand_on_each_other_and_every_hour_is_in_the_table() {
        let counts = [(0, "succeeded", 30), (0, "failed", 10), (2, "failed", 1)];
        let found = found("1h", &counts);
        let now = Timestamp::from_second(2 * HOUR_SECS + 60).unwrap();
        let times = Intervals::new(&found, now, &TimeZone::UTC);

        let drawn = draw(&CHART, &times).to_string();
        let table = as_table("By the hour", &[CHART], &times).to_string();

        assert_eq!(drawn.matches("<rect").count(), 3);
        let good = "<rect class=\"c-good\" x=\"1\" y=\"20\" width=\"8\" height=\"60\">";
        let bad = "<rect class=\"c-bad\" x=\"1\" y=\"0\" width=\"8\" height=\"20\">";
        assert!(drawn.contains(good) && drawn.contains(bad), "{drawn}");
        assert!(
            drawn.contains("Bars for 3 hours: 30 succeeded, 11 failed. 40 in an hour at most."),
            "{drawn}"
        );
        assert!(drawn.contains("<title>02:00: 1 failed</title>"), "{drawn}");
        assert_eq!(table.matches("<tr>").count(), 4, "{table}");
        assert!(!drawn.contains("style="), "colours are in the stylesheet");
    }

    #[test]
    fn a_bar_is_named_as_its_length_asks_for_and_a_day_is_one_of_utc() {
        let zone = TimeZone::fixed(jiff::tz::offset(-5));
        let now = Timestamp::from_second(24 * HOUR_SECS + 1).unwrap();
        for (every, says) in [
            ("1h", "19:00: 7 failed</title>"),
            ("3h", "Wed 19:00: 7 failed</title>"),
            ("3h", "Bars for 9 intervals of 3h: "),
            ("3h", "7 in 3h at most."),
            ("1d", "01 Jan: 7 failed</title>"),
            ("1d", "Bars for 2 days: "),
        ] {
            let found = found(every, &[(0, "failed", 7)]);
            let drawn = draw(&CHART, &Intervals::new(&found, now, &zone)).to_string();
            assert!(drawn.contains(says), "{every}, {says}: {drawn}");
        }
    }

    #[test]
    fn a_day_without_runs_is_a_chart_without_bars() {
        let found = found("1h", &[]);
        let times = Intervals::new(&found, Timestamp::UNIX_EPOCH, &TimeZone::UTC);

        let drawn = draw(&CHART, &times).to_string();

        assert!(!drawn.contains("<rect"), "{drawn}");
        assert!(drawn.contains("Bars for 1 hour: 0 succeeded"), "{drawn}");
    }
}
