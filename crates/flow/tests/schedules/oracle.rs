//! The oracle: patterns read and walked as naively as ten years allow. It knows numbers, lists, ranges,
//! steps, `*` and `L`.

/// How many minutes two looks at an offset are apart. Offsets change on such marks only, which is
/// asserted by [`Offsets::read`].
const MARK: i64 = 15;
const DAY: i64 = 1_440;

/// The offset of a zone for every quarter of an hour, in minutes.
pub(crate) struct Offsets {
    from: i64,
    to: i64,
    marks: Vec<i64>,
    /// For each mark the first one behind it with another offset.
    change: Vec<usize>,
}

impl Offsets {
    pub(crate) fn read(from: i64, to: i64, offset: impl Fn(i64) -> i64) -> Self {
        let marks: Vec<i64> = (from..to + 3 * DAY)
            .step_by(MARK as usize)
            .map(&offset)
            .collect();
        let mut change = vec![marks.len(); marks.len()];
        for index in (0..marks.len() - 1).rev() {
            let differs = marks[index] != marks[index + 1];
            change[index] = if differs {
                index + 1
            } else {
                change[index + 1]
            };
            if differs {
                let at = from + (index as i64 + 1) * MARK;
                assert_eq!(offset(at - 1), marks[index], "a change between two marks");
            }
            assert_eq!(marks[index] % MARK, 0);
        }
        Self {
            from,
            to,
            marks,
            change,
        }
    }

    /// How often the offset changes.
    pub(crate) fn changes(&self) -> usize {
        let pairs = self.marks.windows(2);
        pairs.filter(|pair| pair[0] != pair[1]).count()
    }

    fn index(&self, minute: i64) -> usize {
        ((minute - self.from) / MARK) as usize
    }

    fn at(&self, minute: i64) -> i64 {
        self.marks[self.index(minute)]
    }

    /// Whether the offset stays the same for a day from a minute on.
    fn is_even(&self, minute: i64) -> bool {
        self.change[self.index(minute)] > self.index(minute + DAY)
    }
}

/// A pattern, as five sets.
pub(crate) struct Pattern {
    times: Vec<i64>,
    due: Vec<bool>,
    days: Vec<bool>,
    last_day: bool,
    months: Vec<bool>,
    weekdays: Vec<bool>,
    any_day: bool,
    any_weekday: bool,
    every_hour: bool,
}

impl Pattern {
    pub(crate) fn read(text: &str) -> Self {
        let fields: Vec<&str> = text.split(' ').collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            panic!("five fields: {text}");
        };
        let minute_set = set(minutes, 0, 59);
        let hour_set = set(hours, 0, 23);
        let due: Vec<bool> = (0..1_440)
            .map(|minute| hour_set[minute / 60] && minute_set[minute % 60])
            .collect();
        let mut weekday_set = set(weekdays, 0, 7);
        weekday_set[0] |= weekday_set[7];
        Self {
            times: (0..1_440).filter(|minute| due[*minute as usize]).collect(),
            due,
            days: set(days, 1, 31),
            last_day: days == "L",
            months: set(months, 1, 12),
            weekdays: weekday_set,
            any_day: days == "*",
            any_weekday: weekdays == "*",
            every_hour: hours == "*",
        }
    }

    /// Every instant of ten years, in minutes.
    pub(crate) fn instants(&self, offsets: &Offsets) -> Vec<i64> {
        let mut found = vec![];
        let mut minute = offsets.from;
        // The highest time that the wall has shown.
        let mut mark = minute + offsets.at(minute) - 1;
        while minute < offsets.to {
            let wall = minute + offsets.at(minute);
            let usual = mark == wall - 1;
            if usual && wall.rem_euclid(DAY) == 0 && offsets.is_even(minute) {
                if self.is_for(wall / DAY) {
                    found.extend(self.times.iter().map(|time| minute + time));
                }
                minute += DAY;
                mark += DAY;
                continue;
            }
            let due = match self.every_hour {
                true => self.matches(wall),
                false => (mark + 1..=wall).any(|wall| self.matches(wall)),
            };
            if due {
                found.push(minute);
            }
            mark = mark.max(wall);
            minute += 1;
        }
        found.retain(|minute| *minute < offsets.to);
        found
    }

    fn matches(&self, wall: i64) -> bool {
        let time = wall.rem_euclid(DAY) as usize;
        self.due[time] && self.is_for(wall.div_euclid(DAY))
    }

    /// Whether the pattern is for a day, counted from 1970.
    fn is_for(&self, day: i64) -> bool {
        let (year, month, date) = civil(day);
        let weekday = (day + 4).rem_euclid(7) as usize;
        let by_date = self.days[date] || (self.last_day && date == length(year, month));
        let by_weekday = self.weekdays[weekday];
        self.months[month]
            && match (self.any_day, self.any_weekday) {
                (true, true) => true,
                (false, true) => by_date,
                (true, false) => by_weekday,
                (false, false) => by_date || by_weekday,
            }
    }
}

/// The numbers that a field names.
fn set(field: &str, least: usize, most: usize) -> Vec<bool> {
    let mut set = vec![false; most + 1];
    for part in field.split(',').filter(|part| *part != "L") {
        let (range, step) = part.split_once('/').unwrap_or((part, "1"));
        let (from, to) = match (range, range.split_once('-')) {
            ("*", _) => (least, most),
            (_, Some((from, to))) => (number(from), number(to)),
            (single, None) => (number(single), number(single)),
        };
        for each in (from..=to).step_by(number(step)) {
            set[each] = true;
        }
    }
    set
}

fn number(text: &str) -> usize {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Year, month and date of a day, by counting years and months.
fn civil(day: i64) -> (i64, usize, usize) {
    // 2020-01-01 is day 18,262; nothing before it is asked for.
    let (mut year, mut left) = (2_020, (day - 18_262) as usize);
    while left >= 365 + usize::from(is_leap(year)) {
        left -= 365 + usize::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    while left >= length(year, month) {
        left -= length(year, month);
        month += 1;
    }
    (year, month, left + 1)
}

const fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn length(year: i64, month: usize) -> usize {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
