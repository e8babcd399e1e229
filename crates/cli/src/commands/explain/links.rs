//! Links of the documentation, as a reader of the binary can follow them.

/// A text whose links to files became the command that prints the file, or the bare words where no topic has it.
/// Addresses of other sites stay.
pub(super) fn printable(text: &str, is_topic: &dyn Fn(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, target, after)) = next_link(rest) {
        let (lead, words) = before
            .rsplit_once('[')
            .map_or((before, ""), |(lead, words)| (lead, words));
        out.push_str(lead.strip_suffix('!').unwrap_or(lead));
        out.push_str(words);
        if let Some(topic) = topic_of(target).filter(|topic| is_topic(topic)) {
            out.push_str(&format!(" (semel explain {topic})"));
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// The first link to a file or a heading: the text before its target with its words, the target, and the rest.
fn next_link(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find("](")?;
        let (target, after) = text[at + 2..].split_once(')')?;
        let is_link = text[..at].contains('[') && !target.contains(char::is_whitespace);
        let is_ours = !target.contains("://")
            && (target.contains(".md") || target.starts_with('#') || target.contains('/'));
        if is_link && is_ours {
            return Some((&text[..at], target, after));
        }
        from = at + 2;
    }
}

/// The name of a file that a link leads to, as topics are called: a folder's page is called like the folder.
fn topic_of(target: &str) -> Option<&str> {
    let path = target.split('#').next().unwrap_or_default();
    let path = path.strip_suffix(".md")?;
    let path = path.strip_suffix("/README").unwrap_or(path);
    path.rsplit('/').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_become_commands() {
        let is_topic = |name: &str| ["tasks", "presets", "input-invalid"].contains(&name);
        let printed = |text: &str| printable(text, &is_topic);

        assert_eq!(
            printed("see [tasks](../tasks.md#a), [it](errors/input-invalid.md)."),
            "see tasks (semel explain tasks), it (semel explain input-invalid)."
        );
        assert_eq!(
            printed("[p](presets/README.md)"),
            "p (semel explain presets)"
        );
        assert_eq!(printed("[gone](figures/) [here](#below)!"), "gone here!");
        assert_eq!(printed("![a picture](figures/a.svg)"), "a picture");
        let others = "[RFC](https://x.example/a.md) list[0](x) \"a](b\"";
        assert_eq!(printed(others), others);
    }
}
