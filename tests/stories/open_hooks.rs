//! A hook without authentication has to be declared, and is shown.

use std::path::Path;

use anyhow::Result;
use semel_testkit::{Program, patience};

#[tokio::test]
async fn a_hook_that_is_open_has_to_say_so_and_is_shown() -> Result<()> {
    let desk = tempfile::tempdir()?;

    let (silent, said_of_silent) = check(desk.path(), "key: input.id").await?;
    let (open, said_of_open) = check(desk.path(), "auth: none, key: input.id").await?;

    assert!(!silent, "{said_of_silent}");
    assert!(said_of_silent.contains("needs `auth`"), "{said_of_silent}");
    assert!(open, "{said_of_open}");
    assert!(said_of_open.contains("open to anyone"), "{said_of_open}");
    Ok(())
}

/// Whether a webhook with these fields passes, and what is said about it.
async fn check(desk: &Path, fields: &str) -> Result<(bool, String)> {
    let flow = format!(
        "flow: hook\ntrigger: {{ webhook: {{ {fields} }} }}\n\
         steps: [{{ id: one, kv: {{ add: calls }} }}]\n"
    );
    std::fs::write(desk.join("hook.flow.yaml"), flow)?;
    let checked = Program::semel()?
        .args(["check", "hook.flow.yaml"])
        .current_dir(desk)
        .run(patience())
        .await?;
    Ok((checked.status.success(), checked.stdout + &checked.stderr))
}
