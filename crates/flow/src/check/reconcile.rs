//! Whether `reconcile` fits the flow: what it reads, how far back, and under which keys.

use serde_json::{Value as Json, json};

use super::Check;
use crate::diagnostic::{Code, Report};
use crate::expr::{Expr, Scope};
use crate::lower::keep_of;
use crate::release::{Flow, Reconcile};
use crate::steps::{ActionKind, StepKind, db, http};
use crate::tree::{Record, Value};
use crate::triggers;

/// What the expressions of `list` can name.
const LIST_ROOTS: [&str; 2] = ["window", "env"];

impl<'t> Check<'_, 't, '_> {
    pub(super) fn reconcile(&mut self) {
        let flow = self.outline.flow;
        let Some(reconcile) = flow.map("reconcile") else {
            return;
        };
        triggers::check_recurrence(self.report, reconcile);
        if let Some(list) = reconcile.map("list") {
            self.reconcile_list(list);
        }
        if let Some(key) = reconcile.expr("key")
            && !key.expr.references().iter().any(|path| path.root == "item")
        {
            let message = "this key does not read `item`, so all of the list share it";
            let help = "compute the key that the trigger gives the item, such as `item.id`";
            self.add(Code::KeyConstant, key.span(), message, help);
        }
        let (window, keep) = (reconcile.span_of("window"), keep_of(flow));
        if let (Some(window), Some(keep)) = (window, keep)
            && window > keep
        {
            let message = format!("the window of {window} is longer than keys are kept: {keep}");
            let help = format!(
                "write `window: {keep}` or shorter, or a longer `keep`: what is older would start again"
            );
            let span = reconcile.value_span("window");
            self.add(Code::ReconcileWindow, span, &message, &help);
        }
    }

    fn reconcile_list(&mut self, list: &'t Record) {
        for kind in [&http::KIND, &db::KIND] {
            if let Some(body) = list.map(kind.name()) {
                self.body(kind, body);
                self.must_only_read(kind, list, body);
            }
        }
        let mut unknown = vec![];
        list.each_expr(&mut |_, placed| {
            let paths = placed.expr.references().iter();
            let others = paths.filter(|path| !LIST_ROOTS.contains(&path.root.as_str()));
            unknown.extend(others.map(|path| (placed, path.clone())));
        });
        for (placed, path) in unknown {
            let message = format!("there is no `{}` here", path.root);
            let help = "`list` sees `window.start`, `window.end` and `env`";
            let span = placed.path_span(self.report.source, &path);
            self.add(Code::ExpressionName, span, &message, help);
        }
    }

    fn must_only_read(&mut self, kind: &StepKind, list: &Record, body: &Record) {
        if kind.changes(Some(body)) != Some(true) {
            return;
        }
        let message = format!("a list reads, and `{}` does not", kind.verb(Some(body)));
        let help = match kind.kind == ActionKind::Http {
            true => "use `get`",
            false => "use `query`",
        };
        self.add(
            Code::GuardUnfit,
            list.name_span(kind.name()),
            &message,
            help,
        );
    }
}

/// Compares the keys and inputs that `reconcile` computes with those of the trigger, on the
/// examples.
pub(super) fn prove(flow: &Flow, record: &Record, report: &mut Report<'_>) {
    let (Some(reconcile), Some(written)) = (&flow.reconcile, record.map("reconcile")) else {
        return;
    };
    let Some(trigger_key) = flow.trigger.key() else {
        return;
    };
    if let Some(root) = unlisted_root(trigger_key) {
        let message = format!("the trigger's key reads `{root}`, which no item has");
        let help = "give the trigger a key that is computed from `input`";
        report.add(
            Code::ReconcileKey,
            written.value_span("key"),
            &message,
            help,
        );
        return;
    }
    for example in record.maps("examples") {
        prove_example((flow, reconcile, trigger_key), example, written, report);
    }
}

/// What a trigger's key reads that a run of `reconcile` does not have.
fn unlisted_root(key: &Expr) -> Option<&str> {
    let roots = key.references().iter().map(|path| path.root.as_str());
    roots
        .into_iter()
        .find(|root| ["headers", "query"].contains(root))
}

fn prove_example(
    (flow, reconcile, trigger_key): (&Flow, &Reconcile, &Expr),
    example: &Record,
    written: &Record,
    report: &mut Report<'_>,
) {
    let Some((item, delivered)) = item_of(reconcile, example) else {
        return;
    };
    let name = example.text("name").unwrap_or_default();
    let scope = Scope::new().with("item", item).with("env", &flow.env);
    let own = reconcile.key.eval(&scope);
    let input = match &reconcile.input {
        Some(input) => input.eval(&scope),
        None => Ok(item.clone()),
    };
    let (Ok(own), Ok(input)) = (&own, &input) else {
        let message = format!("`key` and `input` cannot be evaluated on the example `{name}`");
        let help = "write `item: …` in the example: what the list has for the same thing";
        report.add(
            Code::ReconcileKey,
            written.value_span("key"),
            &message,
            help,
        );
        return;
    };
    for input in [input, delivered] {
        let theirs = key_of(flow, trigger_key, input);
        if theirs.as_ref() != Some(own) {
            let theirs = theirs.unwrap_or(Json::Null);
            let message =
                format!("on the example `{name}` this key is {own}, and the trigger's is {theirs}");
            let help =
                "make them equal: otherwise every item that came by a delivery would start again";
            report.add(
                Code::ReconcileKey,
                written.value_span("key"),
                &message,
                help,
            );
            return;
        }
    }
    let misfit = flow
        .input_schema
        .as_ref()
        .and_then(|schema| schema.misfit(input));
    if let Some(problem) = misfit {
        let help = "write an `input` that matches `input_schema`: no run would start";
        let span = match written.has("input") {
            true => written.value_span("input"),
            false => written.name_span("key"),
        };
        report.add(Code::ExampleUnfit, span, &problem, help);
    }
}

/// The item that an example has for its delivery, and that delivery.
fn item_of<'t>(reconcile: &Reconcile, example: &'t Record) -> Option<(&'t Json, &'t Json)> {
    let Some(Value::Json(input)) = example.value("input") else {
        return None;
    };
    let is_item = |input: &Expr| input.as_str().trim() == "item";
    match example.value("item") {
        Some(Value::Json(item)) => Some((item, input)),
        Some(_) => None,
        None => reconcile
            .input
            .as_ref()
            .is_none_or(is_item)
            .then_some((input, input)),
    }
}

fn key_of(flow: &Flow, key: &Expr, input: &Json) -> Option<Json> {
    let trigger = json!({ "kind": "reconcile" });
    let scope = Scope::new()
        .with("input", input)
        .with("trigger", &trigger)
        .with("env", &flow.env);
    key.eval(&scope).ok()
}
