//! Going back to an earlier release by command, as often as it takes.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::desk::Desk;

#[tokio::test]
async fn a_second_rollback_by_the_same_command_goes_live() -> Result<()> {
    let desk = Desk::open(&[]).await?;
    for result in [1, 2] {
        desk.say(&format!(
            "set -e
             mkdir -p kept
             echo 'flow: paid' > kept/paid.flow.yaml
             echo 'trigger: {{ manual: {{ key: input.id }} }}' >> kept/paid.flow.yaml
             echo 'steps: [{{ id: one, function: \"{result}\" }}]' >> kept/paid.flow.yaml
             semel flow push kept/paid.flow.yaml
             semel flow publish paid"
        ))
        .await?;
    }

    for (command, live) in [
        ("semel flow promote paid r1", 1),
        ("semel flow promote paid --release r2", 2),
        ("semel flow promote paid r1", 1),
        ("semel flow promote paid --release r2", 2),
        ("semel flow promote paid r1", 1),
    ] {
        let said = desk.say(command).await?;

        ensure!(
            said.contains(&format!("paid r{live} is live")),
            "{command}: {said}"
        );
        let shown = desk.data("semel flow show paid").await?;
        assert_eq!(shown["live"], json!(live), "{command}: {shown}");
    }
    Ok(())
}
