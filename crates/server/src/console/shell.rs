//! What surrounds every page: its title, where one can go, and the same as JSON, command and curl line.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use semel_engine::memory::Portion;

use super::assets;
use super::look::Theme;
use super::markup::{Markup, visible};
use super::visit::{Following, Visit};
use super::words::{address, shell_word};
use crate::answer::{Answered, bytes_with_memory};
use crate::error::ApiError;

/// The places of the console, by the path that each begins with.
const PLACES: &[(&str, &str)] = &[
    ("", "Overview"),
    ("/runs", "Runs"),
    ("/doubts", "Doubts"),
    ("/approvals", "Approvals"),
    ("/duplicates", "Duplicates"),
    ("/effects", "Effects"),
    ("/flows", "Flows"),
    ("/schedules", "Schedules"),
    ("/connections", "Connections"),
    ("/subscriptions", "Events"),
    ("/tasks", "Tasks"),
    ("/jobs", "Jobs"),
    ("/servers", "Servers"),
    ("/audit", "Audit"),
    ("/settings", "Settings"),
];

/// What surrounds a page.
pub(super) struct Shell {
    /// The page's title.
    pub(super) title: String,
    /// The address that the namespace's pages begin with.
    pub(super) base: String,
    /// The namespace.
    pub(super) namespace: String,
    /// The other namespaces that the person may enter.
    pub(super) others: Vec<Place>,
    /// Whom the browser stands for.
    pub(super) token: String,
    /// What forms carry.
    pub(super) form: String,
    /// The places.
    pub(super) places: Vec<Place>,
    /// What the search box holds.
    pub(super) search: String,
    /// The same for programs.
    pub(super) same: Same,
    /// Light or dark, or as the system says.
    pub(super) theme: &'static str,
    /// The zone of times; empty for UTC.
    pub(super) zone: String,
    /// This page.
    pub(super) here: String,
    /// The stylesheet.
    pub(super) css: &'static str,
    /// The script.
    pub(super) js: &'static str,
    /// What the page follows, where it changes by itself.
    pub(super) following: Option<Following>,
}

/// A place of the console.
pub(super) struct Place {
    /// Where it is.
    pub(super) href: String,
    /// What it is called.
    pub(super) name: String,
    /// Whether the page is there.
    pub(super) here: bool,
}

/// What a page shows, for programs.
pub(super) struct Same {
    /// The route of the API, with its parameters.
    pub(super) json: String,
    /// The same, where the browser can open it.
    pub(super) open: String,
    /// The command.
    pub(super) command: String,
    /// The line for curl.
    pub(super) curl: String,
}

impl Shell {
    /// The shell of a page at a place, which shows what a route and a command do.
    pub(super) fn new(visit: &Visit, place: &str, title: &str, json: &str, command: &str) -> Self {
        let caller = visit.caller();
        let places = PLACES.iter().map(|(path, name)| Place {
            href: visit.page(if path.is_empty() { "/" } else { path }),
            name: (*name).to_owned(),
            here: *path == place,
        });
        let others = caller.namespaces.iter();
        let others = others.filter(|it| it.as_str() != caller.namespace.as_str());
        // The same place there; what one page shows is in one namespace.
        let others = others.map(|namespace| Place {
            href: format!(
                "/console/{namespace}{}",
                if place.is_empty() { "/" } else { place }
            ),
            name: namespace.clone(),
            here: false,
        });
        let url = format!("{}{json}", visit.signed_in.site.origin());
        let open = json.strip_prefix("/v1").unwrap_or(json);
        Self {
            title: visible(title, false),
            base: visit.page(""),
            namespace: caller.namespace.to_string(),
            others: others.collect(),
            token: visible(&caller.token, false),
            form: visit.signed_in.form_token.clone(),
            places: places.collect(),
            search: String::new(),
            same: Same {
                json: format!("GET {json}"),
                open: visit.page(&format!("/json{open}")),
                command: command.to_owned(),
                curl: format!(
                    "curl -sS -H \"Authorization: Bearer $SEMEL_TOKEN\" {}",
                    shell_word(&url)
                ),
            },
            theme: visit.look.theme.as_str(),
            zone: visit.look.zone_name().to_owned(),
            here: visit.here().unwrap_or_else(|| visit.page(place)),
            css: assets::css_address(),
            js: assets::js_address(),
            following: None,
        }
    }

    /// The same, of a page that changes by itself.
    pub(super) fn following(self, following: Option<Following>) -> Self {
        Self { following, ..self }
    }

    /// Fills the search box, unless a person could not see what is in it.
    pub(super) fn search_for(&mut self, text: &str) {
        if visible(text, false) == text {
            self.search = text.to_owned();
        }
    }
}

