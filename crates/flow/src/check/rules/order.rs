//! The order of effects: what cannot be guarded comes last, what moves money is approved first.

use std::collections::BTreeSet;

use super::super::Check;
use super::super::taint::Taint;
use super::needs::Needs;
use crate::diagnostic::Code;
use crate::effect::Effect;
use crate::expr::Path;
use crate::outline::StepIndex;
use crate::steps::{ActionKind, Method, http};
use crate::tree::{Record, Value};

/// Parts of an address that move money.
const MONEY: [&str; 18] = [
    "refund",
    "refunds",
    "payout",
    "payouts",
    "transfer",
    "transfers",
    "charge",
    "charges",
    "payment",
    "payments",
    "payment_intents",
    "payment-intents",
    "withdrawal",
    "withdrawals",
    "disbursement",
    "disbursements",
    "wire",
    "capture",
];

impl<'t> Check<'_, 't, '_> {
    pub(super) fn order_rules(&mut self) {
        let needs = Needs::new(self.outline);
        let unguarded: Vec<Option<bool>> = (0..self.outline.steps.len())
            .map(|index| self.effect(index).map(|effect| effect.is_unguarded()))
            .collect();
        let mut by_link = BTreeSet::new();
        for index in 0..self.outline.steps.len() {
            self.unguarded_early(index, &unguarded, &needs);
            by_link.extend(self.money(index));
        }
        for index in by_link {
            self.money_by_link(index);
        }
    }

    /// An effect that cannot be guarded before one that can: the doubt about the first holds up the
    /// second, which could have been done safely.
    fn unguarded_early(&mut self, index: StepIndex, unguarded: &[Option<bool>], needs: &Needs) {
        let outline = self.outline;
        let step = &outline.steps[index];
        if unguarded[index] != Some(true) {
            return;
        }
        let later = (step.behind..outline.steps.len()).find(|later| {
            unguarded[*later] == Some(false)
                && !needs.pause_between(step.behind, *later)
                && !needs.rests_on(*later, index)
                && !outline.exclude_each_other(index, *later)
        });
        let Some(later) = later else {
            return;
        };
        let action = step.name();
        let later = outline.steps[later].id;
        let message = format!(
            "a doubt about this `{action}` blocks `{later}`, which could safely run before it"
        );
        let help = format!("move it after `{later}`, or guard it");
        self.add(
            Code::UnguardedEarly,
            step.record.name_span(action),
            &message,
            &help,
        );
    }

    /// A call that moves money without an approval. Returns the approvals before it that any holder
    /// of the link can give, if no other one is needed.
    fn money(&mut self, index: StepIndex) -> Vec<StepIndex> {
        let outline = self.outline;
        let body = outline.steps[index].record.map(http::KIND.name());
        let posts = |body: &&Record| http::method(body) == Some(Method::Post);
        let Some(body) = body.filter(posts) else {
            return Vec::new();
        };
        let Some(Value::Holes(url, _)) = body.value("post") else {
            return Vec::new();
        };
        let text = serde_json::to_value(url).unwrap_or_default();
        let text = text.as_str().unwrap_or_default().to_owned();
        let path = text.split(['?', '#']).next().unwrap_or(&text);
        let path = path.split_once("://").map_or(path, |(_, rest)| {
            rest.split_once('/').map_or("", |(_, path)| path)
        });
        let Some(word) = path.split('/').find(|part| MONEY.contains(part)) else {
            return Vec::new();
        };
        let approvals: Vec<StepIndex> = (0..index)
            .filter(|earlier| {
                let kind = outline.steps[*earlier].kind.map(|kind| kind.kind);
                kind == Some(ActionKind::Approval) && outline.is_known(*earlier, Some(index))
            })
            .collect();
        let holds = |earlier: &StepIndex| !self.goes_on_without(*earlier, index);
        if !approvals.iter().any(holds) {
            let (problem, help) = match approvals.first().map(|first| outline.steps[*first].id) {
                Some(id) => (
                    format!("and `{id}` lets the run continue without a yes"),
                    format!("add `if: steps.{id}.result.approved == true` to this step"),
                ),
                None => (
                    "and no approval comes before it".to_owned(),
                    "add an `approval` step before it, with `if:` where small sums may pass"
                        .to_owned(),
                ),
            };
            let message = format!("this call moves money (`{word}`), {problem}");
            self.add(
                Code::MoneyUnapproved,
                body.value_span("post"),
                &message,
                &help,
            );
            return Vec::new();
        }
        let by_link = |index: &StepIndex| {
            let body = outline.body(*index);
            body.is_some_and(|body| body.truth("login") == Some(false))
        };
        // One that takes a token is enough.
        match approvals.iter().all(by_link) {
            true => approvals,
            false => Vec::new(),
        }
    }

    /// Whether an approval lets the run come to a step without a yes: the run continues after a
    /// rejection or without a decision, and no condition in front of the step reads which it was.
    fn goes_on_without(&self, approval: StepIndex, index: StepIndex) -> bool {
        let outline = self.outline;
        let body = outline.body(approval);
        let goes_on = |field| body.and_then(|body| body.word(field)) == Some("continue");
        if !goes_on("on_reject") && !goes_on("on_timeout") {
            return false;
        }
        let id = outline.steps[approval].id;
        let reads =
            |path: &Path| path.root == "steps" && path.fields.first().is_some_and(|it| it == id);
        // The step itself, and whatever it stands inside of.
        let around =
            (0..=index).filter(|other| *other == index || outline.steps[*other].behind > index);
        !around.into_iter().any(|other| {
            let step = &outline.steps[other];
            let own = step.record.expr("if").into_iter();
            let mut conditions = own.chain(outline.cases(other));
            conditions.any(|placed| placed.expr.references().iter().any(reads))
        })
    }

    /// Money that any holder of a link may approve.
    fn money_by_link(&mut self, index: StepIndex) {
        let Some(body) = self.outline.body(index) else {
            return;
        };
        let message = "anyone with the link can approve a call that moves money: a link does not \
                       identify the approver";
        let help =
            "leave `login: false` out: then only a token of an approver in `from` can decide";
        self.add(Code::MoneyByLink, body.name_span("login"), message, help);
    }

    /// Conditions that a model decides, in front of an effect.
    pub(super) fn condition_rules(&mut self) {
        let outline = self.outline;
        let tracer = self.tracer();
        for (index, step) in outline.steps.iter().enumerate() {
            let inside = index..step.behind;
            let guards_effect = inside
                .clone()
                .any(|inside| Effect::of(&outline.steps[inside], self.context).is_some());
            if !guards_effect {
                continue;
            }
            let own = step.record.expr("if").into_iter();
            let conditions = own.chain(outline.cases(index));
            for placed in conditions {
                let model = placed.expr.references().iter().find(|path| {
                    let origins = tracer.path(path, Some(index));
                    origins.iter().any(|origin| origin.taint == Taint::Model)
                });
                if let Some(path) = model {
                    let span = placed.path_span(self.report.source, path);
                    let message = "a model decides whether this effect happens";
                    let help =
                        "decide on the input, or let an approver decide with an `approval` step";
                    self.add(Code::ConditionModel, span, message, help);
                }
            }
        }
    }
}
