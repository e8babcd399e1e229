//! Which steps need the outcome of which, at once or through the steps between.

use crate::outline::{Outline, StepIndex};
use crate::tree::Placed;

const BITS: usize = u64::BITS as usize;

/// What each step of a flow needs.
pub(super) struct Needs {
    /// By step: a bit for each step that it needs.
    needed: Vec<Vec<u64>>,
    /// By step: how many pauses come before it.
    pauses: Vec<usize>,
}

impl Needs {
    pub(super) fn new(outline: &Outline<'_>) -> Self {
        let count = outline.steps.len();
        let words = count.div_ceil(BITS);
        let mut needs = Self {
            needed: vec![vec![0; words]; count],
            pauses: Vec::with_capacity(count + 1),
        };
        let mut pauses = 0;
        for (index, step) in outline.steps.iter().enumerate() {
            needs.pauses.push(pauses);
            pauses += usize::from(step.kind.is_some_and(|kind| kind.pauses));
            let mut reads: Vec<StepIndex> = vec![];
            step.record.each_expr(&mut |_, placed: &Placed| {
                let paths = placed.expr.references().iter();
                let paths = paths.filter(|path| path.root == "steps" || path.root == "waits");
                let ids = paths.filter_map(|path| path.fields.first());
                reads.extend(ids.filter_map(|id| outline.find(id)));
            });
            // What is inside of a step needs what the step needs.
            reads.extend(step.holder.map(|(holder, _)| holder));
            for read in reads {
                needs.add(index, read);
            }
        }
        needs.pauses.push(pauses);
        needs
    }

    fn add(&mut self, step: StepIndex, needed: StepIndex) {
        let theirs = self.needed[needed].clone();
        for (own, their) in self.needed[step].iter_mut().zip(theirs) {
            *own |= their;
        }
        self.needed[step][needed / BITS] |= 1 << (needed % BITS);
    }

    /// Whether a step needs the outcome of another one.
    pub(super) fn rests_on(&self, step: StepIndex, on: StepIndex) -> bool {
        self.needed[step][on / BITS] >> (on % BITS) & 1 == 1
    }

    /// Whether the run pauses between two steps, which is there for a reason.
    pub(super) fn pause_between(&self, from: StepIndex, to: StepIndex) -> bool {
        self.pauses[from.min(to)] != self.pauses[to]
    }
}
