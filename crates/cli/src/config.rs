//! Configuration: every value, and where it came from.
//!
//! A flag beats the environment, which beats what `semel dev` left in `.semel/` of the working
//! directory or the nearest one above it, which beats `semel.toml` there, which beats the default.

mod file;
mod key;

pub(crate) use key::Key;

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::answer::Problem;
use file::File;

/// The folder that `semel dev` keeps its things in.
pub(crate) const LOCAL_FOLDER: &str = ".semel";

/// Everything that a value can come from, flags aside.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    directory: PathBuf,
    env: BTreeMap<String, String>,
    file: File,
}

/// A value and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) value: String,
    pub(crate) source: Source,
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The command line.
    Flag,
    /// A variable of the environment.
    Env(&'static str),
    /// A file that `semel dev` wrote.
    Local(&'static str),
    /// `semel.toml`.
    File,
    /// No value was given.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag => f.write_str("flag"),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Local(name) => write!(f, "{LOCAL_FOLDER}/{name}"),
            Self::File => f.write_str(file::NAME),
            Self::Default => f.write_str("default"),
        }
    }
}

impl Config {
    /// Reads the environment and the working directory.
    pub(crate) fn read() -> Result<Self, Problem> {
        let directory = std::env::current_dir().map_err(|error| {
            Problem::local(format!("cannot tell the working directory: {error}"))
        })?;
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Self::new(directory, env)
    }

    fn new(directory: PathBuf, env: BTreeMap<String, String>) -> Result<Self, Problem> {
        let file = File::read(&directory)?;
        Ok(Self {
            directory,
            env,
            file,
        })
    }

    /// The working directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The value of a key, with a flag's value in front of all others.
    pub(crate) fn find(&self, key: Key, flag: Option<&str>) -> Option<Setting> {
        let given = flag.map(|value| (value.to_owned(), Source::Flag));
        let (value, source) = given
            .or_else(|| self.said_by_env(key))
            .or_else(|| self.said_locally(key))
            .or_else(|| Some((self.file.find(key)?, Source::File)))
            .or_else(|| Some((key.default()?.to_owned(), Source::Default)))?;
        Some(Setting { value, source })
    }

    /// Whether somebody chose the value of a key.
    pub(crate) fn is_set(&self, key: Key, flag: Option<&str>) -> bool {
        let found = self.find(key, flag);
        found.is_some_and(|setting| setting.source != Source::Default)
    }

    /// What `semel dev` left.
    pub(crate) fn find_local(&self, key: Key) -> Option<String> {
        self.said_locally(key).map(|(value, _)| value)
    }

    /// The folder of `semel dev`: of the working directory, or of the nearest one above it.
    fn local_folder(&self) -> Option<PathBuf> {
        self.folder_of(rustix::process::geteuid().as_raw())
    }

    /// The folder is taken only where it is the user's own: with a stranger's, secrets and payloads
    /// would go to the stranger's server.
    fn folder_of(&self, user: u32) -> Option<PathBuf> {
        self.directory.ancestors().find_map(|directory| {
            let folder = directory.join(LOCAL_FOLDER);
            let there = if directory == self.directory {
                std::fs::metadata(&folder).ok()?
            } else {
                std::fs::symlink_metadata(&folder).ok()?
            };
            (there.is_dir() && there.uid() == user).then_some(folder)
        })
    }

    fn said_by_env(&self, key: Key) -> Option<(String, Source)> {
        let name = key.env();
        let value = self.env.get(name).filter(|value| !value.is_empty())?;
        Some((value.clone(), Source::Env(name)))
    }

    /// `semel dev` leaves plain files. A link could have come with a clone, and would send a secret that
    /// stands elsewhere, as the token, to the address beside it.
    fn said_locally(&self, key: Key) -> Option<(String, Source)> {
        let name = key.local()?;
        let path = self.local_folder()?.join(name);
        if !std::fs::symlink_metadata(&path).ok()?.is_file() {
            return None;
        }
        let text = std::fs::read_to_string(path).ok()?;
        let text = text.trim();
        (!text.is_empty()).then(|| (text.to_owned(), Source::Local(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(directory: &Path, env: &[(&str, &str)]) -> Config {
        let env = env
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::new(directory.to_owned(), env.collect()).unwrap()
    }

    fn write(directory: &Path, name: &str, text: &str) {
        let path = directory.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_nearer_source_wins() {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        let source = |env: &[(&str, &str)], flag| config(place, env).find(Key::Url, flag).unwrap();

        assert_eq!(source(&[], None).source, Source::Default);
        write(place, "semel.toml", "url = 'http://file'\n");
        assert_eq!(source(&[], None).source, Source::File);
        write(place, ".semel/url", "http://local\n");
        assert_eq!(source(&[], None).value, "http://local");
        assert_eq!(
            source(&[("SEMEL_URL", "http://env")], None).value,
            "http://env"
        );
        let flagged = source(&[("SEMEL_URL", "http://env")], Some("http://flag"));
        assert_eq!(flagged.value, "http://flag");
        assert_eq!(flagged.source, Source::Flag);
    }

    #[test]
    fn files_of_dev_are_found_from_subdirectories() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), ".semel/url", "http://local\n");
        let below = directory.path().join("flows/old");
        std::fs::create_dir_all(&below).unwrap();

        let found = config(&below, &[]).find(Key::Url, None).unwrap();

        assert_eq!(found.value, "http://local");
        assert_eq!(found.source, Source::Local("url"));
    }

    #[test]
    fn a_folder_of_another_user_is_not_taken() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), ".semel/url", "http://local\n");
        let me = rustix::process::geteuid().as_raw();
        let config = config(directory.path(), &[]);

        assert_eq!(config.folder_of(me), Some(directory.path().join(".semel")));
        assert_eq!(config.folder_of(me.wrapping_add(1)), None);
    }

    #[test]
    fn a_link_to_a_secret_elsewhere_is_no_token() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "own/token", "hush\n");
        write(directory.path(), "clone/.semel/url", "http://local\n");
        let clone = directory.path().join("clone");
        let link = clone.join(".semel/token");
        std::os::unix::fs::symlink("../../own/token", link).unwrap();

        let config = config(&clone, &[]);

        assert_eq!(config.find(Key::Token, None), None);
        assert_eq!(config.find(Key::Url, None).unwrap().value, "http://local");
    }

    #[test]
    fn a_default_is_not_what_somebody_chose() {
        let directory = tempfile::tempdir().unwrap();
        let (key, env) = (Key::SourceConnections, [("SEMEL_SOURCE_CONNECTIONS", "9")]);
        let alone = config(directory.path(), &[]);

        assert!(alone.find(key, None).is_some() && !alone.is_set(key, None));
        assert!(alone.is_set(key, Some("9")));
        assert!(config(directory.path(), &env).is_set(key, None));
    }

    #[test]
    fn an_empty_variable_says_nothing() {
        let directory = tempfile::tempdir().unwrap();

        let found = config(directory.path(), &[("SEMEL_TOKEN", "")]).find(Key::Token, None);

        assert_eq!(found, None);
    }

    #[test]
    fn an_unknown_key_of_the_file_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), "semel.toml", "ulr = 'http://file'\n");

        let problem = Config::new(directory.path().to_owned(), BTreeMap::new()).unwrap_err();

        assert!(problem.message().contains("ulr"), "{}", problem.message());
    }
}
