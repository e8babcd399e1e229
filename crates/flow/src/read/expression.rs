//! Expressions in their places.

use super::Reader;
use crate::diagnostic::Code;
use crate::expr::{EvalError, Expr, ExprError, ExprErrorKind, Scope};
use crate::grammar::Place;
use crate::tree::Placed;
use crate::yaml::{Node, Style};

impl Reader<'_, '_> {
    /// A field that is an expression.
    pub(super) fn expr(&mut self, node: &Node, field: &str, place: Place) -> Option<Placed> {
        let text = self.text(node, field)?;
        if !self.afford_exprs(node, 1) {
            return None;
        }
        match Expr::compile_here(text, &self.roots(place)) {
            Ok(expr) => {
                if expr.is_constant()
                    && let Err(error) = expr.eval(&Scope::new())
                {
                    self.always_fails(node, &error);
                    return None;
                }
                Some(Placed::new(expr, node.clone(), 0))
            }
            Err(error) => {
                self.expr_error(node, &error);
                None
            }
        }
    }

    /// A field that is true or false.
    pub(super) fn condition(&mut self, node: &Node, field: &str, place: Place) -> Option<Placed> {
        let placed = self.expr(node, field, place)?;
        if placed.expr.is_constant()
            && let Err(error) = placed.expr.eval_bool(&Scope::new())
        {
            self.always_fails(node, &error);
            return None;
        }
        Some(placed)
    }

    /// The names in scope at a place, those of the items around it included.
    pub(super) fn roots(&self, place: Place) -> Vec<&str> {
        let mut roots: Vec<&str> = place.roots();
        let in_steps = !matches!(
            place,
            Place::Trigger
                | Place::Key
                | Place::Start
                | Place::Listed
                | Place::Item
                | Place::ItemOfRun
        );
        if in_steps {
            roots.extend(self.items.iter().map(String::as_str));
        }
        roots
    }

    /// What reads nothing fails in every run if it fails here.
    fn always_fails(&mut self, node: &Node, error: &EvalError) {
        let message = format!("this fails in every run: {error}");
        let help = "write an expression that can be evaluated";
        self.report(Code::WrongValue, node.span.clone(), &message, help);
    }

    pub(super) fn expr_error(&mut self, node: &Node, error: &ExprError) {
        let code = match error.kind {
            ExprErrorKind::Syntax => Code::ExpressionSyntax,
            ExprErrorKind::UnknownName => Code::ExpressionName,
            ExprErrorKind::UnknownFunction => Code::ExpressionFunction,
            ExprErrorKind::TooCostly => Code::ExpressionCost,
        };
        let span = node.place(self.source, error.offset, error.len);
        let cut = code == Code::ExpressionSyntax
            && node
                .as_scalar()
                .is_some_and(|text| text.style == Style::Plain)
            && self
                .source
                .get(node.span.end..)
                .is_some_and(|rest| rest.starts_with(','));
        let help = if cut {
            "inside `{ }` a comma ends the text: put quotes around the expression"
        } else {
            &error.fix
        };
        self.report(code, span, &error.message, help);
    }
}
