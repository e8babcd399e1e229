//! What each cell must come to, worked out from the design.
//!
//! A run that is taken over knows its journal and nothing else. Where its intent is recorded and its
//! outcome is not, its guard decides; without one an operator does, and the other runs of the key
//! wait for that.

use super::cell::{Cell, FAULTS, Fault, Guard, Meeting, Point};

/// A run of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Came to the key before the struck run.
    Earlier,
    /// The struck run.
    Struck,
    /// Waits behind the struck run when the fault strikes.
    Waiter,
    /// Comes after the fault.
    Later,
    /// Comes once a paused server has woken up.
    Last,
}

/// When everything is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scene {
    /// Another server has taken over.
    TakenOver,
    /// A paused server has woken up, and an operator has done nothing yet.
    Woken,
    /// Operators have settled every doubt.
    Over,
}

/// How a run must stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    Succeeded,
    Failed,
    Cancelled,
    InDoubt,
    /// It waits for the key.
    Waiting,
    /// The destination holds its request.
    Sending,
}

/// How far the struck run's effect had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Nothing,
    Intended,
    Sent,
    Recorded,
}

impl Role {
    fn letter(self) -> &'static str {
        match self {
            Self::Earlier => "a",
            Self::Struck => "s",
            Self::Waiter => "y",
            Self::Later => "z",
            Self::Last => "w",
        }
    }
}

impl Cell {
    /// The key of a run.
    pub(super) fn key(self, role: Role) -> String {
        format!("{}-{}", self.object(), role.letter())
    }

    /// The runs that there are in a scene.
    pub(super) fn roles(self, scene: Scene) -> Vec<Role> {
        let earlier = match self.meeting {
            Meeting::Failed | Meeting::Done | Meeting::Held | Meeting::InDoubt => {
                Some(Role::Earlier)
            }
            Meeting::First | Meeting::Awaited | Meeting::Refused | Meeting::Cancelled => None,
        };
        let waiter = self.is_awaited().then_some(Role::Waiter);
        let last = (scene != Scene::TakenOver).then_some(Role::Last);
        [Some(Role::Struck), Some(Role::Later), earlier, waiter, last]
            .into_iter()
            .flatten()
            .collect()
    }

    /// How a run must stand.
    pub(super) fn stands(self, role: Role, scene: Scene) -> Stands {
        if self.fails() == Some(role) {
            return Stands::Failed;
        }
        if (self.meeting, role) == (Meeting::Cancelled, Role::Struck) {
            return Stands::Cancelled;
        }
        if scene != Scene::Over
            && let Some(doubts) = self.doubts(scene)
        {
            return match role == doubts {
                true => Stands::InDoubt,
                false => Stands::Waiting,
            };
        }
        match role {
            Role::Later if self.is_held_later() && scene == Scene::TakenOver => Stands::Sending,
            _ => Stands::Succeeded,
        }
    }

    /// The run that the destination refuses for good.
    fn fails(self) -> Option<Role> {
        match self.meeting {
            Meeting::Failed => Some(Role::Earlier),
            Meeting::Refused if self.reach() == Reach::Recorded => Some(Role::Struck),
            Meeting::Refused
            | Meeting::First
            | Meeting::Awaited
            | Meeting::Cancelled
            | Meeting::Done
            | Meeting::Held
            | Meeting::InDoubt => None,
        }
    }

    /// Whether the later run performs the effect, and the destination holds its answer until a
    /// paused server has woken up.
    pub(super) fn is_held_later(self) -> bool {
        self.fault != Fault::LostAnswer && self.fails() == Some(Role::Struck)
    }

    /// The run whose effect is in doubt.
    pub(super) fn doubts(self, scene: Scene) -> Option<Role> {
        if self.guard != Guard::Review {
            return None;
        }
        // A paused server wakes up with the answer, which settles the doubt.
        let heard = self.fault == Fault::Pause && scene != Scene::TakenOver;
        match (self.meeting, self.reach()) {
            (Meeting::InDoubt, _) => Some(Role::Earlier),
            (Meeting::Held, _) => {
                (self.fault != Fault::LostAnswer && !heard).then_some(Role::Earlier)
            }
            (Meeting::Done, _) | (_, Reach::Nothing | Reach::Recorded) => None,
            // A refusal that comes late is no evidence; only that it is done would be.
            (Meeting::Refused, Reach::Sent) | (_, Reach::Intended) => Some(Role::Struck),
            (_, Reach::Sent) => (!heard).then_some(Role::Struck),
        }
    }

    /// Effects and requests that the destination must have counted in the end.
    pub(super) fn counts(self) -> (u64, u64) {
        let again = u64::from(self.guard == Guard::Key);
        let calls = match (self.meeting, self.reach()) {
            (Meeting::Held, _) if self.fault != Fault::LostAnswer => 1 + again,
            (Meeting::Cancelled | Meeting::Done | Meeting::Held | Meeting::InDoubt, _) => 1,
            (Meeting::Refused, _) => 2,
            (Meeting::Failed, Reach::Sent) => 2 + again,
            (Meeting::Failed, _) => 2,
            (Meeting::First | Meeting::Awaited, Reach::Sent) => 1 + again,
            (Meeting::First | Meeting::Awaited, _) => 1,
        };
        (1, calls)
    }

    fn reach(self) -> Reach {
        if self.fault == Fault::LostAnswer {
            // The server keeps its lease, finds out what it had committed, and continues.
            return Reach::Recorded;
        }
        match self.point {
            Point::AskBefore
            | Point::AskAfter
            | Point::BeginBefore
            | Point::BeginAfter
            | Point::MeetBefore
            | Point::MeetAfter
            | Point::IntentBefore => Reach::Nothing,
            Point::IntentAfter => Reach::Intended,
            Point::Sent | Point::OutcomeBefore => Reach::Sent,
            Point::OutcomeAfter | Point::NoticeBefore | Point::NoticeAfter => Reach::Recorded,
        }
    }
}

#[test]
fn no_cell_has_two_effects() {
    let cells: Vec<Cell> = FAULTS.into_iter().flat_map(Cell::all).collect();

    assert!(cells.iter().all(|cell| cell.counts().0 == 1));
    assert!(cells.len() >= 120, "{} cells", cells.len());
}
