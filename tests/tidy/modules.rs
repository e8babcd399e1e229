//! Which modules of a crate use which, read from the paths in their code.
//!
//! A module and the folder beside it are one module to everything outside, so uses are compared
//! between the children of one parent: `a/b.rs` that names `crate::c::D` is a use of `c` by `a`. A
//! child that uses its parent, or the other way round, is no use between siblings.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::tree::texts;

/// For each module, the modules beside it that its code names.
pub(crate) type Uses = BTreeMap<String, BTreeSet<String>>;

/// The path of a module in its crate; that of the crate itself is empty.
type Path = Vec<String>;

/// The code of a crate, by module.
pub(crate) struct Modules(BTreeMap<Path, String>);

impl Modules {
    /// Reads a crate of `crates/`, its tests aside.
    pub(crate) fn of_crate(name: &str) -> Result<Self> {
        let folder = format!("crates/{name}/src/");
        let texts = texts()?;
        let sources = texts.iter().filter_map(|text| {
            let path = text.path.strip_prefix(&folder)?.strip_suffix(".rs")?;
            Some((path, text.content.as_str()))
        });
        Ok(Self::of_sources(sources))
    }

    /// Takes sources by their paths, without the ending.
    pub(crate) fn of_sources<'a>(sources: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let modules = sources.filter_map(|(path, source)| {
            let names: Path = path.split('/').map(str::to_owned).collect();
            match names.last()?.as_str() {
                "lib" | "main" if names.len() == 1 => Some((Path::new(), code(source))),
                _ if names.iter().any(|name| name == "tests") => None,
                _ => Some((names, code(source))),
            }
        });
        Self(modules.collect())
    }

    /// The uses between the modules of the crate's root, those that use nothing included.
    pub(crate) fn at_root(&self) -> Uses {
        let mut all = self.by_parent().remove(&Path::new()).unwrap_or_default();
        for name in self.0.keys().filter_map(|path| path.first()) {
            all.entry(name.clone()).or_default();
        }
        all
    }

    /// The uses between the children of each module, by the path of their parent.
    pub(crate) fn by_parent(&self) -> BTreeMap<Path, Uses> {
        let mut all: BTreeMap<Path, Uses> = BTreeMap::new();
        for (module, code) in &self.0 {
            for named in names(module, code) {
                let shared = shared_parts(module, &named);
                if let (Some(user), Some(used)) = (module.get(shared), self.child(&named, shared)) {
                    let uses = all.entry(module[..shared].to_vec()).or_default();
                    uses.entry(user.clone()).or_default().insert(used);
                    uses.entry(named[shared].clone()).or_default();
                }
            }
        }
        all
    }

    /// The part of a path at a depth, where that is a module and not an item.
    fn child(&self, path: &[String], depth: usize) -> Option<String> {
        let name = path.get(depth)?;
        self.0
            .contains_key(&path[..=depth])
            .then(|| name.to_owned())
    }
}

/// A source without comments and unit tests.
fn code(source: &str) -> String {
    let product = source.split("#[cfg(test)]\nmod ").next();
    let lines = product.unwrap_or_default().lines();
    lines
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The full paths that a module's code names by `crate` and `super`.
fn names(module: &[String], code: &str) -> Vec<Path> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let begins = code[..at].chars().next_back();
            if begins.is_none_or(|before| !before.is_alphanumeric() && !"_:".contains(before)) {
                let mut rest = &code[at..];
                let mut base = module.to_vec();
                while let Some(after) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = after;
                }
                if let Some(after) = rest.strip_prefix("crate::") {
                    (base, rest) = (Path::new(), after);
                }
                read_tree(base, rest, &mut found);
            }
        }
    }
    found
}

/// Reads a path, or a group of paths in braces, and returns what follows it.
fn read_tree<'a>(mut path: Path, mut text: &'a str, found: &mut Vec<Path>) -> &'a str {
    loop {
        if let Some(group) = text.strip_prefix('{') {
            return read_group(&path, group, found);
        }
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        let (name, rest) = text.split_at(end.unwrap_or(text.len()));
        path.push(name.to_owned());
        match rest.strip_prefix("::") {
            Some(after) if !name.is_empty() => text = after,
            _ => {
                found.push(path);
                return rest;
            }
        }
    }
}

/// Reads the members of a group, up to the brace that closes it.
fn read_group<'a>(path: &Path, mut text: &'a str, found: &mut Vec<Path>) -> &'a str {
    loop {
        text = text.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        if let Some(rest) = text.strip_prefix('}') {
            return rest;
        }
        let rest = read_tree(path.clone(), text, found);
        // Behind a member stands at most another name for it.
        let Some(end) = rest.find([',', '}']) else {
            return "";
        };
        text = &rest[end..];
    }
}

fn shared_parts(one: &[String], other: &[String]) -> usize {
    let pairs = one.iter().zip(other);
    pairs.take_while(|(one, other)| one == other).count()
}

#[test]
fn paths_are_read_from_groups_and_from_parents() {
    let sources = [
        ("lib", "mod a; mod b; mod c;"),
        ("a", "use crate::{b::{Item, deep as other}, c};"),
        (
            "a/inner",
            "// use crate::a::other;\nfn f(x: super::other::X) {}",
        ),
        ("a/other", "use super::Shared;"),
        ("b", "pub(crate) use crate::Everything;"),
        ("b/deep", "fn f() { super::super::c::g(); }"),
        ("c", "#[cfg(test)]\nmod tests { use crate::a; }"),
    ];

    let modules = Modules::of_sources(sources.into_iter());

    let uses = |pairs: &[(&str, &[&str])]| -> Uses {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let pairs = pairs.iter();
        pairs
            .map(|(user, used)| ((*user).to_owned(), owned(used)))
            .collect()
    };
    let root = uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert_eq!(modules.at_root(), root);
    let inside = uses(&[("inner", &["other"]), ("other", &[])]);
    assert_eq!(modules.by_parent()[&vec!["a".to_owned()]], inside);
}
