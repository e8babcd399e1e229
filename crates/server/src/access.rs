//! Access: what each route needs, declared beside its path and checked before its handler.
//!
//! A route can only be added together with its [`Access`], so none is open by oversight. A handler
//! behind a token gets the [`Caller`] that was checked here, and cannot get one in another way.

mod describe;

use std::pin::Pin;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodFilter, on};
use semel_api::Code;
use semel_model::{Right, TokenId};
use semel_store::audit::origin::ActOrigin;
use url::form_urlencoded;

use crate::app::App;
use crate::auth::failures::AuthError;
use crate::auth::signed_in;
use crate::auth::site::{self, Site};
use crate::auth::{self, Caller, OnBehalfOf};
use crate::error::ApiError;
use crate::operation::Operation;
use crate::rate_limit::Peer;

/// What a request needs to reach a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A token with this right.
    Right(Right),
    /// A token with this right, and while the database is unavailable one that worked before: a
    /// monitoring system has to see that the database is unavailable.
    Monitor(Right),
    /// Any token that works, for this reason.
    AnyToken(&'static str),
    /// A sign-in of the console. The rights of its token decide what its pages show and do: they read
    /// and act through the API.
    Console,
    /// No token, for this reason.
    Open(&'static str),
}

impl Access {
    /// The right that it needs, where it needs one.
    #[must_use]
    pub const fn right(self) -> Option<Right> {
        match self {
            Self::Right(right) | Self::Monitor(right) => Some(right),
            Self::AnyToken(_) | Self::Console | Self::Open(_) => None,
        }
    }
}

impl From<Right> for Access {
    fn from(right: Right) -> Self {
        Self::Right(right)
    }
}

/// A route, and what it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredRoute {
    /// The method.
    pub method: Method,
    /// The path, with its variable parts in braces.
    pub path: String,
    /// What a request needs to reach it.
    pub access: Access,
}

/// A route and its operation, where it has one.
pub(crate) struct DocumentedRoute {
    /// The route, and what it needs.
    pub(crate) route: DeclaredRoute,
    /// What it takes and returns.
    pub(crate) operation: Option<Operation>,
}

/// Routes with what they need.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<App>,
    declared: Vec<DocumentedRoute>,
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident $method:ident;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name<H, T>(self, path: &str, access: impl Into<Access>, handler: H) -> Self
        where
            H: Handler<T, App>,
            T: 'static,
        {
            self.add((Method::$method, MethodFilter::$method), path, access.into(), handler)
        }
    )*};
}

impl Routes {
    methods! {
        /// Adds a route for GET.
        get GET;
        /// Adds a route for POST.
        post POST;
        /// Adds a route for PUT.
        put PUT;
        /// Adds a route for DELETE.
        delete DELETE;
        /// Adds a route for OPTIONS.
        options OPTIONS;
    }

    fn add<H, T>(
        mut self,
        (method, filter): (Method, MethodFilter),
        path: &str,
        access: Access,
        handler: H,
    ) -> Self
    where
        H: Handler<T, App>,
        T: 'static,
    {
        let route = DeclaredRoute {
            method,
            path: path.to_owned(),
            access,
        };
        self.declared.push(DocumentedRoute {
            route,
            operation: None,
        });
        let methods = match access {
            Access::Open(_) => on(filter, handler),
            Access::Right(_) | Access::Monitor(_) | Access::AnyToken(_) | Access::Console => {
                on(filter, Guarded { access, handler })
            }
        };
        self.router = self.router.route(path, methods);
        self
    }

    /// Adds other routes.
    pub(crate) fn merge(mut self, others: Self) -> Self {
        self.router = self.router.merge(others.router);
        self.declared.extend(others.declared);
        self
    }

    /// Adds other routes below a path.
    pub(crate) fn nest(mut self, path: &str, others: Self) -> Self {
        self.router = self.router.nest(path, others.router);
        let below = others.declared.into_iter().map(|mut declared| {
            declared.route.path = format!("{path}{}", declared.route.path);
            declared
        });
        self.declared.extend(below);
        self
    }

    /// Changes what all of them share.
    pub(crate) fn with(mut self, change: impl FnOnce(Router<App>) -> Router<App>) -> Self {
        self.router = change(self.router);
        self
    }

    /// The routes, to be served.
    pub(crate) fn into_router(self) -> Router<App> {
        self.router
    }

    /// The routes, to be listed.
    pub(crate) fn into_declared(self) -> Vec<DeclaredRoute> {
        let declared = self.declared.into_iter();
        declared.map(|declared| declared.route).collect()
    }

    /// The routes with their operations, to be documented.
    pub(crate) fn into_documented(self) -> Vec<DocumentedRoute> {
        self.declared
    }

    /// Gives the latest route its operation.
    pub(crate) fn op(mut self, id: &'static str, summary: &'static str) -> Self {
        if let Some(latest) = self.declared.last_mut() {
            latest.operation = Some(Operation::new(id, summary));
        }
        self
    }

    /// Changes the operation of the latest route.
    fn describe(mut self, change: impl FnOnce(&mut Operation)) -> Self {
        let latest = self.declared.last_mut();
        if let Some(operation) = latest.and_then(|latest| latest.operation.as_mut()) {
            change(operation);
        }
        self
    }
}

/// A handler behind its check.
#[derive(Clone)]
struct Guarded<H> {
    access: Access,
    handler: H,
}

