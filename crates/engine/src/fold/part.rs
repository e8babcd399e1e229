//! Parts: what an item or a branch knows when it begins, and what its run knows when it ended.

use semel_flow::{Action, Flow};
use semel_model::event::Event;
use semel_model::{Fault, RunId};
use serde_json::Value;

use super::RunState;

/// What a run is a part of.
#[derive(Clone, Debug)]
pub struct Part {
    /// The run.
    pub parent: RunId,
    /// The step of that run.
    pub step: String,
    /// Its place among the parts of that step.
    pub index: u32,
    /// What expressions call the item, where it is one, and the item.
    pub item: Option<(String, Value)>,
    /// What is around it, from the outermost run to the nearest.
    pub around: Vec<Around>,
}

/// One run around a part, and where the part is in it.
#[derive(Clone, Debug)]
pub struct Around {
    /// The run.
    pub run: RunId,
    /// The step of it.
    pub step: String,
    /// The place among the parts of that step.
    pub index: u32,
}

/// A step whose parts are under way.
#[derive(Clone, Debug, Default)]
pub struct Fan {
    /// How many parts there are, once all of them are on record.
    pub count: Option<u32>,
    /// How many items had the key of an earlier one.
    pub repeats: u32,
    /// Why no further part begins, and whether those under way are asked to end.
    pub stopped: Option<(Option<Fault>, bool)>,
}

impl RunState {
    /// A part of a run, at its beginning: it knows what that run knew.
    pub fn of_part(run: RunId, parent: &Self, begun: Event, flow: &Flow) -> Self {
        let Event::Begun {
            step, index, item, ..
        } = begun
        else {
            unreachable!("the journal of a part begins with its beginning");
        };
        let (first, item) = match flow.find_step(&step).map(|step| &step.action) {
            Some(Action::Foreach(each)) => (each.first, Some((each.name.clone(), item))),
            Some(Action::Parallel(parallel)) => {
                let branch = parallel.branches.get(index as usize);
                (branch.copied().flatten(), None)
            }
            _ => (None, None),
        };
        let mut around = parent
            .part
            .as_ref()
            .map_or_else(Vec::new, |part| part.around.clone());
        around.push(Around {
            run: parent.run,
            step: step.clone(),
            index,
        });
        Self {
            run,
            cursor: first,
            part: Some(Part {
                parent: parent.run,
                step,
                index,
                item,
                around,
            }),
            input: parent.input.clone(),
            headers: parent.headers.clone(),
            query: parent.query.clone(),
            trigger: parent.trigger.clone(),
            started_by: parent.started_by.clone(),
            steps: parent.steps.clone(),
            ..Self::new(run)
        }
    }

    /// What branches gave is known from here on.
    pub(super) fn fan_ended(&mut self, flow: &Flow, step: &str, result: &Value, joined: &Value) {
        if self.undoing.is_some() {
            return self.next_step(flow);
        }
        self.done.extend(self.cursor);
        if let (Value::Object(steps), Value::Object(joined)) = (&mut self.steps, joined) {
            for (name, view) in joined {
                steps.insert(name.clone(), view.clone());
                self.gave.push(name.clone());
            }
        }
        self.finish_step(flow, step, result.clone(), None, None);
    }
}
