//! Text that came from elsewhere, made fit for a terminal; and instants as people say them.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use semel_model::Span;

/// One line of foreign text: whatever could steer a terminal is shown as what it is.
pub(crate) fn printable(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), escape)
}

/// Several lines of foreign text.
pub(crate) fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(printable).collect();
    lines.join("\n")
}

fn escape(mut text: String, letter: char) -> String {
    if letter.is_control() || steers_direction(letter) {
        text.extend(letter.escape_default());
    } else {
        text.push(letter);
    }
    text
}

/// Marks that turn the writing direction, with which a text can pose as another.
const fn steers_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// At most so many characters of a text, with a mark where some were left out.
pub(crate) fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    let kept: String = text.chars().take(chars_max.saturating_sub(1)).collect();
    kept + "…"
}

/// How long ago an instant was, as people say it.
pub(crate) fn ago(then: Timestamp) -> String {
    relative(then, now())
}

/// A time as people type it: whole, a day in UTC, or how long ago.
pub(crate) fn read_time(text: &str) -> Result<Timestamp, String> {
    read_time_at(text, now())
}

fn read_time_at(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse() {
        return Ok(at);
    }
    let day = text.parse::<Date>().ok();
    if let Some(day) = day.and_then(|day| day.to_zoned(TimeZone::UTC).ok()) {
        return Ok(day.timestamp());
    }
    let ago = text.parse::<Span>().ok();
    ago.and_then(|ago| now.checked_sub(ago.to_duration()).ok())
        .ok_or_else(|| {
            "expected a time such as 2026-11-17T08:00:00Z, a day, or how long ago, such as 24h"
                .to_owned()
        })
}

/// What the clock on the wall says.
#[expect(
    clippy::disallowed_methods,
    reason = "people compare with the clock on their wall; nothing is decided by it"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}

fn relative(then: Timestamp, now: Timestamp) -> String {
    let secs = now.as_second() - then.as_second();
    match secs {
        0 => "now".to_owned(),
        1.. => format!("{} ago", rough(secs)),
        _ => format!("in {}", rough(-secs)),
    }
}

/// A span in its largest unit.
fn rough(secs: i64) -> String {
    match secs {
        ..=119 => format!("{secs}s"),
        120..=7_199 => format!("{}m", secs / 60),
        7_200..=172_799 => format!("{}h", secs / 3_600),
        _ => format!("{}d", secs / 86_400),
    }
}

/// The time from one instant to a later one, as a timeline shows it.
pub(crate) fn offset(start: Timestamp, at: Timestamp) -> String {
    let millis = (at.as_millisecond() - start.as_millisecond()).max(0);
    match millis {
        ..=59_999 => format!("+{}.{:03}s", millis / 1_000, millis % 1_000),
        60_000..=3_599_999 => format!("+{}m{:02}s", millis / 60_000, millis / 1_000 % 60),
        _ => format!("+{}h{:02}m", millis / 3_600_000, millis / 60_000 % 60),
    }
}

/// A word of a command line, quoted where a shell would take it apart. Characters that could steer a
/// terminal are written by their number, as shells with `$'…'` read it.
pub(crate) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let steers = |c: char| c.is_control() || steers_direction(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    if !text.chars().any(steers) {
        return format!("'{}'", text.replace('\'', r"'\''"));
    }
    let letters = text.chars().map(|letter| match letter {
        '\'' | '\\' => format!("\\{letter}"),
        letter if steers(letter) => format!("\\U{:08x}", u32::from(letter)),
        letter => letter.to_string(),
    });
    format!("$'{}'", letters.collect::<String>())
}

/// The last word of a command line, from elsewhere: `--` stands before a word that would be read as
/// an option.
pub(crate) fn operand(text: &str) -> String {
    let mark = if text.starts_with('-') { "-- " } else { "" };
    format!("{mark}{}", shell_word(text))
}

/// Says what to do instead of writing a secret on the command line.
pub(crate) fn on_the_command_line(option: &str, variable: &str) -> String {
    format!(
        "warning: every user of this machine can read {option} in its list of processes; set \
         {variable} instead"
    )
}

/// An option with its value, which is read as the value even where it begins like an option.
pub(crate) fn option(name: &str, value: &str) -> String {
    let mark = if value.starts_with('-') { '=' } else { ' ' };
    format!("--{name}{mark}{}", shell_word(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_time_is_whole_a_day_or_how_long_ago() {
        let now: Timestamp = "2026-11-17T12:00:00Z".parse().unwrap();
        let read = |text: &str| read_time_at(text, now).map(|at| at.to_string());

        assert_eq!(read("24h").unwrap(), "2026-11-16T12:00:00Z");
        assert_eq!(read("2026-11-01").unwrap(), "2026-11-01T00:00:00Z");
        assert_eq!(
            read("2026-11-01T08:00:00Z").unwrap(),
            "2026-11-01T08:00:00Z"
        );
        assert!(read("yesterday").unwrap_err().contains("24h"));
    }

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(printable("a\u{1b}[31m\u{9b}x"), "a\\u{1b}[31m\\u{9b}x");
        assert_eq!(printable("pay\u{202e}txt"), "pay\\u{202e}txt");
        assert_eq!(printable("Grüße ✓"), "Grüße ✓");
    }

    #[test]
    fn instants_are_shown_in_their_largest_unit() {
        assert_eq!(relative(at(100), at(100)), "now");
        assert_eq!(relative(at(100), at(190)), "90s ago");
        assert_eq!(relative(at(0), at(7_300)), "2h ago");
        assert_eq!(relative(at(600), at(0)), "in 10m");
    }

    #[test]
    fn a_timeline_counts_from_its_start() {
        let start = Timestamp::from_millisecond(1_000).unwrap();
        let later = Timestamp::from_millisecond(3_045).unwrap();

        assert_eq!(offset(start, later), "+2.045s");
        assert_eq!(offset(start, at(126)), "+2m05s");
    }

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_apart() {
        assert_eq!(shell_word("order-42"), "order-42");
        assert_eq!(shell_word("it's 1"), r"'it'\''s 1'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("a\u{1b}[2J'"), r"$'a\U0000001b[2J\''");
    }

    #[test]
    fn a_word_from_elsewhere_is_never_an_option() {
        assert_eq!(operand("order-42"), "order-42");
        assert_eq!(operand("--url=http://x"), "-- --url=http://x");
        assert_eq!(operand("-a b"), "-- '-a b'");
        assert_eq!(option("from", "charge"), "--from charge");
        assert_eq!(option("from", "--url=http://x"), "--from=--url=http://x");
    }
}
