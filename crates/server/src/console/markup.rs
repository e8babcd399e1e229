//! Markup that is safe to show: every piece of text in it was escaped here.
//!
//! What senders, destinations and operators wrote is shown as it is, and can do nothing. Characters that
//! would not be seen, or would turn others round, are shown by their number.

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use semel_api::types::RunStatus;
use semel_model::effect::EffectState;
use serde_json::Value;

use super::words;

/// The most characters of a value that a page shows unless all of it is asked for.
const VALUE_CHARS_MAX: usize = 4_096;

/// How long a text is that may be higher than its place.
const SCROLLED_BYTES: usize = 400;

/// Markup whose texts are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Markup(String);

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Markup {
    /// A text.
    pub(super) fn text(text: &str) -> Self {
        Self(escape(&visible(text, false)))
    }

    /// Markup of ours, without a word from elsewhere.
    pub(super) fn fixed(markup: &'static str) -> Self {
        Self(markup.to_owned())
    }

    /// One after the other, with a space between.
    pub(super) fn join(parts: impl IntoIterator<Item = Self>) -> Self {
        let parts: Vec<String> = parts.into_iter().map(|part| part.0).collect();
        Self(parts.join(" "))
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts it into an element of a class.
    pub(super) fn within(self, element: &'static str, class: &'static str) -> Self {
        Self(format!(
            "<{element} class=\"{class}\">{}</{element}>",
            self.0
        ))
    }

    /// Makes a link of it to a page of this console.
    pub(super) fn link(self, href: &str) -> Self {
        Self(format!("<a href=\"{}\">{}</a>", escape(href), self.0))
    }
}

/// A link to a page elsewhere, which does not learn where it was followed. Only an address of https is one.
pub(super) fn link_out(text: &str, href: &str) -> Markup {
    match href.starts_with("https://") {
        true => Markup(format!(
            "<a href=\"{}\" rel=\"noreferrer\">{}</a>",
            escape(href),
            escape(text)
        )),
        false => Markup::text(href),
    }
}

/// Markup that is put together by the caller, who escapes.
pub(super) fn assembled(markup: String) -> Markup {
    Markup(markup)
}

/// Escapes a text for markup and for attributes in double quotes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

/// What was typed, where a person can see all of it: what they could not see is not offered to be asked again.
pub(super) fn offered(typed: &str) -> &str {
    match visible(typed, false) == typed {
        true => typed,
        false => "",
    }
}

/// A text whose characters can all be seen and stand in the order in which they are stored.
pub(super) fn visible(text: &str, keeps_lines: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        let kept = keeps_lines && (letter == '\n' || letter == '\t');
        if kept || !words::is_unseen(letter) {
            shown.push(letter);
        } else {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(letter));
        }
    }
    shown
}

/// A key, an identity, or another text that stands for itself.
pub(super) fn code(text: &str) -> Markup {
    Markup(format!("<bdi class=\"code\">{}</bdi>", Markup::text(text)))
}

/// When something was, in words, with the exact time behind it.
pub(super) fn time(now: Timestamp, at: Timestamp, zone: &TimeZone) -> Markup {
    let exact = words::exact(at, zone);
    let ago = words::ago(now, at);
    Markup(format!(
        "<time datetime=\"{at}\" title=\"{exact}\">{ago}</time>"
    ))
}

/// A state: shape, word and colour.
fn mark(class: &str, shape: &str, word: &str) -> Markup {
    Markup(format!(
        "<span class=\"state {class}\"><span class=\"shape\" aria-hidden=\"true\">{shape}</span>{word}</span>"
    ))
}

/// The state of a run.
pub(super) fn run_state(state: RunStatus) -> Markup {
    match state {
        RunStatus::Active => mark("live", "▶", "active"),
        RunStatus::Queued => mark("live", "▷", "queued"),
        RunStatus::Running => mark("live", "▶", "running"),
        RunStatus::Waiting => mark("rest", "◔", "waiting"),
        RunStatus::Retrying => mark("rest", "↻", "retrying"),
        RunStatus::InDoubt => mark("doubt", "◆", "in doubt"),
        RunStatus::NeedsReview => mark("doubt", "▲", "needs review"),
        RunStatus::Quarantined => mark("doubt", "▲", "quarantined"),
        RunStatus::Succeeded => mark("good", "●", "done"),
        RunStatus::Failed => mark("bad", "■", "failed"),
        RunStatus::Cancelled => mark("quiet", "✕", "cancelled"),
        RunStatus::Superseded => mark("quiet", "✕", "superseded"),
    }
}

