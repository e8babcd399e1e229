//! Expressions in their places, and the names in them.

use super::Reader;
use super::names::{Names, Place};
use crate::diagnostic::Code;
use crate::expr::{EvalError, Expr, ExprError, ExprErrorKind, Path, Scope};
use crate::nearest::nearest;
use crate::yaml::Node;

impl Reader<'_> {
    /// A field that is an expression.
    pub(super) fn expr(&mut self, node: &Node, field: &str, names: Names<'_>) -> Option<Expr> {
        let text = self.text(node, field)?;
        if !self.afford_exprs(node, 1) {
            return None;
        }
        match Expr::compile_here(text, names.place.roots()) {
            Ok(expr) => {
                if expr.is_constant()
                    && let Err(error) = expr.eval(&Scope::new())
                {
                    self.always_fails(node, &error);
                    return None;
                }
                self.names_exist(node, 0, &expr, names).then_some(expr)
            }
            Err(error) => {
                self.expr_error(node, &error);
                None
            }
        }
    }

    /// A field that is true or false.
    pub(super) fn condition(&mut self, node: &Node, field: &str, names: Names<'_>) -> Option<Expr> {
        let expr = self.expr(node, field, names)?;
        if expr.is_constant()
            && let Err(error) = expr.eval_bool(&Scope::new())
        {
            self.always_fails(node, &error);
            return None;
        }
        Some(expr)
    }

    /// What reads nothing fails in every run if it fails here.
    fn always_fails(&mut self, node: &Node, error: &EvalError) {
        let message = format!("this fails in every run: {error}");
        let help = "write an expression that can be worked out";
        self.report(Code::WrongValue, node.span.clone(), &message, help);
    }

    /// A trigger's key: it must differ between intents, and be the same for one.
    pub(super) fn key(&mut self, node: &Node, names: Names<'_>) -> Option<Expr> {
        let expr = self.expr(node, "key", names.at(Place::Key))?;
        if expr.is_constant() {
            self.report(
                Code::KeyConstant,
                node.span.clone(),
                "this key is the same for every delivery, so only the first would ever run",
                "name what tells one intent from another, such as `input.id`",
            );
            return None;
        }
        if let Some(path) = expr.references().iter().find(|path| path.root == "run") {
            let span = node.place(self.source, path.offset, path.len);
            self.report(
                Code::KeyPerRun,
                span,
                "a key that reads `run` is another one each time, so every repeat would run",
                "build the key from what the sender repeats, such as `input.id`",
            );
            return None;
        }
        Some(expr)
    }

    pub(super) fn expr_error(&mut self, node: &Node, error: &ExprError) {
        let code = match error.kind {
            ExprErrorKind::Syntax => Code::ExpressionSyntax,
            ExprErrorKind::UnknownName => Code::ExpressionName,
            ExprErrorKind::UnknownFunction => Code::ExpressionFunction,
            ExprErrorKind::TooCostly => Code::ExpressionCost,
        };
        let span = node.place(self.source, error.offset, error.len);
        self.report(code, span, &error.message, &error.mend);
    }

    fn env_names(&self) -> Vec<&str> {
        let names = self
            .env
            .as_object()
            .into_iter()
            .flat_map(serde_json::Map::keys);
        names.map(String::as_str).collect()
    }

    /// Whether every step and wait that an expression names can be seen from here. `base` is where
    /// the expression begins in the node's text.
    pub(super) fn names_exist(
        &mut self,
        node: &Node,
        base: usize,
        expr: &Expr,
        names: Names<'_>,
    ) -> bool {
        let mut exist = true;
        for path in expr.references() {
            let problem = match path.root.as_str() {
                "steps" => unknown_step(path, names).or_else(|| unknown_part(path, 1, &STEP)),
                "waits" => unknown_wait(path, names).or_else(|| unknown_part(path, 1, &WAIT)),
                "run" => unknown_part(path, 0, &RUN),
                "env" => unknown_part(path, 0, &self.env_names()),
                _ => None,
            };
            if let Some((code, message, help)) = problem {
                let span = node.place(self.source, base + path.offset, path.len);
                self.report(code, span, &message, &help);
                exist = false;
            }
        }
        exist
    }
}

/// What is known of a step, a wait and a run.
const STEP: [&str; 3] = ["result", "external_id", "status"];
const WAIT: [&str; 1] = ["url"];
const RUN: [&str; 4] = ["id", "key", "flow", "release"];

type Problem = Option<(Code, String, String)>;

fn unknown_step(path: &Path, names: Names<'_>) -> Problem {
    let visible = names.visible();
    let Some(id) = path.fields.first() else {
        // The whole map is a legitimate value, if an odd one.
        return None;
    };
    if visible.contains(id) {
        return None;
    }
    let message = match names.steps.ids.iter().position(|known| known == id) {
        Some(index) if index == names.behind => {
            format!("step `{id}` cannot read its own outcome here")
        }
        Some(_) => format!("step `{id}` comes later"),
        None => format!("there is no step `{id}`"),
    };
    let help = match nearest(id, visible.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `steps.{near}`?"),
        None if visible.is_empty() => "no step comes before this".to_owned(),
        None => format!("steps before this: {}", listed(visible)),
    };
    Some((Code::StepUnknown, message, help))
}

fn unknown_wait(path: &Path, names: Names<'_>) -> Problem {
    let known = &names.steps.callbacks;
    let id = path.fields.first()?;
    if known.contains(id) {
        return None;
    }
    let message = format!("no step `{id}` waits for a callback");
    let help = match nearest(id, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `waits.{near}`?"),
        None => format!("add a step `{id}` with `wait: {{ callback: true, within: 7d }}`"),
    };
    Some((Code::WaitUnknown, message, help))
}

/// A field at that depth of a path which is none of those that there are.
fn unknown_part(path: &Path, depth: usize, known: &[&str]) -> Problem {
    let field = path.fields.get(depth)?;
    if known.contains(&field.as_str()) {
        return None;
    }
    let of = std::iter::once(&path.root).chain(&path.fields[..depth]);
    let of = of.map(String::as_str).collect::<Vec<_>>().join(".");
    let help = match nearest(field, known.iter().copied()) {
        Some(near) => format!("did you mean `{of}.{near}`?"),
        None if known.is_empty() => format!("nothing is declared under `{of}`"),
        None => format!("it has: {}", known.join(", ")),
    };
    let message = format!("`{of}` has no `{field}`");
    Some((Code::ExpressionName, message, help))
}

/// The last few names, which are the likeliest.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let from = names.len().saturating_sub(SHOWN);
    names[from..].join(", ")
}
