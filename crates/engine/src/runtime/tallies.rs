//! What this process counted and has not added to the database yet.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use semel_store::tallies::{TallyKind, TallyRow};

/// Counts by namespace, flow and kind, and those of attempts by step besides. A flow that nothing happened
/// to costs nothing.
#[derive(Default)]
pub(crate) struct Tallies {
    flows: Mutex<HashMap<(i32, i32), FlowCounts>>,
}

type Counts = BTreeMap<TallyKind, i64>;

#[derive(Default)]
struct FlowCounts {
    whole: Counts,
    steps: HashMap<String, Counts>,
}

impl FlowCounts {
    fn of_step(&mut self, step: &str) -> &mut Counts {
        // A step that is known needs no text of its own.
        if !self.steps.contains_key(step) {
            self.steps.insert(step.to_owned(), Counts::new());
        }
        match self.steps.get_mut(step) {
            Some(counts) => counts,
            None => unreachable!("it was put in just now"),
        }
    }
}

impl Tallies {
    /// Counts something of a flow, which is named by its namespace and itself.
    pub(crate) fn add(&self, flow: (i32, i32), what: TallyKind, count: u64) {
        if count == 0 {
            return;
        }
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let mut flows = self.lock();
        *flows
            .entry(flow)
            .or_default()
            .whole
            .entry(what)
            .or_default() += count;
    }

    /// Counts attempts at steps of a flow, for the flow and for each step.
    pub(crate) fn add_attempts<'a>(
        &self,
        flow: (i32, i32),
        attempts: impl Iterator<Item = (&'a str, TallyKind)>,
    ) {
        let mut attempts = attempts.peekable();
        if attempts.peek().is_none() {
            return;
        }
        let mut flows = self.lock();
        let counts = flows.entry(flow).or_default();
        for (step, what) in attempts {
            *counts.whole.entry(what).or_default() += 1;
            *counts.of_step(step).entry(what).or_default() += 1;
        }
    }

    /// Takes everything out.
    pub(crate) fn take(&self) -> Vec<TallyRow> {
        let flows = std::mem::take(&mut *self.lock());
        let mut rows = Vec::new();
        for ((namespace_id, flow_id), counts) in flows {
            let whole = std::iter::once((String::new(), counts.whole));
            for (step, counts) in whole.chain(counts.steps) {
                let row = |(what, count)| TallyRow {
                    namespace_id,
                    flow_id,
                    step: step.clone(),
                    what,
                    count,
                };
                rows.extend(counts.into_iter().map(row));
            }
        }
        rows
    }

    /// Counts again what could not be added.
    pub(crate) fn put_back(&self, rows: &[TallyRow]) {
        let mut flows = self.lock();
        for row in rows {
            let flow = flows.entry((row.namespace_id, row.flow_id)).or_default();
            let counts = match row.step.is_empty() {
                true => &mut flow.whole,
                false => flow.of_step(&row.step),
            };
            *counts.entry(row.what).or_default() += row.count;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(i32, i32), FlowCounts>> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: &str, what: TallyKind, count: i64) -> TallyRow {
        TallyRow {
            namespace_id: 1,
            flow_id: 2,
            step: step.to_owned(),
            what,
            count,
        }
    }

    #[test]
    fn what_could_not_be_added_is_counted_with_what_came_since() {
        let tallies = Tallies::default();
        tallies.add((1, 2), TallyKind::Accepted, 3);
        tallies.add((1, 2), TallyKind::Failed, 0);
        let taken = tallies.take();
        tallies.add((1, 2), TallyKind::Accepted, 4);
        tallies.put_back(&taken);

        assert_eq!(tallies.take(), [row("", TallyKind::Accepted, 7)]);
    }

    #[test]
    fn attempts_count_for_the_flow_and_for_their_step() {
        let tallies = Tallies::default();
        let done = TallyKind::EffectDone;
        tallies.add_attempts((1, 2), [("a", done), ("b", done), ("a", done)].into_iter());
        let taken = tallies.take();
        tallies.put_back(&taken);
        tallies.add_attempts((1, 2), std::iter::once(("b", TallyKind::EffectFailed)));

        let mut rows = tallies.take();
        rows.sort_by(|one, other| (&one.step, one.what).cmp(&(&other.step, other.what)));
        let failed = TallyKind::EffectFailed;
        let wanted = [
            row("", done, 3),
            row("", failed, 1),
            row("a", done, 2),
            row("b", done, 1),
            row("b", failed, 1),
        ];
        assert_eq!(rows, wanted);
    }
}
