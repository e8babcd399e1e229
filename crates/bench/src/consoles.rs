//! People who look at the console while runs come in: each follows a page as a browser does.
//!
//! A stream of marks stays open. When the mark of the page has changed, the page is asked for again, at most
//! every five seconds and as seldom as the stream says, which is what the console's script does.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::caller::{Caller, Who};
use crate::ground::Semel;

/// How long a page stays as it is at least, whatever changes.
const REST: Duration = Duration::from_secs(5);

/// How many browsers one token signs in: a server limits the streams of each.
const BROWSERS_EACH: usize = 4;

/// The pages that are looked at, and what each follows.
const PAGES: [(&str, &str); 4] = [
    ("/console/default/", "overview"),
    ("/console/default/runs", "runs"),
    ("/console/default/", "overview"),
    ("/console/default/doubts", "doubts"),
];

/// Consoles that are open. Dropping it closes them.
pub(crate) struct Consoles(JoinSet<Result<()>>);

impl Consoles {
    /// Opens so many consoles of a server.
    pub(crate) async fn open(semel: &Semel, count: usize) -> Result<Self> {
        let admin = Caller::new(semel.address(), semel.token());
        let mut browsers = JoinSet::new();
        let mut token = String::new();
        for number in 0..count {
            if number.is_multiple_of(BROWSERS_EACH) {
                let name = format!("console-{number}");
                let asked = json!({ "name": name, "role": "viewer" });
                let made = admin.change(Method::POST, "/v1/tokens", &asked, &name);
                let made = made.await?;
                token = made["token"].as_str().context("a token")?.to_owned();
            }
            let mut caller = Caller::new(semel.address(), &token);
            caller.sign_in().await?;
            let (page, topic) = PAGES[number % PAGES.len()];
            let stream = follow(&caller, topic).await?;
            browsers.spawn(look(caller, stream, page, topic));
        }
        Ok(Self(browsers))
    }

    /// Fails where a console was closed by its server.
    pub(crate) fn must_be_open(&mut self) -> Result<()> {
        match self.0.try_join_next() {
            Some(closed) => closed?.and(Err(anyhow::anyhow!("a console was closed"))),
            None => Ok(()),
        }
    }
}

async fn follow(caller: &Caller, topic: &str) -> Result<BufReader<TcpStream>> {
    let mut stream = TcpStream::connect(caller.address()).await?;
    let request = format!(
        "GET /console/default/live?topic={topic} HTTP/1.1\r\nhost: {}\r\ncookie: {}\r\n\r\n",
        caller.address(),
        caller.cookie()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut stream = BufReader::new(stream);
    let mut status = String::new();
    stream.read_line(&mut status).await?;
    ensure!(status.contains(" 200 "), "no stream: {status}");
    Ok(stream)
}

async fn look(
    caller: Caller,
    mut stream: BufReader<TcpStream>,
    page: &str,
    topic: &str,
) -> Result<()> {
    let (mut known, mut line) = (Value::Null, String::new());
    let mut looked = Instant::now();
    loop {
        line.clear();
        ensure!(stream.read_line(&mut line).await? > 0, "the stream ended");
        let Some(marks) = line.strip_prefix("data:") else {
            continue;
        };
        let said: Value = serde_json::from_str(marks.trim())?;
        let mark = &said["marks"][topic];
        let rest = said["rest_ms"].as_u64().context("how long a page rests")?;
        if *mark == known || looked.elapsed() < REST.max(Duration::from_millis(rest)) {
            continue;
        }
        known = mark.clone();
        looked = Instant::now();
        let shown = caller.get(Who::Browser, page).await?;
        ensure!(shown.status == 200, "{page}: {}", shown.status);
    }
}
