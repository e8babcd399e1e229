//! Every code is a word of its own, with a page.

use std::collections::BTreeSet;
use std::path::Path;

use super::*;

#[test]
fn every_code_is_one_of_its_kind() {
    let words: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();

    assert_eq!(words.len(), Code::ALL.len());
    for word in words {
        assert!(
            word.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
            "{word} is kebab-case"
        );
    }
}

#[test]
fn every_code_has_its_page() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for code in Code::ALL {
        let page = std::fs::read_to_string(root.join(code.page())).unwrap_or_default();

        assert!(
            page.starts_with(&format!("# {code}\n\n{}.", code.title())),
            "{} opens with its code and title",
            code.page()
        );
    }
}
