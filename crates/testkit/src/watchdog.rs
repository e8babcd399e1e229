//! Small shells that clean up after a test process, however it ends.
//!
//! A watchdog reads a pipe whose other end only the test process holds. The kernel closes that end
//! even for a process that was killed, so nothing depends on destructors. It runs in a process
//! group of its own, out of the way of the signals that end a test.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

/// What every watchdog can do.
const COMMON: &str = include_str!("watchdog/common.sh");

/// A shell that waits for our end.
#[derive(Debug)]
pub(crate) struct Watchdog {
    shell: Child,
}

impl Watchdog {
    /// Stops the cluster in a directory, and removes the directory, once we are gone.
    pub(crate) fn over_cluster(home: &Path) -> Result<Self> {
        let home = home.to_str().context("the path of a cluster is text")?;
        Self::start(include_str!("watchdog/cluster.sh"), &[home], Stdio::piped())
    }

    /// Kills a process once we are gone, unless it was cancelled before.
    pub(crate) fn over_process(pid: u32) -> Result<Self> {
        let pid = pid.to_string();
        Self::start(include_str!("watchdog/process.sh"), &[&pid], Stdio::piped())
    }

    /// Stops the shared cluster once no process has used it for a while.
    pub(crate) fn over_shared_cluster(place: &Path, idle_s: u64) -> Result<Self> {
        let place = place.to_str().context("the path of a cluster is text")?;
        let idle = idle_s.to_string();
        Self::start(
            include_str!("watchdog/shared.sh"),
            &[place, &idle],
            Stdio::null(),
        )
    }

    fn start(script: &str, arguments: &[&str], input: Stdio) -> Result<Self> {
        let shell = Command::new("sh")
            .arg("-c")
            .arg(format!("{COMMON}\n{script}"))
            .arg("semel-watchdog")
            .args(arguments)
            .current_dir("/")
            .stdin(input)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("cannot start a watchdog")?;
        Ok(Self { shell })
    }

    /// Has it do its work now, and waits for the end of it.
    pub(crate) fn finish(mut self) {
        drop(self.shell.stdin.take());
        self.shell.wait().ok();
    }

    /// Sends it away with its work undone.
    pub(crate) fn call_off(mut self) {
        if let Some(mut pipe) = self.shell.stdin.take() {
            pipe.write_all(b"done\n").ok();
        }
        self.shell.wait().ok();
    }
}
