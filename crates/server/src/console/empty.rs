//! Lists with nothing in them: what would be here, the command that makes one, and the page that explains it.

use super::markup::{Markup, assembled, escape};

/// Says what would be here, how it comes to be, and where that is explained.
///
/// The page is one of the documentation's, by its name in the repository: the server has no copy to link to.
pub(super) fn teach(what: &'static str, command: &str, page: &'static str) -> Markup {
    assembled(format!(
        "<div class=\"empty teach\"><p>{}</p><p><code data-copy>{}</code></p>\
         <p class=\"help\">It is explained in <code>{page}</code>.</p></div>",
        escape(what),
        escape(command)
    ))
}

/// Says that nothing fits, where there may be something else.
pub(super) fn nothing(what: &str) -> Markup {
    Markup::text(what).within("p", "empty")
}