impl<H, T> Handler<T, App> for Guarded<H>
where
    H: Handler<T, App>,
    T: 'static,
{
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, mut request: Request, app: App) -> Self::Future {
        Box::pin(async move {
            let admitted = match self.access {
                // In a box: every other request has a future that is smaller by it.
                Access::Console => Box::pin(admit_browser(&mut request, &app)).await,
                Access::Right(_) | Access::Monitor(_) | Access::AnyToken(_) | Access::Open(_) => {
                    admit_token(self.access, &mut request, &app).await
                }
            };
            match admitted {
                Ok(caller) => {
                    // A page's own calls to the API keep the address of its browser.
                    let origin = ActOrigin {
                        token: Some(caller),
                        ..ActOrigin::current()
                    };
                    origin.scope(self.handler.call(request, app)).await
                }
                Err(refused) => refused,
            }
        })
    }
}

/// Lets a signed-in browser in; any other is sent to sign in first. A form has to come from the console
/// itself.
async fn admit_browser(request: &mut Request, app: &App) -> Result<TokenId, Response> {
    let headers = request.headers();
    let site = Site::of(headers, &app.engine.options().public_url);
    let site = site.map_err(IntoResponse::into_response)?;
    if request.method() != Method::GET {
        let checked = site.check_form(headers);
        checked.map_err(IntoResponse::into_response)?;
    }
    let cells = (app.cell(), app.engine.cell());
    let at = (site, namespace_of(request.uri()));
    let from = app.check_peer(request.extensions().get().copied());
    let found = match site::is_by_itself(headers) || is_live(request.uri()) {
        true => signed_in::find_for_script(headers, at, from, &app.sign_ins, cells).await,
        false => signed_in::find(headers, at, from, &app.sign_ins, cells).await,
    };
    match found.map_err(IntoResponse::into_response)? {
        Some(signed_in)
            if signed_in.is_renewal_due
                && app.provider.as_ref().is_some_and(|it| !it.is_down())
                && request.method() == Method::GET
                && site::is_page(headers)
                && site::is_own(headers) =>
        {
            Err(send_to("/console/sign-in/oidc?quiet=yes&to=", request))
        }
        Some(signed_in) => {
            let id = signed_in.caller.id;
            request.extensions_mut().insert(signed_in);
            Ok(id)
        }
        None => Err(send_to("/console/sign-in?to=", request)),
    }
}

/// The namespace whose page is asked for; empty where it is none's.
fn namespace_of(uri: &Uri) -> &str {
    let rest = uri.path().strip_prefix("/console/").unwrap_or_default();
    rest.split_once('/').map_or("", |(namespace, _)| namespace)
}

/// Whether the address is the one that pages follow: a browser asks for it by itself.
fn is_live(uri: &Uri) -> bool {
    let rest = uri.path().strip_prefix("/console/").unwrap_or_default();
    rest.split_once('/').is_some_and(|(_, page)| page == "live")
}

/// After signing in, a page that was asked for is shown; what was sent is not sent again.
fn send_to(sign_in: &str, request: &Request) -> Response {
    let back: String = match request.uri().path_and_query() {
        Some(page) if request.method() == Method::GET => {
            form_urlencoded::byte_serialize(page.as_str().as_bytes()).collect()
        }
        Some(_) | None => String::new(),
    };
    Redirect::to(&format!("{sign_in}{back}")).into_response()
}

async fn admit_token(
    access: Access,
    request: &mut Request,
    app: &App,
) -> Result<TokenId, Response> {
    let peer = request.extensions().get().copied();
    let admitted = match request.extensions_mut().remove::<OnBehalfOf>() {
        Some(OnBehalfOf(caller)) => allow(access, caller),
        None => admit(access, request.headers(), peer, app).await,
    };
    let caller = admitted.map_err(IntoResponse::into_response)?;
    let id = caller.id;
    request.extensions_mut().insert(caller);
    Ok(id)
}

/// The caller of a request that may reach a route. ARCHITECTURE.md lists the places that
/// check a further right.
async fn admit(
    access: Access,
    headers: &HeaderMap,
    peer: Option<Peer>,
    app: &App,
) -> Result<Caller, ApiError> {
    let caller = authenticate(access, headers, peer, app).await;
    allow(access, caller.map_err(|error| refuse(error, peer, app))?)
}

async fn authenticate(
    access: Access,
    headers: &HeaderMap,
    peer: Option<Peer>,
    app: &App,
) -> Result<Caller, AuthError> {
    let cells = (app.cell(), app.engine.cell());
    let from = app.check_peer(peer);
    match access {
        Access::Monitor(_) if !app.pulse.database_answers() => {
            match auth::remember(headers, from, &app.verified, app.engine.now())? {
                Some(caller) => Ok(caller),
                None => auth::verify(headers, from, &app.verified, cells).await,
            }
        }
        Access::Right(_)
        | Access::Monitor(_)
        | Access::AnyToken(_)
        | Access::Console
        | Access::Open(_) => auth::verify(headers, from, &app.verified, cells).await,
    }
}

/// The answer to a failed authentication, which is counted: the same for a missing, misspelt, unknown, expired
/// or revoked token, and outside its networks. An address that presents one after the other gets a 429 after a
/// while, whatever was wrong with them.
fn refuse(error: AuthError, peer: Option<Peer>, app: &App) -> ApiError {
    let failure = match error {
        AuthError::Failed(failure) => failure,
        AuthError::Undecided(error) => return error,
    };
    app.auth_failures.note(&failure, peer);
    match peer {
        Some(peer) if failure.is_a_try() => app.edge.refuse_unknown(peer, Code::Unauthorized),
        Some(_) | None => ApiError::plain(Code::Unauthorized),
    }
}

fn allow(access: Access, caller: Caller) -> Result<Caller, ApiError> {
    match access.right() {
        Some(right) if !caller.may(right) => Err(caller.lacks(right)),
        Some(_) | None => Ok(caller),
    }
}
