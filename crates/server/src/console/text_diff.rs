//! What differs between two texts, line by line.

use super::markup::{Markup, assembled, escape, visible};

/// How many equal lines are shown around a difference.
const AROUND: usize = 3;

/// The most pairs of lines that are compared. Beyond that, what lies between the equal beginning and the
/// equal end counts as another text.
const PAIRS_MAX: usize = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Both,
    Before,
    After,
}

/// Two texts as one, with what is gone and what came; nothing where they are equal.
pub(super) fn diff(before: &str, after: &str) -> Markup {
    let compared = compare(before, after);
    if compared.iter().all(|(side, _)| *side == Side::Both) {
        return Markup::default();
    }
    let changed = |at: usize| {
        let from = at.saturating_sub(AROUND);
        let to = (at + AROUND + 1).min(compared.len());
        compared[from..to]
            .iter()
            .any(|(side, _)| *side != Side::Both)
    };
    let mut text = String::new();
    let mut skipped = false;
    for (at, (side, line)) in compared.iter().enumerate() {
        if !changed(at) {
            if !skipped {
                text.push_str("<span class=\"skipped\">⋯</span>\n");
            }
            skipped = true;
            continue;
        }
        skipped = false;
        let line = escape(&visible(line, true));
        match side {
            Side::Both => text.push_str(&format!("  {line}\n")),
            Side::Before => text.push_str(&format!("<del>- {line}</del>\n")),
            Side::After => text.push_str(&format!("<ins>+ {line}</ins>\n")),
        }
    }
    assembled(format!(
        "<pre class=\"diff\" dir=\"ltr\" tabindex=\"0\" aria-label=\"Difference of the texts\">{text}</pre>"
    ))
}

/// The lines of both texts, each with whose it is.
fn compare<'a>(before: &'a str, after: &'a str) -> Vec<(Side, &'a str)> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let head = old.iter().zip(&new).take_while(same).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev());
    let tail = tail.take_while(same).count();
    let (old_mid, new_mid) = (
        &old_rest[..old_rest.len() - tail],
        &new_rest[..new_rest.len() - tail],
    );
    let mut compared: Vec<(Side, &str)> = old[..head].iter().map(|it| (Side::Both, *it)).collect();
    match old_mid.len().saturating_mul(new_mid.len()) > PAIRS_MAX {
        true => {
            compared.extend(old_mid.iter().map(|it| (Side::Before, *it)));
            compared.extend(new_mid.iter().map(|it| (Side::After, *it)));
        }
        false => longest_common(old_mid, new_mid, &mut compared),
    }
    let end = &old_rest[old_mid.len()..];
    compared.extend(end.iter().map(|it| (Side::Both, *it)));
    compared
}

/// Keeps as many lines as can be kept in their order.
fn longest_common<'a>(old: &[&'a str], new: &[&'a str], compared: &mut Vec<(Side, &'a str)>) {
    let wide = new.len() + 1;
    let mut kept = vec![0_u32; (old.len() + 1) * wide];
    for (i, line) in old.iter().enumerate().rev() {
        for (j, other) in new.iter().enumerate().rev() {
            kept[i * wide + j] = match line == other {
                true => kept[(i + 1) * wide + j + 1] + 1,
                false => kept[(i + 1) * wide + j].max(kept[i * wide + j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            compared.push((Side::Both, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && kept[(i + 1) * wide + j] >= kept[i * wide + j + 1])
        {
            compared.push((Side::Before, old[i]));
            i += 1;
        } else {
            compared.push((Side::After, new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_stay_are_kept_and_what_changes_is_marked() {
        let (before, after) = ("a\nb\nc\nd\n", "a\nc\n<x>\nd\n");

        let shown = diff(before, after).to_string();

        assert!(
            shown.contains("<del>- b</del>\n  c\n<ins>+ &lt;x&gt;</ins>"),
            "{shown}"
        );
        assert!(diff("a\nb", "a\nb").is_empty());
        assert!(diff("", "new").to_string().contains("+ new"));
    }

    #[test]
    fn both_texts_can_be_read_off_the_difference() {
        let numbers = |step: usize| (0..400).filter(move |n| n % step != 0);
        let text = |step| numbers(step).map(|n| format!("{n}\n")).collect::<String>();
        let (before, after) = (text(3), text(7));

        let compared = compare(&before, &after);

        let side = |gone: Side| {
            let lines = compared.iter().filter(move |(side, _)| *side != gone);
            lines
                .map(|(_, line)| format!("{line}\n"))
                .collect::<String>()
        };
        assert_eq!((side(Side::After), side(Side::Before)), (before, after));
    }

    #[test]
    fn what_is_far_from_a_difference_is_left_out() {
        let long: String = (0..100).map(|n| format!("{n}\n")).collect();
        let shown = diff(&long, &format!("{long}more\n")).to_string();

        assert!(
            shown.contains("⋯") && !shown.contains("\n  50\n"),
            "{shown}"
        );
    }
}
