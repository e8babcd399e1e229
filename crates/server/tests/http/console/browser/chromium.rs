//! Debian's chromium without a screen, driven over its own protocol through two named pipes.

mod keys;

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use semel_testkit::patience;
use semel_testkit::waiting::until_blocking;
use serde_json::{Value, json};

/// A page in a browser. It blocks: a test uses it on a thread of its own.
pub(in crate::console) struct Chromium {
    child: Child,
    input: File,
    output: Receiver<Value>,
    session: Option<String>,
    /// Every tab: its target, and the session that it is spoken to through.
    tabs: Vec<(String, String)>,
    last: u64,
    /// Dialogs that a page opened, and what the browser objected to.
    pub(in crate::console) seen: Vec<String>,
    _home: tempfile::TempDir,
}

impl Chromium {
    pub(in crate::console) fn start() -> Result<Self> {
        let home = tempfile::tempdir()?;
        let (to, from) = (home.path().join("to"), home.path().join("from"));
        let made = Command::new("mkfifo").arg(&to).arg(&from).status()?;
        ensure!(made.success(), "mkfifo");
        let child = spawn(home.path(), &to, &from)?;
        let input = OpenOptions::new().write(true).open(&to)?;
        let output = listen(File::open(&from)?);
        let mut browser = Self {
            child,
            input,
            output,
            session: None,
            tabs: Vec::new(),
            last: 0,
            seen: Vec::new(),
            _home: home,
        };
        browser.open_tab()?;
        Ok(browser)
    }

