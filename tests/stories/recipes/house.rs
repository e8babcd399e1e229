//! A server of the product on a database of its own, with a recipe set up as its page says.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use semel_testkit::{
    Client, Connection, Database, Process, Program, free_address, patience, semel, until,
    until_some,
};
use serde_json::Value;
use tempfile::TempDir;

use super::providers::Providers;
use super::stand_ins::StandIns;
use crate::first_minutes::run;
use crate::steps::page::Page;

/// The server, the providers, and a person who types commands.
pub(super) struct House {
    pub(super) to: StandIns,
    folder: TempDir,
    database: Database,
    clock: Connection,
    address: String,
    server: Process,
    client: Client,
    token: String,
    /// The tokens that the page creates, by name.
    people: HashMap<String, String>,
}

impl House {
    /// Starts everything, and runs every command of a recipe's page.
    pub(super) async fn open(recipe: &str) -> Result<Self> {
        let page = Page::read(&format!("recipes/{recipe}"))?;
        let commands = page.commands()?;
        let folder = tempfile::tempdir()?;
        let to = StandIns::start(&commands).await?;
        if let Some(tables) = page.find("sql") {
            to.database()?
                .connect()
                .await?
                .batch_execute(&tables)
                .await?;
        }
        if let Some(worker) = page.find("python") {
            std::fs::write(folder.path().join("rows.py"), worker)?;
        }
        let name = format!("docs/recipes/{recipe}.flow.yaml");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(&name);
        let source = to.redirect_flow(&std::fs::read_to_string(source)?)?;
        std::fs::create_dir_all(folder.path().join("docs/recipes"))?;
        std::fs::write(folder.path().join(&name), source)?;
        let database = Database::empty().await?;
        let token = semel::migrate(Program::semel()?, &database.url()).await?;
        let address = free_address()?.to_string();
        let server = serve(&database, &address, folder.path()).await?;
        let mut house = Self {
            to,
            clock: database.connect().await?,
            client: Client::new(&address, 8),
            folder,
            database,
            address,
            server,
            token,
            people: HashMap::new(),
        };
        for line in commands {
            house.walk(&line).await?;
        }
        Ok(house)
    }

    /// Types a command of the page, led to the servers that stand here.
    async fn walk(&mut self, line: &str) -> Result<()> {
        let line = self.to.redirect(line, self.folder.path())?;
        let said = self.say(&line).await?;
        if line.starts_with("semel check") {
            ensure!(!said.contains("warning"), "{line}\n{said}");
        }
        if let Some(rest) = line.strip_prefix("semel token create ") {
            let name = rest.split(' ').next().context("a name")?;
            // Repeating it shows the same token again.
            let made = self.data(&line).await?;
            let token = made["token"].as_str().context("a token")?;
            self.people.insert(name.to_owned(), token.to_owned());
        }
        Ok(())
    }

    /// Where the server is.
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The providers.
    pub(super) fn providers(&self) -> &Providers {
        self.to.providers()
    }

    /// Types a command, and gives what it says.
    pub(super) async fn say(&self, line: &str) -> Result<String> {
        self.say_as(&self.token, line).await
    }

    async fn say_as(&self, token: &str, line: &str) -> Result<String> {
        let url = self.url();
        let line = format!("export SEMEL_URL='{url}' SEMEL_TOKEN='{token}'; {line}");
        run(self.folder.path(), &line).await
    }

    /// The same for a program: the data of what it says.
    pub(super) async fn data(&self, line: &str) -> Result<Value> {
        let said: Value = serde_json::from_str(&self.say(&format!("{line} --json")).await?)?;
        Ok(said["data"].clone())
    }

    /// A person of the page types a command.
    pub(super) async fn person_says(&self, name: &str, line: &str) -> Result<String> {
        let token = self
            .people
            .get(name)
            .context("the page has no such token")?;
        self.say_as(token, line).await
    }

    /// The approval that a run asks for, once it does.
    pub(super) async fn approval_of(&self, run: &str) -> Result<Value> {
        let path = format!("/v1/approvals?run={run}");
        let look = async || Ok(self.get(&path).await?["items"].get(0).cloned());
        until_some(&format!("{run} to ask for an approval"), look).await
    }

    /// Sends a delivery as a provider does.
    pub(super) async fn deliver(&self, delivery: &Delivery) -> Result<Delivered> {
        let mut headers = vec![("content-type", "application/json")];
        let own = delivery.headers.iter();
        headers.extend(own.map(|(name, value)| (*name, value.as_str())));
        let body = delivery.body.clone().into();
        let path = format!("/hooks/default/{}", delivery.hook);
        let answer = self
            .client
            .send(Method::POST, &path, &headers, body)
            .await?;
        ensure!(answer.status.is_success(), "{path}: {}", answer.text());
        let told: Value = answer.json()?;
        Ok(Delivered {
            run: told["run"].as_str().unwrap_or_default().to_owned(),
            repeated: answer.header("idempotency-replayed") == Some("true"),
        })
    }

