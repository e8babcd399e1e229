//! Remote build over ssh with callback.

use std::os::unix::fs::PermissionsExt as _;

use anyhow::Result;
use serde_json::{Value, json};

use super::house::House;
use super::signatures::github;

fn push(before: &str, after: &str) -> Value {
    json!({
        "ref": "refs/heads/main", "before": before, "after": after,
        "repository": { "id": 55, "full_name": "acme/house" },
    })
}

#[tokio::test]
async fn a_push_is_built_once_and_its_commit_has_the_outcome() -> Result<()> {
    let house = House::open("remote-build").await?;
    let sshd = house.to.sshd()?;
    let built = sshd.file("built");
    let script = format!(
        "#!/bin/sh\necho \"$1 $2\" >> {}\ntest \"$2\" != bad\n",
        built.display()
    );
    std::fs::write(sshd.file("build"), script)?;
    std::fs::set_permissions(sshd.file("build"), std::fs::Permissions::from_mode(0o755))?;
    let hub = house.providers();
    hub.refuse("POST", "/github/repos/acme/house/statuses", 503)
        .await?;

    let green = push("one", "two");
    let run = house.deliver_twice(&github("guid-1", &green)?).await?;
    let replayed = house.deliver(&github("guid-2", &green)?).await?;
    let done = house.until_state(&run, "succeeded").await?;

    assert!(
        replayed.repeated,
        "another id of the delivery is the same push"
    );
    assert_eq!(replayed.run, run);
    assert_eq!(done["result"], json!({ "commit": "two", "exit": 0 }));
    assert_eq!(std::fs::read_to_string(&built)?, "acme/house two\n");
    assert_eq!(states(&house).await?, ["two pending", "two success"]);

    let red = house
        .deliver_twice(&github("guid-3", &push("two", "bad"))?)
        .await?;
    let red = house.until_state(&red, "succeeded").await?;
    // The branch is moved back and forth: the same commit again, and another movement.
    let back = house
        .deliver_twice(&github("guid-4", &push("bad", "two"))?)
        .await?;
    house.until_state(&back, "succeeded").await?;

    assert_eq!(red["result"]["exit"], 1);
    assert_eq!(sshd.lines("built"), 3);
    let all = [
        "two pending",
        "two success",
        "bad pending",
        "bad failure",
        "two pending",
        "two success",
    ];
    assert_eq!(states(&house).await?, all);
    Ok(())
}

/// Commits and the states that they got, in order.
async fn states(house: &House) -> Result<Vec<String>> {
    let effects = house.providers().effects().await?;
    let state = effects.iter().map(|one| {
        let commit = one.path.rsplit('/').next().unwrap_or_default();
        format!(
            "{commit} {}",
            one.body["state"].as_str().unwrap_or_default()
        )
    });
    Ok(state.collect())
}
