//! Taint: what an expression depends on, followed through steps to where it comes from.

mod words;

use crate::expr::{Expr, Path};
use crate::outline::{Outline, StepIndex};
use crate::steps::ResultOrigin;

/// Where a value comes from, as far as keys are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taint {
    /// It changes with the time of sending or of looking.
    Clock,
    /// It is drawn anew each time.
    Random,
    /// It belongs to one run.
    Run,
    /// It belongs to one release.
    Release,
    /// It counts attempts or deliveries.
    Attempt,
    /// A model made it up.
    Model,
    /// A header of the delivery.
    Header,
    /// A parameter of the delivery's address.
    Query,
    /// It is the same for every run.
    Constant,
    /// It names a person or a company.
    Party,
    /// None of these.
    Plain,
}

/// One thing that an expression depends on.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) taint: Taint,
    /// What it is called where it comes from.
    pub(super) source: String,
    /// The step that it came through last, where it did.
    pub(super) through: Option<String>,
}

/// The most steps that a value is followed through, one behind the other.
const DEPTH_MAX: usize = 32;

/// Follows values of one flow to where they come from.
pub(super) struct Tracer<'c, 't> {
    pub(super) outline: &'c Outline<'t>,
    /// Paths of the payload that the provider changes with each sending.
    pub(super) clock_fields: &'static [&'static str],
}

impl Tracer<'_, '_> {
    /// What a path of an expression depends on.
    pub(super) fn path(&self, path: &Path, at: Option<StepIndex>) -> Vec<Origin> {
        self.follow(path, at, 0)
    }

    /// What an expression depends on.
    pub(super) fn expr(&self, expr: &Expr, at: Option<StepIndex>) -> Vec<Origin> {
        let paths = expr.references().iter();
        paths.flat_map(|path| self.path(path, at)).collect()
    }

    fn follow(&self, path: &Path, at: Option<StepIndex>, depth: usize) -> Vec<Origin> {
        if depth > DEPTH_MAX {
            return vec![];
        }
        let last = path.fields.last().map_or("", String::as_str);
        let taint = match path.root.as_str() {
            "input" => self.input(path),
            "headers" => words::header(path.fields.first().map_or("", String::as_str)),
            "query" => Taint::Query,
            "env" => Taint::Constant,
            "trigger" => match last {
                "" | "kind" | "name" | "flow" => Taint::Constant,
                _ => words::field(last),
            },
            "run" => match last {
                "key" => Taint::Plain,
                "flow" => Taint::Constant,
                "release" => Taint::Release,
                _ => Taint::Run,
            },
            "steps" => return self.step(path, depth),
            "response" | "result" | "probe" | "event" | "waits" => words::field(last),
            item => return self.item(item, path, at, depth),
        };
        vec![origin(taint, path.to_string())]
    }

    fn input(&self, path: &Path) -> Taint {
        let text = path.fields.join(".");
        if self.clock_fields.contains(&text.as_str()) {
            return Taint::Clock;
        }
        words::fields(&path.fields)
    }

    /// What a step's outcome depends on: a function's is what it reads, a model's is made up.
    fn step(&self, path: &Path, depth: usize) -> Vec<Origin> {
        let own = || {
            vec![origin(
                words::fields(path.fields.get(1..).unwrap_or(&[])),
                path.to_string(),
            )]
        };
        let Some(index) = path.fields.first().and_then(|id| self.outline.find(id)) else {
            return own();
        };
        let step = &self.outline.steps[index];
        let mut origins = match step.kind.map(|kind| kind.origin) {
            Some(ResultOrigin::Model) => vec![origin(Taint::Model, path.to_string())],
            Some(ResultOrigin::Expression) => self.function(index, path.fields.get(2), depth),
            Some(ResultOrigin::Items) => self.loop_of(index, depth),
            Some(ResultOrigin::World) | None => own(),
        };
        if let Some(condition) = step.record.expr("if") {
            let paths = condition.expr.references().iter();
            let decided = paths.flat_map(|path| self.follow(path, Some(index), depth + 1));
            origins.extend(decided.filter(|origin| origin.taint == Taint::Model));
        }
        for origin in &mut origins {
            origin.through = Some(step.id.to_owned());
        }
        origins
    }

    fn function(&self, index: StepIndex, field: Option<&String>, depth: usize) -> Vec<Origin> {
        let step = &self.outline.steps[index];
        let Some(function) = step.record.expr(step.name()) else {
            return vec![];
        };
        if function.expr.is_constant() {
            return vec![origin(Taint::Constant, function.expr.to_string())];
        }
        let paths = match field {
            Some(field) => function.expr.paths_of(field),
            None => function.expr.references().iter().collect(),
        };
        if paths.is_empty() {
            return vec![origin(Taint::Constant, function.expr.to_string())];
        }
        paths
            .into_iter()
            .flat_map(|path| self.follow(path, Some(index), depth + 1))
            .collect()
    }

    /// The outcome of a loop: a model's wherever one has spoken inside of it.
    fn loop_of(&self, index: StepIndex, depth: usize) -> Vec<Origin> {
        let inside = index + 1..self.outline.steps[index].behind;
        let models = inside.filter(|inside| {
            let kind = self.outline.steps[*inside].kind;
            kind.is_some_and(|kind| kind.origin == ResultOrigin::Model)
        });
        let mut origins: Vec<Origin> = models
            .map(|model| {
                origin(
                    Taint::Model,
                    format!("steps.{}", self.outline.steps[model].id),
                )
            })
            .collect();
        origins.extend(self.list_of(index, depth));
        origins
    }

    /// What an item depends on: its list, and its own field.
    fn item(&self, name: &str, path: &Path, at: Option<StepIndex>, depth: usize) -> Vec<Origin> {
        let own = origin(words::fields(&path.fields), path.to_string());
        let holder = at.and_then(|at| self.outline.loop_of(name, at));
        let mut origins = vec![own];
        if let Some(holder) = holder {
            let made = self.list_of(holder, depth).into_iter();
            origins.extend(made.filter(|origin| origin.taint == Taint::Model));
        }
        origins
    }

    fn list_of(&self, index: StepIndex, depth: usize) -> Vec<Origin> {
        let list = self.outline.body(index).and_then(|body| body.expr("in"));
        let Some(list) = list else {
            return vec![];
        };
        let paths = list.expr.references().iter();
        paths
            .flat_map(|path| self.follow(path, Some(index), depth + 1))
            .collect()
    }
}

const fn origin(taint: Taint, source: String) -> Origin {
    Origin {
        taint,
        source,
        through: None,
    }
}
