//! Programs as real processes under real signals.
//!
//! A [`Program`] says what to run, a [`Process`] is it running. Its output is kept in memory, and
//! it dies with the test, even with one that is killed.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use crate::tally;
use crate::watchdog::Watchdog;

/// How many lines of each stream are kept; the oldest go first.
const LINES_MAX: usize = 50_000;

/// What takes the limit off the product's hooks.
const HOOK_RATE: (&str, &str) = ("SEMEL_HOOK_RATE", "0");

/// How often the end of a process is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How long the output of a program that has ended is still read.
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(2);

/// What to run, and how.
#[derive(Debug)]
pub struct Program {
    command: Command,
}

impl Program {
    /// The product's binary: `SEMEL_BIN`, or the one built beside this test.
    pub fn semel() -> Result<Self> {
        Ok(Self::semel_at(Self::beside("semel", "SEMEL_BIN")?.path()))
    }

    /// A build of the product's binary. Its hooks have no limit: tests send more than any sender.
    pub fn semel_at(path: impl AsRef<OsStr>) -> Self {
        Self::at(path).env(HOOK_RATE.0, HOOK_RATE.1)
    }

    /// A binary of this workspace: what `variable` names, or the one built beside this test.
    pub fn beside(name: &str, variable: &str) -> Result<Self> {
        match std::env::var_os(variable) {
            Some(path) => Ok(Self::at(path)),
            None => Ok(Self::at(find_beside(name)?)),
        }
    }

    /// Any executable.
    pub fn at(path: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(path);
        // The peers of tests are on this machine, which flows may not call otherwise.
        command
            .env("SEMEL_ALLOW_PRIVATE", "127.0.0.0/8,::1/128")
            // What `semel dev` notes of its folders is the same at each start, and not in a person's home.
            .env("XDG_STATE_HOME", state_home())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { command }
    }

    /// Where the executable lies.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(self.command.get_program())
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item: AsRef<OsStr>>>(mut self, arguments: I) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable of the environment.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Runs in a directory.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Gives the process a file as its input.
    pub fn with_input(mut self, file: std::fs::File) -> Self {
        self.command.stdin(Stdio::from(file));
        self
    }

    /// Gives the process an input that stays open, silent, for as long as the test lives.
    pub fn with_open_input(mut self) -> Self {
        self.command.stdin(Stdio::piped());
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Result<Process> {
        let name = self.command.get_program().to_owned();
        let mut child = self
            .command
            .spawn()
            .with_context(|| format!("cannot run {}", name.display()))?;
        tally::add("process", 1);
        let watchdog = Watchdog::over_process(child.id())?;
        let (changed, _) = watch::channel(());
        let output = Arc::new(Output {
            streams: Mutex::default(),
            changed,
        });
        collect(&output, Stream::Out, child.stdout.take());
        collect(&output, Stream::Err, child.stderr.take());
        let input = child.stdin.take();
        Ok(Process {
            child,
            output,
            watchdog: Some(watchdog),
            _input: input,
        })
    }

    /// Runs it to its end.
    pub async fn run(self, within: Duration) -> Result<Finished> {
        let mut process = self.start()?;
        let status = process.until_exit(within).await?;
        Ok(Finished {
            status,
            stdout: process.stdout(),
            stderr: process.stderr(),
        })
    }
}

fn state_home() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    std::env::temp_dir().join(format!("semel-testkit-{user}-state"))
}

/// What a program that ran to its end left.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// All it wrote to standard output.
    pub stdout: String,
    /// All it wrote to standard error.
    pub stderr: String,
}

/// A running program, killed when it is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: Arc<Output>,
    watchdog: Option<Watchdog>,
    _input: Option<ChildStdin>,
}

impl Process {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it at once and collects its status.
    pub fn sigkill(&mut self) -> Result<ExitStatus> {
        self.child.kill()?;
        let status = self.child.wait()?;
        self.stand_down();
        Ok(status)
    }

