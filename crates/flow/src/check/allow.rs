//! Disagreeing with a rule: said by the author, with a reason, for the flow or for one step.

use std::ops::Range;

use super::{Allowed, Check};
use crate::diagnostic::{Code, Diagnostic};
use crate::tree::Record;

/// One `allow` of the file.
struct Wish<'t> {
    code: &'t str,
    because: &'t str,
    step: Option<&'t str>,
    /// The lines that it speaks about.
    lines: Range<usize>,
    span: Range<usize>,
    used: bool,
}

impl<'t> Check<'_, 't, '_> {
    /// Takes what the author disagreed with out of the diagnostics.
    pub(super) fn allow(&mut self) -> Vec<Allowed> {
        let mut wishes = self.wishes();
        let mut allowed = vec![];
        let diagnostics = std::mem::take(&mut self.report.diagnostics);
        for diagnostic in diagnostics {
            match wishes.iter_mut().find(|wish| wish.covers(&diagnostic)) {
                Some(wish) => {
                    wish.used = true;
                    allowed.push(Allowed {
                        code: diagnostic.code,
                        step: wish.step.map(str::to_owned),
                        because: wish.because.to_owned(),
                        said: diagnostic,
                    });
                }
                None => self.report.diagnostics.push(diagnostic),
            }
        }
        for wish in wishes.iter().filter(|wish| !wish.used) {
            let message = format!(
                "`{}` reports nothing here, so there is nothing to allow",
                wish.code
            );
            let help = "leave it out: it would hide the next error of this kind";
            self.add(Code::AllowIdle, wish.span.clone(), &message, help);
        }
        allowed.sort_by_key(|allowed| (allowed.said.line, allowed.said.column));
        allowed
    }

    fn wishes(&self) -> Vec<Wish<'t>> {
        let flow = self.outline.flow;
        let mut wishes: Vec<Wish<'t>> = vec![];
        // A step's own word is asked before the flow's.
        for (index, step) in self.outline.steps.iter().enumerate() {
            let from = self.report.line_of(step.record.span.start);
            let next = self.outline.steps.get(step.behind);
            let to = next.map_or(usize::MAX, |next| {
                self.report.line_of(next.record.span.start)
            });
            let end = self
                .outline
                .steps
                .get(index + 1)
                .filter(|_| step.behind > index + 1);
            let to = end.map_or(to, |_| to);
            wishes.extend(wishes_of(step.record, Some(step.id), from..to));
        }
        wishes.extend(wishes_of(flow, None, 0..usize::MAX));
        wishes
    }
}

fn wishes_of<'t>(
    record: &'t Record,
    step: Option<&'t str>,
    lines: Range<usize>,
) -> impl Iterator<Item = Wish<'t>> {
    record.maps("allow").filter_map(move |wish| {
        Some(Wish {
            code: wish.text("code")?,
            because: wish.text("because")?,
            step,
            lines: lines.clone(),
            span: wish.value_span("code"),
            used: false,
        })
    })
}

impl Wish<'_> {
    fn covers(&self, diagnostic: &Diagnostic) -> bool {
        diagnostic.code.is_rule()
            && diagnostic.code.as_str() == self.code
            && self.lines.contains(&diagnostic.line)
    }
}
