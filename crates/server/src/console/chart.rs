//! Charts of what happened by the hour: stacked bars, drawn here.
//!
//! Geometry is in attributes and colours are in the stylesheet, so that a page needs no style of its own.
//! Words stand beside the picture and not in it, so that they keep their size on a narrow screen; one table
//! has everything that the pictures show.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use semel_api::types::HourTallies;

use super::markup::{Markup, assembled, escape, table_to_scroll};
use super::words;

const HEIGHT: u64 = 80;
const STEP: usize = 10;
const BAR: usize = 8;

const HOUR_SECS: i64 = 3_600;

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

/// The counts of a stretch of hours, each with all that was counted in it.
pub(super) struct Hours<'a> {
    found: &'a HourTallies,
    hours: Vec<Timestamp>,
    zone: TimeZone,
}

impl<'a> Hours<'a> {
    /// Every hour from the first that is counted up to now.
    pub(super) fn new(found: &'a HourTallies, now: Timestamp, zone: &TimeZone) -> Self {
        let first = found.since.as_second();
        let count = (now.as_second() - first).max(0) / HOUR_SECS + 1;
        // The API gives no more; a clock that was moved must not make a page without end.
        let hours = (0..count.min(200)).filter_map(|number| {
            let at = first.checked_add(number * HOUR_SECS)?;
            Timestamp::from_second(at).ok()
        });
        Self {
            found,
            hours: hours.collect(),
            zone: zone.clone(),
        }
    }

    /// How much of something there was in an hour.
    fn count(&self, hour: Timestamp, what: &str) -> u64 {
        let items = self.found.items.iter();
        let same = items.filter(|it| it.hour == hour && it.what == what);
        same.map(|it| it.count.max(0).unsigned_abs()).sum()
    }

    /// How much of something there was altogether.
    pub(super) fn sum(&self, what: &str) -> u64 {
        let hours = self.hours.iter();
        hours.map(|hour| self.count(*hour, what)).sum()
    }

    fn name(&self, hour: Timestamp) -> String {
        hour.to_zoned(self.zone.clone())
            .strftime("%H:%M")
            .to_string()
    }
}

/// Draws a chart, with its legend.
pub(super) fn draw(chart: &Chart, hours: &Hours<'_>) -> Markup {
    let of_hour = |hour: &Timestamp| -> u64 {
        let series = chart.series.iter();
        series.map(|it| hours.count(*hour, it.what)).sum()
    };
    let most = hours.hours.iter().map(of_hour).max().unwrap_or(0);
    let width = hours.hours.len() * STEP;
    let (id, title) = (chart.id, chart.title);
    let mut markup = format!(
        "<figure class=\"chart\"><figcaption id=\"{id}\">{title}</figcaption>{}\
         <p class=\"most\">At most {most} an hour</p>\
         <svg viewBox=\"0 0 {width} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"{id} {id}-told\">\
         <desc id=\"{id}-told\">{}</desc>",
        legend(chart, hours),
        told(chart, hours, most),
    );
    for (number, hour) in hours.hours.iter().enumerate() {
        let mut below = 0;
        for series in chart.series {
            let count = hours.count(*hour, series.what);
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
                hours.name(*hour),
                series.name
            );
        }
    }
    let first = hours.hours.first().map(|hour| hours.name(*hour));
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
fn legend(chart: &Chart, hours: &Hours<'_>) -> String {
    let mut markup = "<ul class=\"legend\">".to_owned();
    for series in chart.series {
        let _ = write!(
            markup,
            "<li><span class=\"shape {}\" aria-hidden=\"true\">{}</span><b>{}</b> {}</li>",
            series.class,
            series.shape,
            hours.sum(series.what),
            series.name
        );
    }
    markup.push_str("</ul>");
    markup
}

/// What the picture shows, for who does not see it.
fn told(chart: &Chart, hours: &Hours<'_>, most: u64) -> String {
    let sums: Vec<String> = chart
        .series
        .iter()
        .map(|it| format!("{} {}", hours.sum(it.what), it.name))
        .collect();
    let count = words::count(hours.hours.len(), "hour", "hours");
    escape(&format!(
        "Bars for {count}: {}. {most} in one hour at most. The table below has every hour.",
        sums.join(", ")
    ))
}

/// Everything that charts show, as a table, the latest hour first.
pub(super) fn as_table(caption: &str, charts: &[Chart], hours: &Hours<'_>) -> Markup {
    let series: Vec<&Series> = charts.iter().flat_map(|it| it.series).collect();
    let columns: Vec<&'static str> = ["Hour"]
        .into_iter()
        .chain(series.iter().map(|it| it.name))
        .collect();
    let row = |hour: &Timestamp| {
        let exact = words::exact(*hour, &hours.zone);
        let name = assembled(format!(
            "<time datetime=\"{hour}\" title=\"{exact}\">{}</time>",
            hours.name(*hour)
        ));
        let counts = series.iter().map(|it| hours.count(*hour, it.what));
        let counts = counts.map(|count| Markup::text(&count.to_string()));
        [name].into_iter().chain(counts).collect()
    };
    let rows: Vec<Vec<Markup>> = hours.hours.iter().rev().map(row).collect();
    table_to_scroll(caption, &columns, &rows)
}

#[cfg(test)]
mod tests {
    use semel_api::types::HourCount;

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

    fn found(counts: &[(i64, &str, i64)]) -> HourTallies {
        let items = counts.iter().map(|(hour, what, count)| HourCount {
            hour: Timestamp::from_second(hour * HOUR_SECS).unwrap(),
            what: (*what).to_owned(),
            count: *count,
        });
        HourTallies {
            since: Timestamp::UNIX_EPOCH,
            items: items.collect(),
        }
    }

    #[test]
    fn bars_stand_on_each_other_and_every_hour_is_in_the_table() {
        let found = found(&[(0, "succeeded", 30), (0, "failed", 10), (2, "failed", 1)]);
        let now = Timestamp::from_second(2 * HOUR_SECS + 60).unwrap();
        let hours = Hours::new(&found, now, &TimeZone::UTC);

        let drawn = draw(&CHART, &hours).to_string();
        let table = as_table("By the hour", &[CHART], &hours).to_string();

        assert_eq!(drawn.matches("<rect").count(), 3);
        let good = "<rect class=\"c-good\" x=\"1\" y=\"20\" width=\"8\" height=\"60\">";
        let bad = "<rect class=\"c-bad\" x=\"1\" y=\"0\" width=\"8\" height=\"20\">";
        assert!(drawn.contains(good) && drawn.contains(bad), "{drawn}");
        assert!(
            drawn.contains("Bars for 3 hours: 30 succeeded, 11 failed. 40 in one hour at most."),
            "{drawn}"
        );
        assert!(drawn.contains("<title>02:00: 1 failed</title>"), "{drawn}");
        assert_eq!(table.matches("<tr>").count(), 4, "{table}");
        assert!(!drawn.contains("style="), "colours are in the stylesheet");
    }

    #[test]
    fn a_day_without_runs_is_a_chart_without_bars() {
        let found = found(&[]);
        let hours = Hours::new(&found, Timestamp::UNIX_EPOCH, &TimeZone::UTC);

        let drawn = draw(&CHART, &hours).to_string();

        assert!(!drawn.contains("<rect"), "{drawn}");
        assert!(drawn.contains("Bars for 1 hour: 0 succeeded"), "{drawn}");
    }
}