    /// Freezes it.
    pub fn sigstop(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a frozen process continue.
    pub fn sigcont(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end.
    pub fn sigterm(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits for its end, and for the last of its output.
    pub async fn until_exit(&mut self, within: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + within;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                bail!(
                    "the program is still running after {within:?}:\n{}",
                    self.stderr()
                );
            }
            sleep(LOOK_EVERY).await;
        };
        self.stand_down();
        // A process that the program has started may hold its output open for ever.
        let last_words = Instant::now() + LAST_WORDS_PATIENCE;
        self.until(last_words, |streams| streams.closed == 2)
            .await
            .ok();
        Ok(status)
    }

    /// Waits until it has written a line that contains `wanted`, to either stream.
    pub async fn until_line(&self, wanted: &str, within: Duration) -> Result<String> {
        let deadline = Instant::now() + within;
        let found = |streams: &Streams| streams.find(wanted).is_some() || streams.closed == 2;
        self.until(deadline, found)
            .await
            .with_context(|| format!("waiting for {wanted:?}"))?;
        let line = self.output.lock().find(wanted);
        line.with_context(|| format!("ended without {wanted:?}:\n{}", self.stderr()))
    }

    /// Waits for the line by which it says that it listens, and reads the address behind `words`.
    pub async fn until_address(&self, words: &str, within: Duration) -> Result<SocketAddr> {
        let line = self.until_line(words, within).await?;
        let behind = line.split(words).nth(1).unwrap_or_default();
        let address = behind.split_whitespace().next().unwrap_or_default();
        address
            .parse()
            .with_context(|| format!("an address in {line:?}"))
    }

    async fn until(&self, deadline: Instant, reached: impl Fn(&Streams) -> bool) -> Result<()> {
        let mut changes = self.output.changed.subscribe();
        while !reached(&self.output.lock()) {
            match timeout_at(deadline, changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => bail!("the output is no longer read"),
                Err(_) => bail!("the time is up; the program wrote:\n{}", self.stderr()),
            }
        }
        Ok(())
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        join(&self.output.lock().out)
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        join(&self.output.lock().err)
    }

    /// The number of a process that has ended may be given to another, so it must not be killed.
    fn stand_down(&mut self) {
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.call_off();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        self.stand_down();
    }
}

#[derive(Debug)]
struct Output {
    streams: Mutex<Streams>,
    changed: watch::Sender<()>,
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Streams> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
struct Streams {
    out: VecDeque<String>,
    err: VecDeque<String>,
    closed: usize,
}

impl Streams {
    fn find(&self, wanted: &str) -> Option<String> {
        self.out
            .iter()
            .chain(&self.err)
            .find(|line| line.contains(wanted))
            .cloned()
    }
}

#[derive(Clone, Copy)]
enum Stream {
    Out,
    Err,
}

/// Reads a stream on a thread of its own: a busy runtime must not stop the program under test.
fn collect(output: &Arc<Output>, stream: Stream, pipe: Option<impl Read + Send + 'static>) {
    let output = Arc::clone(output);
    std::thread::spawn(move || {
        let mut reader = pipe.map(BufReader::new);
        let mut bytes = Vec::new();
        while let Some(Ok(1..)) = reader
            .as_mut()
            .map(|pipe| pipe.read_until(b'\n', &mut bytes))
        {
            let line = String::from_utf8_lossy(&bytes)
                .trim_end_matches('\n')
                .to_owned();
            push(&mut output.lock(), stream, line);
            bytes.clear();
            output.changed.send_replace(());
        }
        output.lock().closed += 1;
        output.changed.send_replace(());
    });
}

fn push(streams: &mut Streams, stream: Stream, line: String) {
    let lines = match stream {
        Stream::Out => &mut streams.out,
        Stream::Err => &mut streams.err,
    };
    if lines.len() == LINES_MAX {
        lines.pop_front();
    }
    lines.push_back(line);
}

fn join(lines: &VecDeque<String>) -> String {
    lines
        .iter()
        .flat_map(|line| [line.as_str(), "\n"])
        .collect()
}

/// Tests run from `target/PROFILE/deps`, binaries lie one above.
fn find_beside(name: &str) -> Result<PathBuf> {
    let executable = std::env::current_exe()?;
    let directories = executable.ancestors().skip(1).take(2);
    directories
        .map(|directory| directory.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not built: run `cargo build --workspace` first"))
}