    /// Opens a tab in a window of its own, which is visible beside the others, and speaks to it from now on.
    pub(in crate::console) fn open_tab(&mut self) -> Result<usize> {
        self.session = None;
        let wish = json!({"url": "about:blank", "newWindow": true});
        let target = self.call("Target.createTarget", wish)?["targetId"].clone();
        let attach = json!({"targetId": target, "flatten": true});
        let attached = self.call("Target.attachToTarget", attach)?;
        let text = |value: &Value| value.as_str().map(str::to_owned).context("an identity");
        self.tabs
            .push((text(&target)?, text(&attached["sessionId"])?));
        self.choose_tab(self.tabs.len() - 1);
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.call(domain, json!({}))?;
        }
        Ok(self.tabs.len() - 1)
    }

    /// Speaks to a tab from now on.
    pub(in crate::console) fn choose_tab(&mut self, tab: usize) {
        self.session = Some(self.tabs[tab].1.clone());
    }

    /// Closes a tab. Another one has to be chosen then.
    pub(in crate::console) fn close_tab(&mut self, tab: usize) -> Result<()> {
        self.session = None;
        let target = json!({"targetId": self.tabs[tab].0});
        self.call("Target.closeTarget", target)?;
        Ok(())
    }

    /// Calls a method of the protocol, and notes what happens meanwhile.
    fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last += 1;
        let id = self.last;
        self.send(&json!({"id": id, "method": method, "params": params}))?;
        loop {
            let message = match self.output.recv_timeout(patience()) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => bail!("{method} took too long"),
                Err(RecvTimeoutError::Disconnected) => bail!("the browser has ended"),
            };
            if message["id"] == id {
                ensure!(
                    message.get("error").is_none(),
                    "{method}: {}",
                    message["error"]
                );
                return Ok(message["result"].clone());
            }
            self.note(&message)?;
        }
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let mut message = message.clone();
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.input.write_all(message.to_string().as_bytes())?;
        self.input.write_all(b"\0")?;
        Ok(())
    }

    fn note(&mut self, message: &Value) -> Result<()> {
        match message["method"].as_str() {
            Some("Page.javascriptDialogOpening") => {
                self.seen
                    .push(format!("dialog: {}", message["params"]["message"]));
                self.last += 1;
                let accept = json!({"id": self.last, "method": "Page.handleJavaScriptDialog", "params": {"accept": true}});
                self.send(&accept)?;
            }
            Some("Log.entryAdded") => {
                let entry = &message["params"]["entry"];
                let text = entry["text"].as_str().unwrap_or_default();
                if entry["source"] == "security" || text.contains("Content Security Policy") {
                    self.seen.push(format!("refused: {text}"));
                }
            }
            Some("Runtime.exceptionThrown") => {
                self.seen
                    .push(format!("thrown: {}", message["params"]["exceptionDetails"]));
            }
            Some(_) | None => {}
        }
        Ok(())
    }

    /// The size of the window, and whether a person prefers the dark.
    pub(in crate::console) fn look(&mut self, width: u32, height: u32, dark: bool) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size)?;
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", media)?;
        Ok(())
    }

    /// Goes to an address, and waits until something is true there.
    pub(in crate::console) fn open(&mut self, url: &str, until: &str) -> Result<()> {
        self.call("Page.navigate", json!({"url": url}))?;
        self.until(until)
    }

    /// Lets tools of the test run on pages that forbid it. Only for what does not judge the policy.
    pub(in crate::console) fn bypass_policy(&mut self) -> Result<()> {
        self.call("Page.setBypassCSP", json!({"enabled": true}))?;
        Ok(())
    }

    /// What a promise on the page comes to.
    pub(in crate::console) fn eval_promise(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", params)?;
        ensure!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        Ok(answer["result"]["value"].clone())
    }

    /// The value of an expression on the page.
    pub(in crate::console) fn eval(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "returnByValue": true, "userGesture": true});
        let answer = self.call("Runtime.evaluate", params)?;
        ensure!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true. While a page is left, nothing is.
    pub(in crate::console) fn until(&mut self, expression: &str) -> Result<()> {
        let whole = format!("document.readyState === 'complete' && Boolean({expression})");
        let look = || Ok(self.eval(&whole).is_ok_and(|value| value == json!(true)));
        let Err(error) = until_blocking(expression, look, |is_true| *is_true) else {
            return Ok(());
        };
        let page = self.eval("location.href + ' ' + document.body.innerText")?;
        Err(error.context(format!("at {page}")))
    }

    /// Writes a picture of the whole page.
    pub(in crate::console) fn picture(&mut self, file: &Path) -> Result<()> {
        self.capture(file, true)
    }

    /// Writes a picture of what the window shows.
    pub(in crate::console) fn picture_of_window(&mut self, file: &Path) -> Result<()> {
        self.capture(file, false)
    }

    fn capture(&mut self, file: &Path, beyond: bool) -> Result<()> {
        let params = json!({"format": "png", "captureBeyondViewport": beyond});
        let shot = self.call("Page.captureScreenshot", params)?;
        let data = shot["data"].as_str().context("a picture")?;
        std::fs::write(file, STANDARD.decode(data)?)?;
        Ok(())
    }
}

fn spawn(home: &Path, to: &Path, from: &Path) -> Result<Child> {
    let line = "exec chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
                --no-first-run --disable-background-networking --disable-component-update \
                --hide-scrollbars --user-data-dir=\"$1\" --remote-debugging-pipe about:blank \
                3<\"$2\" 4>\"$3\"";
    let child = Command::new("sh")
        .args(["-c", line, "sh"])
        .arg(home.join("profile"))
        .args([to, from])
        .env("HOME", home)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.context("chromium cannot be started: install Debian's package `chromium`")
}

/// Messages end with the character zero.
fn listen(pipe: File) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut message = Vec::new();
        while pipe
            .read_until(0, &mut message)
            .is_ok_and(|bytes| bytes > 0)
        {
            message.pop();
            let read = serde_json::from_slice(&message);
            message.clear();
            if read.is_ok_and(|read: Value| sender.send(read).is_err()) {
                return;
            }
        }
    });
    receiver
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // Its profile is thrown away, so there is nothing that it would have to leave in order. Its own processes end
        // when they lose it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
