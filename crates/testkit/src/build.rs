//! Building more of the workspace from inside a test, as the test itself was built.
//!
//! Tests run from `TARGET/PROFILE/deps`, so their own path tells both, whatever the profile.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// How the test that runs was built.
#[derive(Debug)]
pub struct Build {
    target: PathBuf,
    profile: String,
}

impl Build {
    /// Of the executable that runs.
    pub fn of_this_test() -> Result<Self> {
        Self::of(&std::env::current_exe()?)
    }

    fn of(executable: &Path) -> Result<Self> {
        let directory = executable
            .ancestors()
            .nth(2)
            .context("a directory of a profile")?;
        let profile = directory.file_name().and_then(|name| name.to_str());
        Ok(Self {
            target: directory.parent().context("a target")?.to_owned(),
            profile: profile.context("a profile's name")?.to_owned(),
        })
    }

    /// Runs a command of cargo's in the workspace and returns what it writes to standard output.
    pub fn cargo(&self, command: &str, arguments: &[&str]) -> Result<Vec<u8>> {
        let output = Command::new(env!("CARGO"))
            .arg(command)
            .args(arguments)
            .args(["--locked", "--offline", "--quiet", "--target-dir"])
            .arg(&self.target)
            .args(self.profile_flags())
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .output()
            .context("cannot run cargo")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{errors}");
        Ok(output.stdout)
    }

    /// Cargo's own profile for a command is in `debug`; every other has a directory of its name.
    fn profile_flags(&self) -> Vec<&str> {
        match self.profile.as_str() {
            "debug" => Vec::new(),
            profile => vec!["--profile", profile],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_test_tells_its_profile_and_its_target() {
        let dist = Build::of(Path::new("/t/dist/deps/chaos-1")).unwrap();
        let debug = Build::of(Path::new("/t/debug/deps/chaos-1")).unwrap();

        assert_eq!(dist.profile_flags(), ["--profile", "dist"]);
        assert_eq!(debug.profile_flags(), Vec::<&str>::new());
        assert_eq!(dist.target, Path::new("/t"));
    }
}
