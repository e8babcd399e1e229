//! Planted secrets: used, echoed, refused and broken in every way, and then looked for in all that
//! can be seen: the database, the logs, the API, the command line.

mod echo;
mod planted;
mod search;

use std::io::{Seek as _, Write as _};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{Cluster, Options, Program, Server, patience};
use serde_json::{Value, json};

use crate::invariants;
use crate::queries::{ACTIVE, until_none};
use crate::servers::{Home, Served, serve};
use echo::{Echo, WAYS};
use planted::{Canary, Used, all};
use search::Gathered;

/// The keys that the server is given.
const MASTER: &str = "c4n4ryc4n4ry";

#[tokio::test(flavor = "multi_thread")]
async fn planted_secrets_are_found_nowhere() -> Result<()> {
    let cluster = Cluster::start(Options::quick()).await?;
    let home = Home::found(cluster.server()).await?;
    let master = hex::encode(format!("{MASTER}{MASTER}{}", "12345678"));
    let program = Program::semel()?
        .env("SEMEL_LOG", "trace")
        .env("SEMEL_MASTER_KEYS", &master);
    let server = serve(program, &home.url(), "10s").await?;
    let echo = Echo::start("c4n-dehctef-nekot-7Q/+x=9~13").await?;
    let canaries = all(echo.address);
    let mut world = World {
        home: &home,
        server: &server,
        gathered: Gathered::default(),
    };

    for canary in &canaries {
        world.plant(canary).await?;
    }
    let runs = world.run_all(&canaries).await?;
    world.until_stopped().await?;
    world.look_at(&canaries, &runs).await?;
    let mut gathered = world.gathered;
    gathered.add("stdout", server.process.stdout());
    gathered.add("the log", server.process.stderr());
    gathered.add("the dump", dump(cluster.server()).await?);

    let heard = echo.heard();
    for name in ["bearer", "basic", "header", "oauth"] {
        let canary = canaries.iter().find(|canary| canary.name == name);
        let mut ears = Gathered::default();
        ears.add("the destination", heard.as_str());
        let value = canary
            .map(|canary| canary.value.as_str())
            .unwrap_or_default();
        ensure!(!ears.find(value).is_empty(), "{name} was sent: {heard}");
    }
    ensure!(
        gathered.find("plain-control-4711").len() > 10,
        "what is no secret and is echoed can be found"
    );
    let mut leaks = Vec::new();
    let token = home.token().rsplit('_').next().unwrap_or_default();
    let kept = [("master key", master.as_str()), ("token", token)];
    let planted = canaries
        .iter()
        .map(|canary| (canary.name, canary.value.as_str()));
    for (name, value) in planted.chain(kept) {
        let found = gathered.find(value);
        leaks.extend(found.iter().map(|place| format!("{name}: {place}")));
    }
    println!(
        "{} canaries, {} runs, {} bytes looked through",
        canaries.len() + kept.len(),
        runs.len(),
        gathered.len()
    );
    ensure!(
        leaks.is_empty(),
        "{} leaks:\n{}",
        leaks.len(),
        leaks.join("\n")
    );
    invariants::hold(&home, &[&server]).await
}

struct World<'w> {
    home: &'w Home,
    server: &'w Served,
    gathered: Gathered,
}

