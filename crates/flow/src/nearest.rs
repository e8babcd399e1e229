//! The name that an author probably meant.

/// The nearest of the known names, if any is near enough to be a slip of it.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name: Vec<char> = name.chars().take(64).collect();
    let tolerance = (name.len() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|known| (distance(&name, known), known))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, known)| known)
}

/// Edits from one word to the other, two swapped neighbours being one edit.
fn distance(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().take(64).collect();
    let mut before_last: Vec<usize> = vec![];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let substitute = last[column] + usize::from(letter != other);
            let mut least = substitute
                .min(last[column + 1] + 1)
                .min(current[column] + 1);
            if row > 0 && column > 0 && from[row - 1] == *other && *letter == to[column - 1] {
                least = least.min(before_last[column - 1] + 1);
            }
            current.push(least);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_misspelling_finds_its_word() {
        assert_eq!(nearest("inupt", ["input", "steps"]), Some("input"));
        assert_eq!(nearest("step", ["input", "steps"]), Some("steps"));
    }

    #[test]
    fn another_word_finds_nothing() {
        assert_eq!(nearest("secret", ["input", "steps"]), None);
    }
}
