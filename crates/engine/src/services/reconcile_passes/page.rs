//! Reading one page of what a source lists.

use std::sync::Arc;

use semel_flow::Scope;
use semel_flow::release::{ListRequest, Reconcile};
use semel_model::request::{ExternalRequest, HttpRequest};
use semel_model::{Fault, Outcome, Reserved};
use semel_steps::Route;
use semel_store::reconcile_passes::ReconcilePass;
use serde_json::{Value, json};
use url::Url;

use crate::catalogue::Release;
use crate::runtime::Runtime;

/// The most items of one page.
const ITEMS_MAX: usize = 5_000;

/// The most pages of a pass: a source that always names a next page ends here.
const PAGES_MAX: i32 = 10_000;

/// After how many runs a pass starts no more: a source that lists what never was ends here.
const STARTED_MAX: i64 = 50_000;

/// One page of a source's list.
pub(super) struct ListedPage {
    pub(super) items: Vec<Value>,
    /// The address of the next page.
    pub(super) next: Option<String>,
    /// The memory of the items.
    pub(super) _memory: Reserved,
}

/// Reads the page that a pass stands at.
pub(super) async fn read(
    runtime: &Arc<Runtime>,
    release: &Release,
    reconcile: &Reconcile,
    pass: &ReconcilePass,
) -> Result<ListedPage, Fault> {
    check_bounds(pass)?;
    runtime.know_connections(release).await;
    let request = render(runtime, release, reconcile, pass)?;
    let (response, memory) = match ask(runtime, release, &request).await {
        Outcome::Done(receipt) => (receipt.response, receipt.reserved),
        Outcome::Failed(fault) => return Err(fault),
        Outcome::InDoubt(doubt) => return Err(Fault::passing(doubt.code, doubt.message)),
    };
    let next = response.get("next").and_then(Value::as_str);
    if next.is_some_and(|next| pass.has_met(next)) {
        let message = "the source names a page as the next one that this pass has read before";
        return Err(Fault::permanent("list-repeats", message));
    }
    let next = next.map(str::to_owned);
    let items = items_of(release, reconcile, response)?;
    Ok(ListedPage {
        items,
        next,
        _memory: memory,
    })
}

/// Whether a pass may read another page.
fn check_bounds(pass: &ReconcilePass) -> Result<(), Fault> {
    if pass.page >= PAGES_MAX {
        let message = format!("the source lists more than {PAGES_MAX} pages");
        return Err(Fault::permanent("list-too-long", message));
    }
    if pass.counts.started >= STARTED_MAX && !pass.new.dry_run {
        let message = format!(
            "the pass has started {} runs and starts no more: check what the source lists, then \
             semel reconcile run {} starts those that are left",
            pass.counts.started, pass.new.flow
        );
        return Err(Fault::permanent("starts-too-many", message));
    }
    Ok(())
}

fn render(
    runtime: &Runtime,
    release: &Release,
    reconcile: &Reconcile,
    pass: &ReconcilePass,
) -> Result<ExternalRequest, Fault> {
    let window = json!({
        "start": pass.new.window_start.to_string(),
        "end": pass.new.nominal.to_string(),
    });
    let scope = Scope::new()
        .with("window", &window)
        .with("env", &release.flow.env);
    let destinations = runtime.destinations(release);
    let find = |name: &str| destinations.connection(name);
    let rendered = reconcile.list.render(&scope, &find);
    let rendered = rendered.map_err(|error| error.to_fault())?;
    if let ExternalRequest::Http(request) = rendered {
        let next = pass.next_page.as_deref();
        Ok(ExternalRequest::Http(at_page(request, next)?))
    } else {
        Ok(rendered)
    }
}

/// The request for one page. A pass that stands at a later page asks for the address that the
/// source gave, at the origin that it gave it for.
fn at_page(mut request: HttpRequest, next: Option<&str>) -> Result<HttpRequest, Fault> {
    if let Some(pages) = &mut request.pages {
        pages.most = 1;
    }
    if let Some(next) = next {
        let origin = |text: &str| Url::parse(text).ok().map(|url| url.origin());
        if origin(next).is_none() || origin(next) != origin(&request.url) {
            let message = "the next page has another origin than the first, so it was not read";
            return Err(Fault::permanent("page-refused", message));
        }
        next.clone_into(&mut request.url);
    }
    Ok(request)
}

async fn ask(runtime: &Arc<Runtime>, release: &Release, request: &ExternalRequest) -> Outcome {
    let namespace_id = release.namespace_id;
    let to = match request.connection() {
        Some(name) => match runtime.find_destination(namespace_id, name).await {
            Some(destination) => Some(destination),
            None => {
                let message =
                    format!("there is no connection `{name}`: semel connection create {name}");
                return Outcome::Failed(Fault::passing("connection-missing", message));
            }
        },
        None => None,
    };
    let route = Route {
        namespace_id,
        to: to.as_deref(),
        origin: None,
    };
    let session = runtime.session();
    Box::pin(session.executors.read(route, request)).await
}

fn items_of(
    release: &Release,
    reconcile: &Reconcile,
    mut response: Value,
) -> Result<Vec<Value>, Fault> {
    let items = match &reconcile.items {
        Some(expr) => {
            let scope = Scope::new()
                .with("result", &response)
                .with("env", &release.flow.env);
            let items = expr.eval(&scope);
            items.map_err(|error| Fault::permanent(error.code(), format!("`in`: {error}")))?
        }
        None => response[reconcile.list.items_field()].take(),
    };
    match items {
        Value::Array(items) if items.len() <= ITEMS_MAX => Ok(items),
        Value::Array(_) => {
            let message = format!("a page has more than {ITEMS_MAX} items: ask for smaller pages");
            Err(Fault::permanent("list-too-long", message))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            let field = match reconcile.list {
                ListRequest::Http(_) => "write `in: …`, or ask for smaller pages (`pages`)",
                ListRequest::Db(_) => "write `in: …`",
            };
            let message = format!("there is no list of items in the result: {field}");
            Err(Fault::permanent("list-unreadable", message))
        }
    }
}
