//! A command without a marker: what it says, and what its silence means.

use anyhow::Result;
use semel_model::{Outcome, Span};
use semel_testkit::{Cut, Proxy};
use serde_json::json;

use crate::enough_time::{is_in_doubt, with_enough_time};
use crate::ssh::world::{World, done, failed, in_doubt, key, request};

/// Words that a shell would read something into.
const HOSTILE: [&str; 10] = [
    "a b",
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned",
    "' ; touch pwned ; '",
    "\" && touch pwned",
    "\\'",
    "*",
    "line\nbreak\r",
    "${HOME} !! ~ # |&>",
];

#[tokio::test]
async fn a_command_returns_its_output() -> Result<()> {
    let world = World::new().await?;
    let mut command = request(&["sh", "-c", "cat; echo no >&2"]);
    command.stdin = Some("read me".to_owned());

    let response = done(world.perform(&command, key("a")).await?);

    let expected = json!({
        "exit": 0, "stdout": "read me", "stderr": "no\n", "truncated": false, "repeated": false,
    });
    assert_eq!(response, expected);
    Ok(())
}

#[tokio::test]
async fn no_shell_reads_anything_into_a_word_a_variable_or_the_input() -> Result<()> {
    let world = World::new().await?;

    for marker in [false, true] {
        let mut command = request(&["printf", "[%s]"]);
        command.marker = marker;
        command
            .command
            .extend(HOSTILE.iter().map(|word| (*word).to_owned()));
        let words = done(world.perform(&command, key("words")).await?);
        let expected: String = HOSTILE.iter().map(|word| format!("[{word}]")).collect();
        assert_eq!(words["stdout"], json!(expected), "marker: {marker}");

        for (index, hostile) in HOSTILE.iter().enumerate() {
            let mut command = request(&["sh", "-c", "printf '%s|' \"$GREETING\"; cat"]);
            command.marker = marker;
            command.env = vec![("GREETING".to_owned(), (*hostile).to_owned())];
            command.stdin = Some((*hostile).to_owned());
            let said = done(world.perform(&command, key(&format!("{index}"))).await?);
            assert_eq!(
                said["stdout"],
                json!(format!("{hostile}|{hostile}")),
                "marker: {marker}"
            );
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_command_that_fails_says_so_itself() -> Result<()> {
    let world = World::new().await?;

    let fault = failed(
        world
            .perform(&world.append("echo bad >&2; exit 3"), key("a"))
            .await?,
    );
    let unknown = failed(
        world
            .perform(&request(&["no-such-program"]), key("b"))
            .await?,
    );

    assert_eq!((fault.code.as_str(), fault.retryable), ("exit-3", false));
    assert!(fault.message.ends_with("exit status 3: bad"), "{fault:?}");
    assert_eq!(
        (unknown.code.as_str(), unknown.retryable),
        ("exit-127", false)
    );
    Ok(())
}

#[tokio::test]
async fn a_command_that_was_killed_is_in_doubt() -> Result<()> {
    let world = World::new().await?;

    let direct = in_doubt(
        world
            .perform(&request(&["sh", "-c", "kill -9 $$"]), key("a"))
            .await?,
    );
    let inner = world.append("sh -c 'kill -9 $$'; exit $?");
    let inner = in_doubt(world.perform(&inner, key("b")).await?);

    assert_eq!(direct.code, "killed");
    assert_eq!(inner.code, "killed");
    Ok(())
}

#[tokio::test]
async fn output_has_a_limit() -> Result<()> {
    let world = World::new().await?;
    let flood =
        "head -c 3000000 /dev/zero | tr '\\0' x; head -c 2000000 /dev/zero | tr '\\0' y >&2";

    for marker in [false, true] {
        let mut command = request(&["sh", "-c", flood]);
        command.marker = marker;
        let response = done(world.perform(&command, key("a")).await?);

        assert_eq!(
            response["stdout"].as_str().map(str::len),
            Some(1 << 20),
            "marker: {marker}"
        );
        assert_eq!(
            response["stderr"].as_str().map(str::len),
            Some(1 << 20),
            "marker: {marker}"
        );
        assert_eq!(response["truncated"], json!(true));
    }
    Ok(())
}

#[tokio::test]
async fn a_command_that_does_not_end_in_time_is_in_doubt() -> Result<()> {
    let world = World::new().await?;
    let mut slow = world.append_and_wait("");

    let attempt = async |timeout: Span| -> Result<Outcome> {
        slow.timeout = timeout;
        world.perform(&slow, key("a")).await
    };
    let doubt = in_doubt(with_enough_time(attempt, is_in_doubt).await?);
    world.until_effects(1).await?;

    assert_eq!(doubt.code, "no-answer");
    assert_eq!(world.effects(), 1);
    Ok(())
}

#[tokio::test]
async fn a_wire_that_breaks_while_the_command_runs_leaves_a_doubt() -> Result<()> {
    let world = World::new().await?;
    let proxy = Proxy::start(world.server.address()).await?;
    let to = world.destination_at(proxy.address())?;

    let cutting = async {
        world.until_effects(1).await.unwrap();
        proxy.cut(Cut::Reset);
    };
    let slow = world.append_and_wait("");
    let (outcome, ()) = tokio::join!(world.caller.run(&slow, &to, key("a")), cutting);

    assert_eq!(in_doubt(outcome).code, "no-answer");
    assert_eq!(world.effects(), 1);
    Ok(())
}

#[tokio::test]
async fn a_server_that_does_not_let_us_in_is_sent_nothing() -> Result<()> {
    let world = World::new().await?;
    let proxy = Proxy::start(world.server.address()).await?;
    let to = world.destination_at(proxy.address())?;

    proxy.refuse();
    let refused = failed(world.caller.run(&world.append(""), &to, key("a")).await);
    proxy.resume();
    proxy.hold_answers();
    let mut hasty = world.append("");
    hasty.timeout = Span::from_millis(500);
    let silent = failed(world.caller.run(&hasty, &to, key("b")).await);
    proxy.resume();
    done(world.caller.run(&world.append(""), &to, key("c")).await);

    assert_eq!(
        (refused.code.as_str(), refused.retryable),
        ("no-connection", true)
    );
    assert_eq!((silent.code.as_str(), silent.retryable), ("timeout", true));
    assert_eq!(world.effects(), 1, "the last alone");
    Ok(())
}
