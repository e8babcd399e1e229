//! What the form of an expression says about its value, before anything is known.

use super::builtin::Builtin;
use super::syntax::{Kind, Literal, Node, Root};
use super::{Expr, Path};

/// A value over a whole root, such as `fingerprint(input, ["sent_at"])`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    pub(crate) root: String,
    /// The paths that are left out.
    pub(crate) ignored: Vec<String>,
}

impl Expr {
    pub(crate) fn node(&self) -> &Node {
        &self.0.node
    }

    /// The payloads that the expression takes as a whole, into a digest or a text.
    pub(crate) fn wholes(&self) -> Vec<Whole> {
        let mut found = vec![];
        wholes(self.node(), &mut found);
        found
    }

    /// Whether every part of the value that differs between runs has a constant to fall back to, so
    /// that the value may be the same for runs that have nothing in common.
    pub(crate) fn may_fall_back(&self) -> bool {
        !self.is_constant() && !is_specific(self.node())
    }

    /// The paths that a field of the value rests on; all paths if they cannot be told apart.
    pub(crate) fn paths_of(&self, field: &str) -> Vec<&Path> {
        let mut places = vec![];
        if let Kind::Map(entries) = &self.node().kind {
            let entry = entries.iter().find(|(key, _)| is_text(key, field));
            if let Some((_, value)) = entry {
                names(value, &mut places);
                return self
                    .references()
                    .iter()
                    .filter(|path| places.iter().any(|at| path.covers(*at)))
                    .collect();
            }
        }
        self.references().iter().collect()
    }

    /// The paths that the value may not do without: those that no `default`, `has` or choice
    /// stands around.
    pub(crate) fn bare_paths(&self) -> Vec<&Path> {
        let mut covered = vec![];
        covers(self.node(), false, &mut covered);
        self.references()
            .iter()
            .filter(|path| !covered.iter().any(|at| path.covers(*at)))
            .collect()
    }
}

fn wholes(node: &Node, found: &mut Vec<Whole>) {
    if let Kind::Call(Builtin::Fingerprint | Builtin::Json, arguments) = &node.kind
        && let Some(root) = arguments.first().and_then(root)
    {
        let ignored = arguments.get(1).map(texts).unwrap_or_default();
        found.push(Whole { root, ignored });
        return;
    }
    each_child(node, &mut |child| wholes(child, found));
}

fn root(node: &Node) -> Option<String> {
    if let Kind::Path(Root::Name(name), fields) = &node.kind
        && fields.is_empty()
    {
        return Some(name.to_string());
    }
    None
}

fn is_text(node: &Node, text: &str) -> bool {
    matches!(&node.kind, Kind::Literal(Literal::Text(literal)) if &**literal == text)
}

/// The places of the names in a node.
fn names(node: &Node, places: &mut Vec<usize>) {
    if matches!(node.kind, Kind::Path(Root::Name(_), _)) {
        places.push(node.at);
    }
    each_child(node, &mut |child| names(child, places));
}

fn texts(node: &Node) -> Vec<String> {
    let Kind::List(items) = &node.kind else {
        return vec![];
    };
    let texts = items.iter().filter_map(|item| {
        if let Kind::Literal(Literal::Text(text)) = &item.kind {
            Some(text.to_string())
        } else {
            None
        }
    });
    texts.collect()
}

/// Whether some part of the value differs between runs and cannot be a constant.
fn is_specific(node: &Node) -> bool {
    match &node.kind {
        Kind::Literal(_) => false,
        Kind::Default(parts) => parts.iter().all(is_specific),
        Kind::If(parts) => parts[1..].iter().all(is_specific),
        Kind::Path(..) | Kind::Field(..) | Kind::Index(..) | Kind::Each(_) => true,
        Kind::Chain(first, rest) => {
            is_specific(first) || rest.iter().any(|(_, part)| is_specific(part))
        }
        Kind::List(parts) | Kind::Call(_, parts) => parts.iter().any(is_specific),
        Kind::Map(entries) => entries.iter().any(|(_, value)| is_specific(value)),
        Kind::Negate(of) => is_specific(of),
        Kind::Has(..)
        | Kind::Not(_)
        | Kind::Compare(..)
        | Kind::And(_)
        | Kind::Or(_)
        | Kind::Matches(..) => true,
    }
}

/// The places of paths that something stands around which bears their absence.
fn covers(node: &Node, covered: bool, found: &mut Vec<usize>) {
    if covered && matches!(node.kind, Kind::Path(Root::Name(_), _)) {
        found.push(node.at);
    }
    if let Kind::Default(parts) = &node.kind {
        covers(&parts[0], true, found);
        covers(&parts[1], covered, found);
        return;
    }
    // Which way a choice goes may rest on what is there: its ways are not judged.
    let bears = matches!(
        node.kind,
        Kind::If(_) | Kind::Has(..) | Kind::And(_) | Kind::Or(_)
    );
    each_child(node, &mut |child| covers(child, covered || bears, found));
}

/// Calls `see` with every part of a node.
pub(crate) fn each_child<'n>(node: &'n Node, see: &mut impl FnMut(&'n Node)) {
    match &node.kind {
        Kind::Literal(_) | Kind::Path(..) => {}
        Kind::Field(of, _) | Kind::Has(of, _) | Kind::Not(of) | Kind::Negate(of) => see(of),
        Kind::Matches(of, _) => see(of),
        Kind::Index(of, other) | Kind::Compare(_, of, other) => {
            see(of);
            see(other);
        }
        Kind::Chain(first, rest) => {
            see(first);
            rest.iter().for_each(|(_, part)| see(part));
        }
        Kind::And(parts) | Kind::Or(parts) | Kind::List(parts) | Kind::Call(_, parts) => {
            parts.iter().for_each(see);
        }
        Kind::If(parts) => parts.iter().for_each(see),
        Kind::Default(parts) => parts.iter().for_each(see),
        Kind::Map(entries) => entries.iter().for_each(|(key, value)| {
            see(key);
            see(value);
        }),
        Kind::Each(each) => {
            see(&each.over);
            if let Some(filter) = &each.filter {
                see(filter);
            }
            see(&each.body);
        }
    }
}
