//! Searches of runs that people saved: one's own, and those that everybody in the namespace has.

use axum::extract::State;
use semel_api::Code;
use semel_api::types::{ForgottenSearch, KeptSearch, Page, SaveSearch, SavedSearch, SearchScope};
use semel_model::Right;
use semel_store::searches::{self, SEARCHES_MAX, SearchOwner, SearchView};

use crate::answer::{self, Answered};
use crate::app::App;
use crate::auth::Caller;
use crate::body::Payload;
use crate::error::ApiError;
use crate::query::{Named, Params, has_zero};

/// The most characters of a name.
const NAME_CHARS_MAX: usize = 60;

/// The most characters of what is searched for.
const QUERY_CHARS_MAX: usize = 500;

/// `GET /v1/searches`.
pub(crate) async fn list(State(app): State<App>, caller: Caller) -> Answered {
    let found = searches::list(app.cell().home(), caller.namespace_id, caller.id).await?;
    answer::ok(&Page {
        items: found.into_iter().map(view).collect(),
        next: None,
    })
}

/// `PUT /v1/searches/{name}`.
pub(crate) async fn save(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    payload: Payload,
) -> Answered {
    let (asked, _) = payload.read::<SaveSearch>()?;
    let owner = owner(&caller, asked.shared)?;
    let name = check("name", name.as_str(), NAME_CHARS_MAX)?;
    let query = check("query", &asked.query, QUERY_CHARS_MAX)?;
    let by = caller.actor();
    let home = app.engine.cell().home();
    let saved = searches::save(home, caller.namespace_id, owner, (name, query), &by).await?;
    if !saved {
        let detail = format!("there are {SEARCHES_MAX} searches already: remove one first");
        return Err(ApiError::new(Code::BodyInvalid, detail));
    }
    answer::ok(&KeptSearch {
        name: name.to_owned(),
        query: query.to_owned(),
        shared: asked.shared,
    })
}

/// `DELETE /v1/searches/{name}`.
pub(crate) async fn forget(
    State(app): State<App>,
    caller: Caller,
    name: Named,
    Params(scope): Params<SearchScope>,
) -> Answered {
    let owner = owner(&caller, scope.shared)?;
    let home = app.engine.cell().home();
    let forgotten = searches::forget(home, caller.namespace_id, owner, name.as_str()).await?;
    answer::ok(&ForgottenSearch {
        name: name.as_str().to_owned(),
        forgotten,
    })
}

/// Whose search it is. What everybody has is changed by who operates.
fn owner(caller: &Caller, shared: bool) -> Result<SearchOwner, ApiError> {
    match shared {
        true if !caller.may(Right::Operate) => Err(caller.lacks(Right::Operate)),
        true => Ok(SearchOwner::Everybody),
        false => Ok(SearchOwner::One(caller.id)),
    }
}

fn check<'a>(what: &str, text: &'a str, most: usize) -> Result<&'a str, ApiError> {
    let text = text.trim();
    let fits = !text.is_empty() && text.chars().nth(most).is_none();
    match fits && !has_zero(text) && !text.chars().any(char::is_control) {
        true => Ok(text),
        false => Err(ApiError::new(
            Code::BodyInvalid,
            format!("a {what} has 1 to {most} characters, and no control characters"),
        )),
    }
}

fn view(search: SearchView) -> SavedSearch {
    SavedSearch {
        name: search.name,
        query: search.query,
        shared: search.is_shared,
        by: search.saved_by,
        saved_at: search.saved_at,
    }
}