impl World<'_> {
    /// Sets a secret by the command line and keeps its connection by the API.
    async fn plant(&mut self, canary: &Canary) -> Result<()> {
        let mut file = tempfile::tempfile()?;
        file.write_all(canary.value.as_bytes())?;
        file.rewind()?;
        let words = ["secret", "set", canary.name, "--json"];
        let set = self.semel(&words)?.with_input(file);
        let set = set.run(patience()).await?;
        ensure!(set.status.success(), "{}", set.stderr);
        self.gathered
            .add("semel secret set", set.stdout + &set.stderr);
        if let Some(connection) = &canary.connection {
            let path = format!("/v1/connections/{}", canary.name);
            let body = json!({ "connection": connection }).to_string();
            let (status, text) = self.ask(Method::PUT, &path, body).await?;
            ensure!(status < 300, "{path}: {text}");
        }
        Ok(())
    }

    /// Makes a flow for every canary and starts it in every way; says which runs there are.
    async fn run_all(&mut self, canaries: &[Canary]) -> Result<Vec<String>> {
        let mut runs = Vec::new();
        for canary in canaries {
            let flow = canary.name.replace('_', "-");
            match canary.used {
                Used::Apart => {}
                Used::Trigger(fields) => {
                    let fields = fields.replace("NAME", canary.name);
                    let source = format!(
                        "flow: {flow}\ntrigger:\n  webhook: {{ {fields} }}\n\
                         steps: [{{ id: one, function: '1' }}]\n"
                    );
                    self.home.publish(self.server, &flow, &source).await?;
                    let path = format!("/hooks/default/{flow}");
                    let (_, text) = self
                        .ask(Method::POST, &path, "{\"id\":\"evt_1\"}".into())
                        .await?;
                    self.gathered.add(path, text);
                }
                Used::Step(action) => {
                    let ways: &[&str] = match action.contains("WAY") {
                        true => &WAYS,
                        false => &["fine"],
                    };
                    for way in ways {
                        runs.push(self.run_one(canary.name, &flow, action, way).await?);
                    }
                }
            }
        }
        Ok(runs)
    }

    async fn run_one(&mut self, name: &str, flow: &str, action: &str, way: &str) -> Result<String> {
        let flow = format!("{flow}-{way}");
        let action = action.replace("NAME", name).replace("WAY", way);
        let source = format!(
            "flow: {flow}\ntrigger: {{ api: {{}} }}\nretry: {{ attempts: 1 }}\n\
             steps:\n  - id: call\n    {action}\nresult: steps.call.result\n"
        );
        self.home.publish(self.server, &flow, &source).await?;
        let body = json!({ "key": way, "input": {} }).to_string();
        let path = format!("/v1/flows/{flow}/runs");
        let (status, text) = self.ask(Method::POST, &path, body).await?;
        ensure!(status < 300, "{path}: {text}");
        let started: Value = serde_json::from_str(&text)?;
        Ok(started["run"].as_str().context("a run")?.to_owned())
    }

    /// Waits until no run is active.
    async fn until_stopped(&self) -> Result<()> {
        until_none(&self.home.connect().await?, ACTIVE).await
    }

    /// Asks for everything that the API and the command line show.
    async fn look_at(&mut self, canaries: &[Canary], runs: &[String]) -> Result<()> {
        let lists = [
            "/v1/runs?limit=500",
            "/v1/effects?limit=500",
            "/v1/doubts",
            "/v1/duplicates",
            "/v1/waits",
            "/v1/flows",
            "/v1/connections",
            "/v1/secrets",
            "/v1/whoami",
            "/metrics",
        ];
        for path in lists {
            self.ask(Method::GET, path, String::new()).await?;
        }
        for run in runs {
            self.ask(Method::GET, &format!("/v1/runs/{run}"), String::new())
                .await?;
        }
        for canary in canaries.iter().filter(|canary| canary.connection.is_some()) {
            let path = format!("/v1/connections/{}", canary.name);
            self.ask(Method::GET, &path, String::new()).await?;
            self.ask(Method::POST, &format!("{path}/test"), String::new())
                .await?;
        }
        // A body that does not fit, and a value where it does not belong.
        let value = &canaries[0].value;
        for body in [json!({ "valeu": value }), json!({ "value": [value] })] {
            let path = "/v1/secrets/other";
            self.ask(Method::PUT, path, body.to_string()).await?;
        }
        let mut lines = vec![
            vec!["run", "list"],
            vec!["effect", "list"],
            vec!["doubt", "list"],
            vec!["flow", "list"],
            vec!["connection", "list"],
            vec!["secret", "list"],
            vec!["connection", "show", "bearer"],
            vec!["connection", "test", "bearer"],
            vec!["config", "show"],
            vec!["doctor"],
            vec!["secret", "set", "other", value],
        ];
        lines.extend(
            runs.iter()
                .take(20)
                .map(|run| vec!["run", "show", run.as_str()]),
        );
        for words in lines {
            for json in [&[][..], &["--json"]] {
                let said = self.semel(&words)?.args(json).run(patience()).await?;
                let who = format!("semel {} {}", words[0], words[1..].first().unwrap_or(&""));
                self.gathered.add(who, said.stdout + &said.stderr);
            }
        }
        Ok(())
    }

    fn semel(&self, words: &[&str]) -> Result<Program> {
        Ok(Program::semel()?
            .args(words)
            .env("SEMEL_URL", format!("http://{}", self.server.address))
            .env("SEMEL_TOKEN", self.home.token()))
    }

    /// Asks the API, and keeps what it answers.
    async fn ask(&mut self, method: Method, path: &str, body: String) -> Result<(u16, String)> {
        let bearer = format!("Bearer {}", self.home.token());
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let client = &self.server.client;
        let answer = client.send(method, path, &headers, body.into()).await?;
        let text = format!("{:?}\n{}", answer.headers, answer.text());
        self.gathered.add(path, text);
        Ok((answer.status.as_u16(), answer.text()))
    }
}

/// All that is in the database, as text.
async fn dump(server: &Server) -> Result<String> {
    let dump = Program::at(semel_testkit::cluster::binary("pg_dump")?)
        .args(["--inserts", "--dbname", &server.url("semel")])
        .run(patience())
        .await?;
    ensure!(dump.status.success(), "{}", dump.stderr);
    Ok(dump.stdout)
}
