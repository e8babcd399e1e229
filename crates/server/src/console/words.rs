//! Times, spans, addresses and commands in words.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Unit};
use semel_model::{Label, Networks};
use url::form_urlencoded;

/// A time to the second, in a zone.
pub(super) fn exact(at: Timestamp, zone: &TimeZone) -> String {
    let at = at.round(Unit::Second).unwrap_or(at);
    let at = at.to_zoned(zone.clone());
    at.strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// How long ago something was, or in how long it will be.
pub(super) fn ago(now: Timestamp, at: Timestamp) -> String {
    let millis = now.as_millisecond() - at.as_millisecond();
    match millis {
        -999..=999 => "now".to_owned(),
        1_000.. => format!("{} ago", long(millis)),
        _ => format!("in {}", long(-millis)),
    }
}

/// A span in its two largest units at most.
pub(super) fn between(from: Timestamp, to: Timestamp) -> String {
    let millis = (to.as_millisecond() - from.as_millisecond()).max(0);
    match millis {
        0..=999 => format!("{millis} ms"),
        1_000..=59_999 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        _ => long(millis),
    }
}

fn long(millis: i64) -> String {
    let secs = millis / 1_000;
    match secs {
        0..=59 => format!("{secs} s"),
        60..=3_599 => format!("{} min", secs / 60),
        3_600..=86_399 => format!("{} h", secs / 3_600),
        _ => format!("{} d", secs / 86_400),
    }
}

/// "1 run", "2 runs".
pub(super) fn count(number: usize, one: &str, more: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {more}"),
    }
}

/// A count that was looked at no further than a limit: `50+`.
pub(super) fn at_most(number: usize, limit: usize) -> String {
    match number > limit {
        true => format!("{limit}+"),
        false => number.to_string(),
    }
}

/// Where a token may be used from.
pub(super) fn networks(networks: &Networks) -> String {
    match networks.is_empty() {
        true => "any".to_owned(),
        false => networks.to_string(),
    }
}

/// The queues whose tasks a token may work on.
pub(super) fn queues(queues: &[Label]) -> String {
    let names: Vec<&str> = queues.iter().map(Label::as_str).collect();
    match names.is_empty() {
        true => "all".to_owned(),
        false => names.join(", "),
    }
}

/// A piece of an address.
pub(super) fn encoded(text: &str) -> String {
    // A space is `+` in a form only; `%20` holds in paths too.
    let encoded: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
    encoded.replace('+', "%20")
}

/// An address with the parameters that have a value.
pub(super) fn address(path: &str, parameters: &[(&str, &str)]) -> String {
    let set = parameters.iter().filter(|(_, value)| !value.is_empty());
    let pairs: Vec<String> = set
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    match pairs.is_empty() {
        true => path.to_owned(),
        false => format!("{path}?{}", pairs.join("&")),
    }
}

/// A word of a shell command. What cannot be seen is written by its number, as shells with `$'…'` read it.
pub(super) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,%+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    if !text.chars().any(is_unseen) {
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let letters = text.chars().map(|letter| match letter {
        '\'' | '\\' => format!("\\{letter}"),
        letter if is_unseen(letter) => format!("\\U{:08x}", u32::from(letter)),
        letter => letter.to_string(),
    });
    format!("$'{}'", letters.collect::<String>())
}

/// The last word of a command, from elsewhere: `--` stands before a word that would be read as an option.
pub(super) fn operand(text: &str) -> String {
    let mark = if text.starts_with('-') { "-- " } else { "" };
    format!("{mark}{}", shell_word(text))
}

/// Adds an option with its value to a command: it is read as the value even where it begins like an option.
pub(super) fn push_option(command: &mut String, name: &str, value: &str) {
    let mark = if value.starts_with('-') { '=' } else { ' ' };
    command.push_str(&format!(" --{name}{mark}{}", shell_word(value)));
}

/// Whether a character takes no room, turns others round, or controls a terminal.
pub(super) fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_one_unit() {
        let at = |millis| Timestamp::from_millisecond(millis).unwrap();

        assert_eq!(ago(at(500), at(0)), "now");
        assert_eq!(ago(at(90_000), at(0)), "1 min ago");
        assert_eq!(ago(at(0), at(7_200_000)), "in 2 h");
        assert_eq!(between(at(0), at(1_250)), "1.2 s");
        assert_eq!(between(at(0), at(7)), "7 ms");
    }

    #[test]
    fn a_word_and_an_address_hold_any_text() {
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("a\u{202e}'"), r"$'a\U0000202e\''");
        assert_eq!(operand("o-1"), "o-1");
        assert_eq!(operand("--url=http://x"), "-- --url=http://x");
        let mut command = "semel run list".to_owned();
        push_option(&mut command, "flow", "a b");
        push_option(&mut command, "key", "--url=http://x");
        assert_eq!(command, "semel run list --flow 'a b' --key=--url=http://x");
        assert_eq!(encoded("a b&c/ü"), "a%20b%26c%2F%C3%BC");
        assert_eq!(
            address("/v1/runs", &[("flow", ""), ("key", "a b")]),
            "/v1/runs?key=a%20b"
        );
    }
}
