//! Lists page by page.

use crate::answer::Answer;

/// Which page of a list to read.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct PageArguments {
    /// The most to list.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(crate) limit: Option<u16>,
    /// The cursor of the previous page.
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

/// Says how to read on, where there is more.
pub(crate) fn more(answer: Answer, next: Option<&str>) -> Answer {
    match next {
        Some(cursor) => answer.note(format!("there are more: --cursor {cursor}")),
        None => answer,
    }
}
