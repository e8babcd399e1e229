//! Checking: a file goes in, a flow or its mistakes come out. Nothing runs.
//!
//! [`examine`] says everything that is known about a file: its mistakes, what its author disagrees
//! with, what this build cannot run yet, and the inventory of its effects. [`check`] is the same
//! question asked before a release: a flow that this build cannot run is refused.

mod allow;
mod connections;
mod fit;
mod names;
mod outcomes;
mod reconcile;
mod rules;
mod steps;
mod taint;
mod triggers;

use std::collections::HashSet;
use std::ops::Range;

use semel_model::FlowName;

use crate::chart::{self, ChartStep};
use crate::context::CheckContext;
use crate::diagnostic::{Code, Diagnostic, Report, Severity};
use crate::effect::Effect;
use crate::expr::with_deep_stack;
use crate::inventory::{self, Allowed, Inventory};
use crate::lower;
use crate::outline::{Outline, StepIndex};
use crate::read;
use crate::release::Flow;
use crate::tree::Tree;

/// What a check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The flow, where no mistake is an error.
    pub flow: Option<Flow>,
    /// Every mistake of the file, in the order of the lines.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// All diagnostics for people, one after the other.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        render(&self.diagnostics, color)
    }
}

/// What is known about a file.
#[derive(Clone, Debug)]
pub struct Examined {
    /// The name of the flow, where it could be read.
    pub name: Option<FlowName>,
    /// The whole of the flow, where no mistake is an error.
    pub tree: Option<Tree>,
    /// What a run would do, where no mistake is an error and this build can run it.
    pub flow: Option<Flow>,
    /// Every mistake of the file, in the order of the lines.
    pub diagnostics: Vec<Diagnostic>,
    /// Every construct that this build cannot run yet. `check` accepts them, `publish` does not.
    pub pending: Vec<Diagnostic>,
    /// The effects of the flow, and what its author signed for.
    pub inventory: Inventory,
    /// The steps of the flow, as the tree that its author wrote.
    pub chart: Vec<ChartStep>,
}

impl Examined {
    /// Whether no mistake is an error.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        sound(&self.diagnostics)
    }

    /// All diagnostics for people, one after the other.
    #[must_use]
    pub fn render(&self, color: bool) -> String {
        render(&self.diagnostics, color)
    }
}

/// Checks the text of a flow before it is pushed or published: what this build cannot run is an
/// error. `file` is what diagnostics call it.
#[must_use]
pub fn check(file: &str, source: &str) -> Checked {
    check_with(file, source, &CheckContext::default())
}

/// Like [`check`], with what is known about the connections that the flow names.
#[must_use]
pub fn check_with(file: &str, source: &str, context: &CheckContext) -> Checked {
    let mut examined = examine(file, source, context);
    examined.diagnostics.append(&mut examined.pending);
    sort(&mut examined.diagnostics);
    let sound = sound(&examined.diagnostics);
    Checked {
        flow: examined.flow.filter(|_| sound),
        diagnostics: examined.diagnostics,
    }
}

/// Reads a release back that passed its checks when it was published.
///
/// Rules may have become stricter since: they are for authors, and must not stop what is live. What
/// this build cannot run is nothing.
#[must_use]
pub fn load(source: &str) -> Option<Flow> {
    with_deep_stack(|| {
        let mut report = Report::new("release", source);
        let record = read::file(&mut report)?;
        let outline = Outline::new(&record);
        let runs = sound(&report.diagnostics) && lower::pending(&outline, &report).is_empty();
        runs.then(|| lower::flow(&outline, &mut report)).flatten()
    })
}

/// Says everything that is known about the text of a flow.
#[must_use]
pub fn examine(file: &str, source: &str, context: &CheckContext) -> Examined {
    with_deep_stack(|| examine_here(file, source, context))
}

