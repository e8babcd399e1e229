//! Counts what a test run costs besides time: servers, databases, connections, transactions.
//!
//! `.ci/run` names a file by `SEMEL_TALLY` and sums its lines. Without the variable nothing is counted.

use std::env::var_os;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

/// The variable that names the file.
const VARIABLE: &str = "SEMEL_TALLY";

/// Whether anything is counted.
pub(crate) fn is_kept() -> bool {
    var_os(VARIABLE).is_some()
}

/// Adds to a count. A line is one write to a file opened for appending, so processes that count at once
/// do not disturb each other.
pub(crate) fn add(name: &str, count: i64) {
    let Some(path) = var_os(VARIABLE) else {
        return;
    };
    let file = File::options().create(true).append(true).open(path);
    if let Ok(mut file) = file {
        file.write_all(format!("{name} {count}\n").as_bytes()).ok();
    }
}

/// Starts something that outlives the test and serves others, in a control group beside the test's, where
/// `.ci/long suite` accounts for each test: the first test must not pay for PostgreSQL.
pub(crate) fn beside_this_test<T>(start: impl FnOnce() -> T) -> T {
    let (Some(all), Some(own)) = (var_os("SEMEL_ACCOUNT"), var_os("SEMEL_ACCOUNT_TEST")) else {
        return start();
    };
    let shared = Path::new(&all).join("postgres");
    // Zero is the process that writes. Where a group is gone, the test pays.
    let enter = |group: &Path| fs::write(group.join("cgroup.procs"), "0").ok();
    fs::create_dir_all(&shared).ok();
    enter(&shared);
    let started = start();
    enter(Path::new(&own));
    started
}