/// A page whose content is one piece of markup.
#[derive(Template)]
#[template(path = "page.html")]
pub(super) struct Page {
    /// What surrounds it.
    pub(super) shell: Shell,
    /// The heading.
    pub(super) heading_markup: Markup,
    /// One sentence that says what is the case.
    pub(super) lead_markup: Markup,
    /// What was wrong with a form, and what to do.
    pub(super) problem: Option<Trouble>,
    /// Everything else.
    pub(super) body_markup: Markup,
}

/// What was wrong, for people.
pub(super) struct Trouble {
    /// What.
    pub(super) title: String,
    /// What exactly.
    pub(super) detail: String,
    /// What to do.
    pub(super) hint: String,
    /// The stable word for it.
    pub(super) code: String,
}

impl From<ApiError> for Trouble {
    fn from(error: ApiError) -> Self {
        let problem = error.into_problem();
        let wait = problem
            .retry_in
            .map(|span| format!(" Try again in {span}."));
        Self {
            detail: match problem.detail == problem.title {
                true => String::new(),
                false => visible(&problem.detail, false),
            },
            title: problem.title,
            hint: format!("{}{}", problem.hint, wait.unwrap_or_default()),
            code: problem.code,
        }
    }
}

/// The link to the page of a list that follows, where one does. `page` is the address of the list; empty
/// for the one that is shown.
pub(super) fn next_page(
    name: &str,
    page: &str,
    filter: &[(&str, &str)],
    next: Option<&str>,
) -> Option<Markup> {
    let next = [("cursor", next?)];
    let asked: Vec<(&str, &str)> = filter.iter().chain(&next).copied().collect();
    let href = address(page, &asked);
    Some(Markup::text(name).link(&href).within("p", "next"))
}

/// A list that was asked for wrongly: its page stays, with what to do and what stands above the list. Any
/// other error is an error.
pub(super) fn keep(shell: Shell, error: ApiError, above: Vec<Markup>) -> Answered {
    let status = status_of(&error);
    if status != StatusCode::BAD_REQUEST {
        return Err(error);
    }
    let page = Page {
        heading_markup: Markup::text(&shell.title),
        shell,
        lead_markup: Markup::default(),
        problem: Some(error.into()),
        body_markup: Markup::join(above),
    };
    show_as(status, &page)
}

/// Shows a list, with what it is about.
pub(super) fn show_list(shell: Shell, lead: Markup, body: Vec<Markup>) -> Answered {
    show(&Page {
        heading_markup: Markup::text(&shell.title),
        shell,
        lead_markup: lead,
        problem: None,
        body_markup: Markup::join(body),
    })
}

/// Shows a page.
pub(super) fn show(page: &impl Template) -> Answered {
    show_as(StatusCode::OK, page)
}

/// Shows a page with a status.
pub(super) fn show_as(status: StatusCode, page: &impl Template) -> Answered {
    match page.render() {
        Ok(text) => Ok((status, Html(text)).into_response()),
        Err(_) => Err(ApiError::internal("a page that cannot be rendered")),
    }
}

/// The same for a page of what may be large, with the memory that it takes until it was sent.
pub(super) fn show_large(
    status: StatusCode,
    page: &impl Template,
    memory: Option<Portion>,
) -> Answered {
    match page.render() {
        Ok(text) => Ok((status, Html(bytes_with_memory(text, memory))).into_response()),
        Err(_) => Err(ApiError::internal("a page that cannot be rendered")),
    }
}

/// Shows a page again after an act was refused: as it was, with what to do.
pub(super) fn status_of(error: &ApiError) -> StatusCode {
    StatusCode::from_u16(error.problem().status).unwrap_or(StatusCode::BAD_REQUEST)
}

/// A page about an error, where there is no other to show.
#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    theme: &'static str,
    css: &'static str,
    trouble: Trouble,
}

/// A page about an error.
pub(super) fn refuse(error: ApiError, theme: Theme) -> Response {
    let status = status_of(&error);
    let page = ErrorPage {
        theme: theme.as_str(),
        css: assets::css_address(),
        trouble: error.into(),
    };
    match page.render() {
        Ok(text) => (status, Html(text)).into_response(),
        Err(_) => status.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn templates_print_as_it_is_only_what_was_escaped() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates");
        let mut count = 0;
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            for (at, _) in text.match_indices("|safe") {
                count += 1;
                assert!(text[..at].ends_with("_markup"), "{}", path.display());
            }
            assert!(
                !text.contains(" style=") && !text.contains("<style"),
                "{}",
                path.display()
            );
        }
        assert!(count > 3, "{count}");
    }
}