fn examine_here(file: &str, source: &str, context: &CheckContext) -> Examined {
    let mut report = Report::new(file, source);
    let mut examined = Examined {
        name: None,
        tree: None,
        flow: None,
        diagnostics: vec![],
        pending: vec![],
        inventory: Inventory::default(),
        chart: vec![],
    };
    if let Some(record) = read::file(&mut report) {
        examined.name = record.text("flow").and_then(|name| name.parse().ok());
        let outline = Outline::new(&record);
        let allowed = judge(&outline, context, &mut report);
        if sound(&report.diagnostics) {
            examined.pending = lower::pending(&outline, &report);
            if examined.pending.is_empty() {
                examined.flow = lower::flow(&outline, &mut report);
            }
            if let Some(flow) = &examined.flow {
                reconcile::prove(flow, outline.flow, &mut report);
            }
            examined.inventory = inventory::of(&outline, context, allowed);
            examined.chart = chart::of(&outline, context);
            examined.tree = Some(Tree::new(record));
        }
    }
    examined.diagnostics = report.diagnostics;
    sort(&mut examined.diagnostics);
    sort(&mut examined.pending);
    examined
}

/// Applies every check behind the reader, and takes out what the author disagreed with.
fn judge(outline: &Outline<'_>, context: &CheckContext, report: &mut Report<'_>) -> Vec<Allowed> {
    let mut check = Check {
        outline,
        context,
        report,
        broken: HashSet::new(),
    };
    check.triggers();
    check.reconcile();
    check.steps();
    check.names();
    check.fit();
    check.connections();
    check.broken = check.broken_steps();
    check.rules();
    check.allow()
}

/// The state of one check.
struct Check<'c, 't, 's> {
    outline: &'c Outline<'t>,
    context: &'c CheckContext,
    report: &'c mut Report<'s>,
    /// The steps that something is wrong with already: rules would only echo it.
    broken: HashSet<StepIndex>,
}

impl Check<'_, '_, '_> {
    fn add(&mut self, code: Code, span: std::ops::Range<usize>, message: &str, help: &str) {
        self.report.add(code, span, message, help);
    }

    /// The effect of a step that nothing is wrong with.
    fn effect(&self, index: StepIndex) -> Option<Effect> {
        let step = &self.outline.steps[index];
        Effect::of(step, self.context).filter(|_| !self.broken.contains(&index))
    }

    /// The steps with an error inside of them, each by the innermost.
    fn broken_steps(&self) -> HashSet<StepIndex> {
        let errors = self.report.diagnostics.iter();
        let errors = errors.filter(|one| one.severity == Severity::Error);
        let line_of = |span: &Range<usize>| self.report.line_of(span.start);
        let steps = self.outline.steps.iter();
        let starts: Vec<usize> = steps.map(|step| line_of(&step.record.span)).collect();
        // An error below the steps, such as one in the result, is in none of them.
        let fields = self.outline.flow.fields.iter();
        let fields: Vec<(usize, &str)> = fields
            .map(|field| (line_of(&field.name_span), field.name))
            .collect();
        let is_in_steps = |line: usize| {
            let above = fields.iter().filter(|(start, _)| *start <= line);
            above.max().is_some_and(|(_, name)| *name == "steps")
        };
        errors
            .filter(|error| is_in_steps(error.line))
            .filter_map(|error| {
                starts
                    .partition_point(|start| *start <= error.line)
                    .checked_sub(1)
            })
            .collect()
    }
}

fn sound(diagnostics: &[Diagnostic]) -> bool {
    diagnostics
        .iter()
        .all(|diagnostic| diagnostic.severity != Severity::Error)
}

fn sort(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by_key(|diagnostic| (diagnostic.line, diagnostic.column));
}

fn render(diagnostics: &[Diagnostic], color: bool) -> String {
    let rendered: Vec<String> = diagnostics
        .iter()
        .map(|diagnostic| diagnostic.render(color))
        .collect();
    rendered.join("\n\n")
}
