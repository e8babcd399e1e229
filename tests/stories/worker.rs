//! `semel worker`: a command per task, and what its end says.

use anyhow::{Context, Result, ensure};
use semel_testkit::{Process, Program, patience, until};
use serde_json::{Value, json};

use crate::desk::Desk;

const FLOW: &str = "flow: work
trigger: { api: { key: input.mode } }
retry: { attempts: 3, delay: 10ms, max_delay: 50ms, within: 1h }
steps:
  - id: act
    task: { queue: work, input: \"${{ input.mode }}\", within: 1h, lease: 30s }
    guard: review
result: steps.act.result
";

/// Ends as its input says.
const COMMAND: &str = r#"case "$(tr -dc a-z)" in
ok) printf '{"key":"%s"}' "$SEMEL_KEY" ;;
text) echo hello ;;
later) [ "$SEMEL_ATTEMPT" = 2 ] && echo 2 || exit 75 ;;
bad) echo "no such file" >&2; exit 3 ;;
dead) kill -9 $$ ;;
esac"#;

#[tokio::test]
async fn the_exit_status_of_a_command_settles_its_task() -> Result<()> {
    let place = Place::open().await?;
    for mode in ["ok", "text", "later", "bad", "dead"] {
        place.start(mode).await?;
    }
    std::fs::write(place.desk.folder().join("act.sh"), COMMAND)?;

    let line = "semel worker --queue work --parallel 2 --until-idle 3s --json -- sh act.sh";
    let said = place.desk.say(line).await?;

    let ok = place.stands("ok", "succeeded").await?;
    let key = ok["result"]["key"].as_str().unwrap_or_default();
    ensure!(key.starts_with("eff_"), "{ok}");
    let text = place.stands("text", "succeeded").await?;
    assert_eq!(text["result"], json!("hello"));
    let later = place.stands("later", "succeeded").await?;
    assert_eq!(later["result"], json!(2), "75 asks for another attempt");
    let bad = place.stands("bad", "failed").await?;
    assert_eq!(bad["fault"]["code"], json!("task-exit-3"));
    ensure!(
        bad["fault"]["message"].to_string().contains("no such file"),
        "{bad}"
    );
    let dead = place.stands("dead", "in_doubt").await?;
    ensure!(
        dead["fault"]["message"].to_string().contains("signal 9"),
        "{dead}"
    );
    let told: Value = serde_json::from_str(&said).context("exactly one object")?;
    let counts = json!({ "done": 3, "failed": 2, "in_doubt": 1, "left": 0 });
    assert_eq!(told["data"], counts);
    Ok(())
}

#[tokio::test]
async fn a_command_of_a_worker_does_not_get_its_token() -> Result<()> {
    let place = Place::open().await?;
    place.start("seen").await?;

    let command = r#"echo "${SEMEL_KEY:+key} ${SEMEL_TOKEN:-none}""#;
    let _worker = Program::semel()?
        .args(["worker", "--queue", "work", "--url", place.desk.url()])
        .env("SEMEL_TOKEN", place.desk.token())
        .args(["--", "sh", "-c", command])
        .start()?;

    let seen = place.stands("seen", "succeeded").await?;
    assert_eq!(seen["result"], json!("key none"));
    Ok(())
}

#[tokio::test]
async fn a_worker_that_is_asked_to_stop_finishes_what_runs() -> Result<()> {
    let place = Place::open().await?;
    place.start("slow").await?;
    let go = place.desk.folder().join("go");
    let command = format!(
        "while [ ! -e {} ]; do sleep 0.1; done; echo finished",
        go.display()
    );
    let mut worker = place.worker(&command)?;
    worker.until_line("started", patience()).await?;

    worker.sigterm()?;
    worker.until_line("stopping: ", patience()).await?;
    std::fs::write(&go, "")?;
    let status = worker.until_exit(patience()).await?;

    ensure!(status.success(), "{status}: {}", worker.stderr());
    let slow = place.stands("slow", "succeeded").await?;
    assert_eq!(slow["result"], json!("finished"));
    ensure!(
        worker.stderr().contains("stopping: finishing 1"),
        "{}",
        worker.stderr()
    );
    Ok(())
}

#[tokio::test]
async fn the_command_of_a_killed_worker_is_killed_too() -> Result<()> {
    let place = Place::open().await?;
    place.start("slow").await?;
    let note = place.desk.folder().join("pids");
    // A command that has started another one, as scripts do.
    let command = format!("sleep 300 & echo $$ $! > {}; wait", note.display());
    let mut worker = place.worker(&command)?;
    let noted = async || {
        let text = std::fs::read_to_string(&note).unwrap_or_default();
        let pids = text.split_whitespace().filter_map(|it| it.parse().ok());
        Ok(pids.collect::<Vec<u32>>())
    };
    let pids = until("both processes", noted, |pids| pids.len() == 2).await?;
    ensure!(pids.iter().all(|pid| is_alive(*pid)), "both run");

    worker.sigkill()?;

    let alive = async || Ok(pids.iter().any(|pid| is_alive(*pid)));
    until("both to be killed", alive, |alive| !alive).await?;
    Ok(())
}

/// Whether a process runs; one that is a zombie does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z')
}

/// `semel dev` with the flow live.
struct Place {
    desk: Desk,
}

impl Place {
    async fn open() -> Result<Self> {
        let desk = Desk::open(&[]).await?;
        let flows = tempfile::tempdir()?;
        std::fs::write(flows.path().join("work.flow.yaml"), FLOW)?;
        for command in ["push work.flow.yaml", "publish work", "promote work"] {
            let line = format!("semel flow {command}");
            desk.say_in(flows.path(), &line).await?;
        }
        Ok(Self { desk })
    }

    /// A worker of the queue that runs a shell command for each task.
    fn worker(&self, command: &str) -> Result<Process> {
        Program::semel()?
            .args(["worker", "--queue", "work"])
            .args(["--url", self.desk.url(), "--token", self.desk.token()])
            .args(["--", "sh", "-c", command])
            .start()
    }

    async fn start(&self, mode: &str) -> Result<()> {
        let input = json!({ "mode": mode });
        let line = format!("semel run start work --input '{input}'");
        self.desk.say(&line).await?;
        Ok(())
    }

    /// The run of a mode, once it stands like this.
    async fn stands(&self, mode: &str, state: &str) -> Result<Value> {
        let look = async || {
            let listed = self.desk.data("semel run list").await?;
            let runs = listed["items"].as_array().context("runs")?;
            let run = runs.iter().find(|run| run["key"] == json!(mode));
            Ok(run.context("the run")?.clone())
        };
        let stands = |run: &Value| run["state"] == json!(state);
        until(&format!("{mode} to be {state}"), look, stands).await
    }
}
