//! A command with a marker runs once, and can be asked about.

use anyhow::{Context, Result};
use futures_util::future::join_all;
use semel_model::request::SshRequest;
use semel_model::{Outcome, Span};
use semel_testkit::{Cut, Proxy};
use serde_json::json;

use crate::enough_time::{is_in_doubt, with_enough_time};
use crate::ssh::world::{World, done, failed, in_doubt, key, marked, until_there};

#[tokio::test]
async fn a_repeat_gets_the_first_answer_and_runs_nothing() -> Result<()> {
    let world = World::new().await?;
    let command = marked(world.append("echo out; echo err >&2"));

    let first = done(world.perform(&command, key("a")).await?);
    let again = done(world.perform(&command, key("a")).await?);
    let probed = done(world.probe(&command, key("a")).await?);

    assert_eq!(first["repeated"], json!(false));
    assert_eq!(
        (&first["stdout"], &first["stderr"]),
        (&json!("out\n"), &json!("err\n"))
    );
    assert_eq!(
        (&again["stdout"], &again["repeated"]),
        (&json!("out\n"), &json!(true))
    );
    assert_eq!(probed, again);
    assert_eq!(world.effects(), 1);
    Ok(())
}

#[tokio::test]
async fn a_repeat_of_a_failure_gets_the_same_failure() -> Result<()> {
    let world = World::new().await?;
    let command = marked(world.append("echo bad >&2; exit 4"));

    let first = failed(world.perform(&command, key("a")).await?);
    let again = failed(world.perform(&command, key("a")).await?);

    assert_eq!(first.code, "exit-4");
    assert_eq!(first, again);
    assert_eq!(world.effects(), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_at_once_under_one_key_are_one_effect() -> Result<()> {
    let world = World::new().await?;
    let command = marked(world.append("sleep 1; echo out"));

    let outcomes = join_all((0..20).map(|_| world.perform(&command, key("a")))).await;

    let responses: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| done(outcome.unwrap()))
        .collect();
    let repeated = responses
        .iter()
        .filter(|one| one["repeated"] == json!(true));
    assert_eq!(repeated.count(), 19, "the others wait with the first");
    assert!(responses.iter().all(|one| one["stdout"] == json!("out\n")));
    assert_eq!(world.effects(), 1);
    Ok(())
}

#[tokio::test]
async fn a_probe_tells_absent_running_and_done_apart() -> Result<()> {
    let world = World::new().await?;
    let patient = marked(world.append_and_wait("echo out"));

    let before = failed(world.probe(&patient, key("a")).await?);
    let attempt = async |timeout: Span| -> Result<Outcome> {
        let hasty = SshRequest {
            timeout,
            ..patient.clone()
        };
        world.perform(&hasty, key("a")).await
    };
    let outcome = in_doubt(with_enough_time(attempt, is_in_doubt).await?);
    world.until_effects(1).await?;
    let meanwhile = failed(world.probe(&patient, key("a")).await?);
    world.open_gate()?;
    // It continues without us.
    until_there(&world.exit_of(key("a"))).await?;
    let after = done(world.probe(&patient, key("a")).await?);

    assert_eq!(
        (before.code.as_str(), before.retryable),
        ("marker-absent", false)
    );
    assert_eq!(outcome.code, "no-answer");
    assert_eq!(
        (meanwhile.code.as_str(), meanwhile.retryable),
        ("still-running", true)
    );
    assert_eq!(after["stdout"], json!("out\n"));
    assert_eq!(world.effects(), 1);
    Ok(())
}

#[tokio::test]
async fn a_lost_answer_is_a_doubt_that_the_marker_settles() -> Result<()> {
    let world = World::new().await?;
    let proxy = Proxy::start(world.server.address()).await?;
    let to = world.destination_at(proxy.address())?;
    let command = marked(world.append_and_wait("echo out"));

    let cutting = async {
        world.until_effects(1).await.unwrap();
        proxy.cut(Cut::Reset);
    };
    let (outcome, ()) = tokio::join!(world.caller.run(&command, &to, key("a")), cutting);
    world.open_gate()?;
    let again = done(world.perform(&command, key("a")).await?);

    assert_eq!(in_doubt(outcome).code, "no-answer");
    assert_eq!(
        (&again["stdout"], &again["repeated"]),
        (&json!("out\n"), &json!(true))
    );
    assert_eq!(world.effects(), 1);
    Ok(())
}

#[tokio::test]
async fn a_command_killed_on_its_way_is_in_doubt_and_stays_so() -> Result<()> {
    let world = World::new().await?;
    let command = marked(world.append_and_wait(""));

    let killing = async {
        world.until_effects(1).await.unwrap();
        let process = world
            .server
            .state()
            .join(format!("semel/{}/process", key("a")));
        let note = std::fs::read_to_string(process).unwrap();
        let pid = note.split(' ').next().unwrap().to_owned();
        let killed = std::process::Command::new("kill")
            .args(["-9", &pid])
            .status();
        assert!(killed.unwrap().success());
    };
    let (outcome, ()) = tokio::join!(world.perform(&command, key("a")), killing);
    let probed = in_doubt(world.probe(&command, key("a")).await?);
    let again = in_doubt(world.perform(&command, key("a")).await?);

    in_doubt(outcome?);
    assert_eq!(probed.code, "process-gone");
    assert_eq!(again.code, "process-gone", "nothing is run again by itself");
    assert_eq!(world.effects(), 1);
    Ok(())
}

#[tokio::test]
async fn a_request_that_arrives_in_half_runs_nothing() -> Result<()> {
    let world = World::new().await?;
    let proxy = Proxy::start(world.server.address()).await?;
    let to = world.destination_at(proxy.address())?;
    let mut command = marked(world.append("cat"));
    command.stdin = Some("y".repeat(1_000_000));

    // More than greeting, sign-in and the script; less than all of the input.
    proxy.cut_requests_after(300_000, Cut::Close);
    let outcome = world.caller.run(&command, &to, key("a")).await;
    proxy.resume();
    let absent = failed(world.probe(&command, key("a")).await?);
    let later = done(world.perform(&command, key("a")).await?);

    assert!(!matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    assert_eq!(absent.code, "marker-absent");
    assert_eq!(later["repeated"], json!(false));
    assert_eq!(world.effects(), 1);
    Ok(())
}

#[tokio::test]
async fn the_script_works_in_every_common_shell() -> Result<()> {
    let script = include_str!("../../src/ssh/marker.sh");

    for shell in [&["dash"][..], &["busybox", "sh"], &["bash", "--posix"]] {
        let folder = tempfile::tempdir()?;
        let say = |want: &str| -> Result<String> {
            let command = format!(
                "printf '\\nhello' | \"$@\" eff_1 {want} 5 5 sh -c 'cat; echo oops >&2; exit 3'"
            );
            let output = std::process::Command::new("bash")
                .args(["-c", &command, "test"])
                .args(shell)
                .args(["-c", script, "semel"])
                .env("XDG_STATE_HOME", folder.path())
                .output()
                .context("no bash")?;
            Ok(String::from_utf8(output.stdout)?)
        };

        assert_eq!(say("probe")?, "semel-marker/1 absent\n", "{shell:?}");
        assert_eq!(
            say("run")?,
            "semel-marker/1 done 3 5 5 first\nhellooops\n",
            "{shell:?}"
        );
        assert_eq!(
            say("run")?,
            "semel-marker/1 done 3 5 5 repeated\nhellooops\n",
            "{shell:?}"
        );
        assert_eq!(
            say("probe")?,
            "semel-marker/1 done 3 5 5 repeated\nhellooops\n",
            "{shell:?}"
        );
    }
    Ok(())
}
