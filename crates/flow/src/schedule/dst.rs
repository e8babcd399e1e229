//! Times on the wall, put on the line of instants: what happens where a zone changes its offset.
//!
//! Between two changes the offset stands still, and a time on the wall is one instant. At a change
//! the wall clock jumps ahead (a gap) or back (a fold), and only there do the rules of
//! [`schedule`](super) decide.

use jiff::civil::DateTime;
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp};

use super::Cron;

/// The instants of a pattern, in order.
pub(super) struct CronInstants<'a> {
    cron: &'a Cron,
    /// The earliest instant that may come next.
    from: Option<Timestamp>,
    segment: Segment,
}

/// A stretch of time in which the offset stands still.
struct Segment {
    /// When the offset came into force; none if it always was.
    start: Option<Seam>,
    offset: Offset,
    /// The first instant behind it.
    end: Option<Timestamp>,
}

/// A change of the offset.
struct Seam {
    at: Timestamp,
    before: Offset,
}

impl<'a> CronInstants<'a> {
    pub(super) fn after(cron: &'a Cron, at: Timestamp) -> Self {
        let from = just_after(at);
        Self {
            cron,
            segment: Segment::around(&cron.zone, from.unwrap_or(at)),
            from,
        }
    }

    /// The next instant within the segment.
    fn within(&self, from: Timestamp) -> Found {
        let Segment { start, offset, end } = &self.segment;
        let mut floor = offset.to_datetime(from);
        if let Some(seam) = start
            && !self.cron.goes_by_elapsed_time()
        {
            let reached = seam.before.to_datetime(seam.at);
            if from <= seam.at && self.is_due_between(reached, floor) {
                return Found::At(seam.at);
            }
            // In a fold the wall clock shows again what was due in the first pass.
            floor = floor.max(reached);
        }
        let Some(civil) = self.cron.next_civil(floor) else {
            return Found::Never;
        };
        match (offset.to_timestamp(civil), end) {
            (Ok(at), Some(end)) if at >= *end => Found::Later(*end),
            (Ok(at), _) => Found::At(at),
            (Err(_), _) => Found::Never,
        }
    }

    /// Whether the pattern is due from one time on the wall up to another, which is not included.
    fn is_due_between(&self, from: DateTime, to: DateTime) -> bool {
        from < to && self.cron.next_civil(from).is_some_and(|due| due < to)
    }
}

enum Found {
    At(Timestamp),
    /// Not before the next segment, which begins here.
    Later(Timestamp),
    Never,
}

impl Iterator for CronInstants<'_> {
    type Item = Timestamp;

    fn next(&mut self) -> Option<Timestamp> {
        loop {
            match self.within(self.from?) {
                Found::At(at) => {
                    self.from = just_after(at);
                    return Some(at);
                }
                Found::Later(start) => {
                    self.from = Some(start);
                    self.segment = Segment::around(&self.cron.zone, start);
                }
                Found::Never => {
                    self.from = None;
                    return None;
                }
            }
        }
    }
}

impl Segment {
    fn around(zone: &TimeZone, at: Timestamp) -> Self {
        let start = just_after(at).and_then(|next| zone.preceding(next).next());
        let start = start.and_then(|change| {
            let at = change.timestamp();
            let last = at.checked_sub(Span::new().nanoseconds(1)).ok()?;
            let before = zone.to_offset(last);
            Some(Seam { at, before })
        });
        Self {
            start,
            offset: zone.to_offset(at),
            end: zone.following(at).next().map(|change| change.timestamp()),
        }
    }
}

fn just_after(at: Timestamp) -> Option<Timestamp> {
    at.checked_add(Span::new().nanoseconds(1)).ok()
}
