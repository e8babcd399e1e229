//! Names the build for `semel --version`: the commit, its date and the profile.
//!
//! A development build says only that it is one: tests are built all day, and must neither look for
//! a commit nor be built again after each. Where there is no git or no history, packagers name the
//! commit in `SEMEL_COMMIT`. Uncommitted changes do not show in it.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SEMEL_COMMIT");
    let build = match profile().as_str() {
        "debug" => "dev build".to_owned(),
        profile => format!("{}, {profile}", commit()),
    };
    println!("cargo::rustc-env=SEMEL_BUILD={build}");
}

/// The profile's folder in the target folder, such as `debug`, `release` or `dist`. Cargo's own
/// `PROFILE` says `release` of every profile that inherits it.
fn profile() -> String {
    let out = env::var("OUT_DIR").unwrap_or_default();
    let folders: Vec<&str> = out.split('/').collect();
    let build = folders.iter().rposition(|folder| *folder == "build");
    let profile = build.and_then(|at| folders.get(at.checked_sub(1)?));
    profile.map_or_else(|| "unknown profile".to_owned(), |it| (*it).to_owned())
}

/// The commit and the day of it.
fn commit() -> String {
    let named = env::var("SEMEL_COMMIT").ok();
    named
        .filter(|commit| !commit.is_empty())
        .or_else(head)
        .unwrap_or_else(|| "unknown commit".to_owned())
}

/// The commit that is checked out, where this file belongs to the repository around it.
fn head() -> Option<String> {
    let place = git(&["rev-parse", "--show-prefix"])?;
    if place != "crates/cli/" {
        return None;
    }
    watch();
    git(&[
        "show",
        "--no-patch",
        "--abbrev=9",
        "--format=%h, %cs",
        "HEAD",
    ])
}

/// Has cargo ask again when another commit is checked out or made. A ref may be packed away, so the
/// log of `HEAD` is watched besides. A file that is not there would be asked for at each build.
fn watch() {
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let files = [
        Some("HEAD"),
        Some("logs/HEAD"),
        Some("packed-refs"),
        branch.as_deref(),
    ];
    for file in files.into_iter().flatten() {
        let path = git(&["rev-parse", "--path-format=absolute", "--git-path", file]);
        if let Some(path) = path.filter(|path| std::path::Path::new(path).is_file()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// What git says, or nothing if there is none or it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| said.trim().to_owned())
}