    /// Sends a delivery twice at once: one of the two is a duplicate of the other.
    pub(super) async fn deliver_twice(&self, delivery: &Delivery) -> Result<String> {
        let (one, other) = tokio::try_join!(self.deliver(delivery), self.deliver(delivery))?;
        ensure!(one.repeated != other.repeated, "{one:?} {other:?}");
        ensure!(one.run == other.run, "{one:?} {other:?}");
        Ok(one.run)
    }

    /// Posts a text to an address of the server.
    pub(super) async fn post(&self, url: &str, body: &Value) -> Result<Value> {
        let path = url.strip_prefix(&self.url());
        let path = path.context("not of this server")?;
        let answer = self.client.post(path, body.to_string()).await?;
        ensure!(answer.status.is_success(), "{url}: {}", answer.text());
        answer.json()
    }

    /// What an address of the server shows a browser.
    pub(super) async fn open_link(&self, url: &str) -> Result<String> {
        let path = url.strip_prefix(&self.url());
        let path = path.context("not of this server")?;
        Ok(self.client.get(path).await?.text())
    }

    /// Waits until a run is in a state, and gives the run.
    pub(super) async fn until_state(&self, run: &str, state: &str) -> Result<Value> {
        let path = format!("/v1/runs/{run}");
        let (what, look) = (format!("{run} to be {state}"), async || {
            self.get(&path).await
        });
        let found = until(&what, look, |shown| shown["state"] == state);
        match found.await {
            Ok(shown) => Ok(shown),
            Err(error) => Err(error.context(self.say(&format!("semel run show {run}")).await?)),
        }
    }

    /// Waits until a run sleeps until a time.
    pub(super) async fn until_due(&self, run: &str, at: &str) -> Result<()> {
        let path = format!("/v1/runs/{run}");
        let (what, look) = (format!("{run} to be due at {at}"), async || {
            self.get(&path).await
        });
        until(&what, look, |shown| shown["due_at"] == at).await?;
        Ok(())
    }

    /// The run that a flow's schedule starts after another.
    pub(super) async fn next_run(&self, flow: &str, after: &str) -> Result<String> {
        let path = format!("/v1/runs?flow={flow}");
        let look = async || {
            let runs = self.get(&path).await?;
            let runs = runs["items"].as_array().context("runs")?;
            let mut others = runs.iter().filter_map(|run| run["run"].as_str());
            Ok(others.find(|run| *run != after).map(str::to_owned))
        };
        until_some(&format!("a run after {after}"), look).await
    }

    /// How often deliveries and effects of a run were stopped as duplicates, by where.
    pub(super) async fn duplicates(&self, run: &str) -> Result<Vec<String>> {
        let listed = self
            .data(&format!("semel duplicate list --run {run}"))
            .await?;
        let items = listed["items"].as_array().context("duplicates")?;
        let place = |one: &Value| one["stopped_by"].as_str().map(str::to_owned);
        Ok(items.iter().filter_map(place).collect())
    }

    /// The second by the server's clock.
    pub(super) async fn now(&self) -> Result<i64> {
        let now = "SELECT extract(epoch FROM moment())::bigint";
        Ok(self.clock.query_one(now, &[]).await?.get(0))
    }

    /// A time to come by the server's clock, as RFC 3339.
    pub(super) async fn in_days(&self, days: i32) -> Result<String> {
        let then = "SELECT to_char((moment() + make_interval(days => $1)) AT TIME ZONE 'UTC', \
                    'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')";
        Ok(self.clock.query_one(then, &[&days]).await?.get(0))
    }

    /// Stops the server, lets a time pass, and starts it again.
    pub(super) async fn sleep_for(&mut self, span: &str) -> Result<()> {
        self.server.sigterm()?;
        self.server.until_exit(patience()).await?;
        let pass = format!("UPDATE clock SET time_offset = time_offset + interval '{span}'");
        self.clock.batch_execute(&pass).await?;
        self.server = serve(&self.database, &self.address, self.folder.path()).await?;
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let bearer = format!("Bearer {}", self.token);
        let headers = [("authorization", bearer.as_str())];
        let answer = self
            .client
            .send(Method::GET, path, &headers, "".into())
            .await?;
        ensure!(answer.status.is_success(), "{path}: {}", answer.text());
        answer.json()
    }
}

async fn serve(database: &Database, address: &str, folder: &Path) -> Result<Process> {
    // The product's own database server is closed to flows unless it is opened by that very address.
    let program = Program::semel()?
        .env("SEMEL_ALLOW_PRIVATE", "127.0.0.0/8,127.0.0.1/32")
        .env("SEMEL_RESOURCES", folder.join("resources"));
    let public = format!("http://{address}");
    let arguments = ["--public-url", public.as_str()];
    // The rehearsals of the recipes are tests of their own, and take half a minute each in this build.
    let (server, _) = semel::serve(program, &database.url(), address, &arguments).await?;
    Ok(server)
}

/// What a provider sends to a hook.
pub(super) struct Delivery {
    pub(super) hook: &'static str,
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: String,
}

/// What the server responded.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) run: String,
    pub(super) repeated: bool,
}
