//! Long work on another machine: started once, awaited at no cost, reported when it ends.

use anyhow::{Context, Result};
use semel_testkit::Sshd;
use serde_json::{Value, json};

use crate::desk::Desk;

/// Renders something until the file GO is there, notes every start, and says what it made. It ends with its folder.
const FLOW: &str = r#"flow: render
trigger: { manual: { key: input.id } }
steps:
  - id: render
    ssh:
      connection: builder
      command: [sh, -c, 'echo "$1" >> STARTED; while [ -e STARTED ] && [ ! -e GO ]; do sleep 0.1; done; echo "rendered $1"; exit "$2"', sh, "${{ input.id }}", "${{ input.exit }}"]
      detach: true
      callback: "${{ waits.rendered.url }}"
  - id: rendered
    wait: { callback: true, within: 1h }
result: steps.rendered.result
"#;

async fn open(sshd: &Sshd) -> Result<Desk> {
    let desk = Desk::open(&[]).await?;
    let (address, user) = (sshd.address(), sshd.user());
    let create = format!(
        "semel connection create builder --kind ssh --host {} --user {user} --secret builder_key --host-key {} --set to.ssh.port={}",
        address.ip(),
        sshd.host_key()?,
        address.port()
    );
    desk.say(&create).await?;
    let key = sshd.private_key()?;
    desk.say(&format!("semel secret set builder_key <<'END'\n{key}END\n"))
        .await?;
    let flow = FLOW.replace("GO", &sshd.file("go").display().to_string());
    let flow = flow.replace("STARTED", &sshd.file("started").display().to_string());
    desk.say(&format!(
        "mkdir kept && cat > kept/render.flow.yaml <<'END'\n{flow}END\nsemel flow push kept/render.flow.yaml"
    ))
    .await?;
    desk.say("semel flow publish render && semel flow promote render")
        .await?;
    Ok(desk)
}

#[tokio::test]
async fn a_detached_command_starts_once_and_its_end_resumes_the_run() -> Result<()> {
    let sshd = Sshd::start().await?;
    let desk = open(&sshd).await?;

    let input = json!({ "id": "7", "exit": "0" });
    let run = desk.start("render", &input).await?;
    let waiting = desk.until_said("semel wait list", "rendered").await?;
    let again = desk.start("render", &input).await?;
    std::fs::write(sshd.file("go"), "")?;
    desk.until_said(&format!("semel run show {run}"), "succeeded")
        .await?;

    assert_eq!(again, run, "the same run, whatever it waits for");
    assert!(waiting.contains(&run), "{waiting}");
    let result = result_of(&desk, &run).await?;
    assert_eq!(result["exit"], json!(0), "{result}");
    let said = result["stdout_base64"].as_str().context("its output")?;
    assert_eq!(said, "cmVuZGVyZWQgNwo=", "rendered 7");
    assert_eq!(sshd.lines("started"), 1, "it was started once");
    Ok(())
}

#[tokio::test]
async fn a_failed_detached_command_reports_to_its_run() -> Result<()> {
    let sshd = Sshd::start().await?;
    std::fs::write(sshd.file("go"), "")?;
    let desk = open(&sshd).await?;

    let run = desk
        .start("render", &json!({ "id": "8", "exit": "3" }))
        .await?;
    desk.until_said(&format!("semel run show {run}"), "succeeded")
        .await?;

    let result = result_of(&desk, &run).await?;
    assert_eq!(result["exit"], json!(3), "{result}");
    assert_eq!(sshd.lines("started"), 1);
    Ok(())
}

async fn result_of(desk: &Desk, run: &str) -> Result<Value> {
    let shown = desk.data(&format!("semel run show {run}")).await?;
    Ok(shown["result"].clone())
}
