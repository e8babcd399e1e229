//! The workspace's tests as they are built, found by the files that they come from.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use semel_testkit::Build;
use serde_json::Value;

/// The executables of all tests.
pub(crate) struct Builds {
    root: PathBuf,
    /// Each with the file that it begins with.
    executables: Vec<(PathBuf, PathBuf)>,
}

/// One test.
pub(crate) struct Named {
    pub(crate) executable: PathBuf,
    /// The folder of its package, where it runs.
    pub(crate) package: PathBuf,
    /// The name by which its executable knows it.
    pub(crate) name: String,
}

impl Builds {
    /// Has cargo build what is not built yet, as the whole workspace is built.
    pub(crate) fn make() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("..")
            .canonicalize()?;
        let built = Build::of_this_test()?.cargo(
            "test",
            &["--workspace", "--no-run", "--message-format=json"],
        )?;
        let mut executables = Vec::new();
        for line in String::from_utf8(built)?.lines() {
            let message: Value = serde_json::from_str(line)?;
            let executable = message["executable"].as_str();
            if let (Some(executable), Some(true)) =
                (executable, message["profile"]["test"].as_bool())
            {
                let begins = message["target"]["src_path"].as_str().context("a source")?;
                executables.push((PathBuf::from(begins), PathBuf::from(executable)));
            }
        }
        Ok(Self { root, executables })
    }

    /// The test of a file, by its function's name.
    pub(crate) fn find(&self, path: &str, function: &str) -> Result<Named> {
        let (package, begins) = begins_with(path)?;
        let package = self.root.join(package);
        let begins: Vec<PathBuf> = begins.iter().map(|it| package.join(it)).collect();
        let built = self
            .executables
            .iter()
            .find(|(file, _)| begins.contains(file));
        let (_, executable) = built.with_context(|| format!("{path} belongs to no test"))?;
        let listed = Command::new(executable)
            .args(["--list", "--format", "terse", function])
            .current_dir(&package)
            .output()?;
        let listed = String::from_utf8(listed.stdout)?;
        let is_it = |name: &&str| *name == function || name.ends_with(&format!("::{function}"));
        let names = listed
            .lines()
            .filter_map(|line| line.strip_suffix(": test"));
        let names: Vec<&str> = names.filter(is_it).collect();
        // Of functions with one name, the one whose module the file is.
        let likest = names
            .iter()
            .copied()
            .max_by_key(|name| modules_shared(name, path));
        let name = match names[..] {
            [only] => Some(only),
            _ => likest.filter(|name| modules_shared(name, path) > 0),
        };
        let name = name.with_context(|| format!("{path} has no test {function}: {names:?}"))?;
        Ok(Named {
            executable: executable.clone(),
            package,
            name: name.to_owned(),
        })
    }
}

/// How many modules of a test's name are the file's and the folders around it, from the inside out.
fn modules_shared(name: &str, path: &str) -> usize {
    let modules = name.rsplit("::").skip(1);
    let folders = path.trim_end_matches(".rs").rsplit('/');
    modules
        .zip(folders)
        .take_while(|(module, folder)| module == folder)
        .count()
}

/// The package of a file, and the files that its test may begin with.
fn begins_with(path: &str) -> Result<(PathBuf, Vec<PathBuf>)> {
    let parts: Vec<&str> = path.split('/').collect();
    let (package, inside) = match parts[..] {
        ["crates", name, ..] => (Path::new("crates").join(name), &parts[2..]),
        ["tests", ..] => (PathBuf::from("tests"), &parts[1..]),
        _ => anyhow::bail!("{path} lies in no package"),
    };
    let test = |folder: &str, name: &str| {
        let folder = Path::new(folder);
        let name = name.trim_end_matches(".rs");
        vec![
            folder.join(name).join("main.rs"),
            folder.join(format!("{name}.rs")),
        ]
    };
    let begins = match inside {
        ["src", ..] => vec![PathBuf::from("src/lib.rs"), PathBuf::from("src/main.rs")],
        ["tests", name, ..] => {
            let mut begins = test("tests", name);
            begins.push(PathBuf::from("tests/all.rs"));
            begins
        }
        [name, ..] => test("", name),
        [] => anyhow::bail!("{path} is no file"),
    };
    Ok((package, begins))
}
