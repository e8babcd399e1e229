//! The codes that a run can end in, by the table of the page on faults: one row is one topic.

/// The prefixes of codes that are made from what a destination said, and what follows them.
const FAMILIES: &[(&str, Rest, &str)] = &[
    (
        "http-",
        Rest::Number(3),
        "The destination's own response: the HTTP status N.",
    ),
    (
        "sql-",
        Rest::SqlState,
        "The database's own error: the SQLSTATE N.",
    ),
    (
        "smtp-",
        Rest::Number(3),
        "The mail server's own reply: the code N.",
    ),
    ("slack-", Rest::Word, "Slack's own error: `N`."),
    (
        "exit-",
        Rest::Number(0),
        "The command ended with the exit status N.",
    ),
    (
        "task-",
        Rest::Word,
        "The worker failed, and gave the code `N` as the reason.",
    ),
];

/// What stands behind the prefix of a family.
#[derive(Clone, Copy)]
enum Rest {
    /// Digits: as many, or any number of them where that is 0.
    Number(usize),
    /// Five digits or capital letters.
    SqlState,
    /// Anything.
    Word,
}

impl Rest {
    fn fits(self, text: &str) -> bool {
        match self {
            Self::Number(0) => text.parse::<u8>().is_ok(),
            Self::Number(digits) => text.len() == digits && text.parse::<u16>().is_ok(),
            Self::SqlState => {
                let is_of_state = |c: char| c.is_ascii_digit() || c.is_ascii_uppercase();
                text.len() == 5 && text.chars().all(is_of_state)
            }
            Self::Word => !text.is_empty(),
        }
    }
}

/// The codes of the table and of the list of scripts, in the order of the page.
pub(super) fn codes(page: &str) -> Vec<&str> {
    let code = |line| quoted(line, "| `").or_else(|| quoted(line, "- `"));
    page.lines()
        .filter_map(code)
        .map(|(code, _)| code)
        .collect()
}

/// What the page says of a code in its own line.
pub(super) fn text(page: &str, name: &str) -> Option<String> {
    let rows: Vec<String> = page.lines().filter_map(|line| row(line, name)).collect();
    (!rows.is_empty()).then(|| titled(name, &rows.join("\n\n")))
}

/// What is known of a code that is made from what a destination said.
pub(super) fn family_text(name: &str) -> Option<String> {
    of_family(name).map(|said| titled(name, &said))
}

fn titled(name: &str, said: &str) -> String {
    format!("# {name}\n\n{said}\n\nAll faults: `semel explain faults`.\n")
}

/// The code that a line begins with, and the rest of the line.
fn quoted<'a>(line: &'a str, before: &str) -> Option<(&'a str, &'a str)> {
    line.strip_prefix(before)?.split_once('`')
}

fn row(line: &str, name: &str) -> Option<String> {
    if let Some((code, rest)) = quoted(line, "| `") {
        let cells = rest.trim().trim_matches('|').splitn(3, '|').map(str::trim);
        let [steps, outcome, meaning] = &cells.collect::<Vec<_>>()[..] else {
            return None;
        };
        let said = format!("A fault. Steps: {steps}. Outcome: {outcome}.\n\n{meaning}");
        return (code == name).then_some(said);
    }
    let (code, rest) = quoted(line, "- `")?;
    let said = format!("Of a command of `semel once`{}", rest.trim_end());
    (code == name).then_some(said)
}

fn of_family(name: &str) -> Option<String> {
    let (prefix, _, about) = FAMILIES
        .iter()
        .find(|(prefix, rest, _)| name.strip_prefix(prefix).is_some_and(|it| rest.fits(it)))?;
    let own = name.strip_prefix(prefix).unwrap_or_default();
    let mut said = about
        .replace(" N", &format!(" {own}"))
        .replace("`N`", &format!("`{own}`"));
    match (*prefix, own.parse::<u8>()) {
        ("exit-", Ok(status @ 129..=159)) => said.push_str(&format!(
            " That is how a shell reports that signal {} ended it, so the effect is in doubt.",
            status - 128
        )),
        _ => said.push_str(
            " The message has the details. Whether Semel tries again, fails the run or leaves the effect in doubt is \
             decided by the kind of step: `semel explain http`, `db`, `notify`, `ssh` or `task`.",
        ),
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| code | steps |\n|---|---|\n| `timeout` | `db` | retried | Too long. |\n\n\
        - `lease-lost`: in doubt. Silent.\n";

    #[test]
    fn a_row_becomes_a_text() {
        assert_eq!(codes(PAGE), ["timeout", "lease-lost"]);
        let timeout = text(PAGE, "timeout").unwrap();
        assert!(
            timeout.contains("Steps: `db`. Outcome: retried."),
            "{timeout}"
        );
        assert!(timeout.contains("Too long."), "{timeout}");
        let lost = text(PAGE, "lease-lost").unwrap();
        assert!(lost.contains("`semel once`: in doubt. Silent."), "{lost}");
        assert!(text(PAGE, "steps").is_none());
    }
}