/// The state of an effect.
pub(super) fn effect_state(state: EffectState) -> Markup {
    match state {
        EffectState::Pending => mark("live", "▶", "pending"),
        EffectState::Retrying => mark("rest", "↻", "retrying"),
        EffectState::Done => mark("good", "●", "done"),
        EffectState::Failed => mark("bad", "■", "failed"),
        EffectState::InDoubt => mark("doubt", "◆", "in doubt"),
    }
}

/// Another state, by its class.
pub(super) fn other_state(class: &'static str, shape: &'static str, word: &str) -> Markup {
    mark(class, shape, &Markup::text(word).0)
}

/// A value as it is stored, on lines of its own.
pub(super) fn value(value: &Value, whole: &Whole) -> Markup {
    block(
        &serde_json::to_string_pretty(value).unwrap_or_default(),
        whole,
    )
}

/// Whether long texts are shown whole, and where they are if not.
pub(super) enum Whole {
    /// They are.
    Yes,
    /// Their beginning is; this page shows them whole.
    At(String),
}

/// A text on lines of its own; the beginning of a long one, unless all of it is asked for.
pub(super) fn block(text: &str, whole: &Whole) -> Markup {
    let elsewhere = match whole {
        Whole::Yes => None,
        Whole::At(page) => text.chars().nth(VALUE_CHARS_MAX).is_some().then_some(page),
    };
    let cut = elsewhere.is_some();
    let shown: String = match cut {
        true => text.chars().take(VALUE_CHARS_MAX).collect(),
        false => text.to_owned(),
    };
    let shown = escape(&visible(&shown, true));
    let more = match elsewhere {
        Some(page) => format!(
            "<p class=\"cut\">The beginning is shown. <a href=\"{}\">Show everything</a></p>",
            escape(page)
        ),
        None => String::new(),
    };
    // What is long scrolls, and is scrolled by keys as well.
    let focus = if shown.len() > SCROLLED_BYTES {
        " tabindex=\"0\""
    } else {
        ""
    };
    Markup(format!("<pre dir=\"ltr\"{focus}>{shown}</pre>{more}"))
}

/// A table; on a narrow screen each row is a card.
pub(super) fn table(caption: &str, columns: &[&'static str], rows: &[Vec<Markup>]) -> Markup {
    table_in("<div class=\"table\">", caption, columns, rows)
}

/// A wide table without a link in it: a keyboard can scroll it.
pub(super) fn table_to_scroll(
    caption: &str,
    columns: &[&'static str],
    rows: &[Vec<Markup>],
) -> Markup {
    table_in(
        "<div class=\"table\" tabindex=\"0\">",
        caption,
        columns,
        rows,
    )
}

fn table_in(
    begin: &'static str,
    caption: &str,
    columns: &[&'static str],
    rows: &[Vec<Markup>],
) -> Markup {
    let mut markup = format!(
        "{begin}<table><caption>{}</caption><thead><tr>",
        escape(caption)
    );
    for column in columns {
        let _ = write!(markup, "<th scope=\"col\">{column}</th>");
    }
    markup.push_str("</tr></thead><tbody>");
    for row in rows {
        markup.push_str("<tr>");
        for (column, cell) in columns.iter().zip(row) {
            let _ = match cell.is_empty() {
                true => write!(markup, "<td></td>"),
                false => write!(markup, "<td data-label=\"{column}\"><div>{cell}</div></td>"),
            };
        }
        markup.push_str("</tr>");
    }
    markup.push_str("</tbody></table></div>");
    Markup(markup)
}

/// Names with what they stand for; pairs without a value are left out.
pub(super) fn facts(pairs: Vec<(&'static str, Markup)>) -> Markup {
    let mut markup = "<dl class=\"facts\">".to_owned();
    for (name, fact) in pairs.into_iter().filter(|(_, fact)| !fact.is_empty()) {
        let _ = write!(markup, "<div><dt>{name}</dt><dd>{fact}</dd></div>");
    }
    markup.push_str("</dl>");
    Markup(markup)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_act_or_hide_is_shown_instead() {
        let text = "<script>\u{202e}x\u{0}\u{200b}\"'&\n";

        let shown = Markup::text(text).to_string();

        assert_eq!(
            shown,
            "&lt;script&gt;\\u{202e}x\\u{0}\\u{200b}&quot;&#39;&amp;\\u{a}"
        );
        assert!(block("a\nb", &Whole::Yes).to_string().contains("a\nb"));
    }

    #[test]
    fn a_long_value_is_cut_and_says_so() {
        let long = "x".repeat(VALUE_CHARS_MAX + 1);

        let elsewhere = Whole::At("/x?a=1&whole=yes".to_owned());
        assert!(
            block(&long, &elsewhere)
                .to_string()
                .contains("href=\"/x?a=1&amp;whole=yes\"")
        );
        assert!(
            !block(&long, &Whole::Yes)
                .to_string()
                .contains("Show everything")
        );
    }
}
