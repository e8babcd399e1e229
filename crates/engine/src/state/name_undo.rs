//! Undos of effects that have business keys: other runs may have reused what is undone.

use semel_model::event::UndoneName;

/// What a run has to do with the name of an effect that it undoes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameUndo {
    /// The name that was told; absent where none is left that could be asked for.
    pub held: Option<UndoneName>,
    /// How far the undo is.
    pub standing: UndoStanding,
}

/// How far the undo of a named effect is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoStanding {
    /// The name knows, and whoever asks for it waits.
    Begun,
    /// The run was resumed since: an operator may have taken the name from it meanwhile, and it is
    /// asked again before another attempt.
    Again,
    /// Others reused the effect: an operator decides.
    Shared,
    /// An operator resumed the run: the effect stays as it is.
    Left,
    /// It is undone, was left as it is, or its run ended before that.
    Over,
}

impl NameUndo {
    /// The run continues after it was stopped. Where it had ended, the name was told what became of
    /// the undo, and is asked again before another one.
    pub(crate) fn resumed(&mut self, had_ended: bool) {
        self.standing = match self.standing {
            UndoStanding::Shared => UndoStanding::Left,
            UndoStanding::Begun | UndoStanding::Again if had_ended => UndoStanding::Over,
            UndoStanding::Begun | UndoStanding::Again => UndoStanding::Again,
            UndoStanding::Left => UndoStanding::Left,
            UndoStanding::Over => UndoStanding::Over,
        };
    }
}
