//! Every code has a page.

use std::path::Path;

use semel_flow::{Code, EvalErrorKind};

#[test]
fn every_code_has_its_page() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let codes = Code::ALL
        .iter()
        .map(|code| code.as_str())
        .chain(EvalErrorKind::CODES);
    for code in codes {
        let page = std::fs::read_to_string(folder.join(format!("{code}.md")));
        let title = format!("# {code}\n");
        assert!(page.is_ok_and(|page| page.starts_with(&title)), "{code}.md");
    }
}
