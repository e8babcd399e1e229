//! Access: what each route needs, declared beside its path and checked before its handler.
//!
//! A route can only be added together with its [`Access`], so none is open by oversight. A handler
//! behind a token gets the [`Caller`] that was checked here, and cannot get one in another way.

use std::pin::Pin;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use semel_model::Right;

use crate::app::App;
use crate::auth::{self, Caller};
use crate::error::ApiError;

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
    /// No token, for this reason.
    Open(&'static str),
}

impl Access {
    /// The right that it needs, where it needs one.
    #[must_use]
    pub const fn right(self) -> Option<Right> {
        match self {
            Self::Right(right) | Self::Monitor(right) => Some(right),
            Self::AnyToken(_) | Self::Open(_) => None,
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

/// Routes with what they need.
#[derive(Default)]
pub(crate) struct Routes {
    router: Router<App>,
    declared: Vec<DeclaredRoute>,
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
        self.declared.push(DeclaredRoute {
            method,
            path: path.to_owned(),
            access,
        });
        let methods = match access {
            Access::Open(_) => on(filter, handler),
            Access::Right(_) | Access::Monitor(_) | Access::AnyToken(_) => {
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
        let below = others.declared.into_iter().map(|route| DeclaredRoute {
            path: format!("{path}{}", route.path),
            ..route
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
        self.declared
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
            match admit(self.access, request.headers(), &app).await {
                Ok(caller) => {
                    request.extensions_mut().insert(caller);
                    self.handler.call(request, app).await
                }
                Err(refused) => refused.into_response(),
            }
        })
    }
}

/// The caller of a request that may reach a route. Further rights are checked in `keys` (to drop a key as
/// a new intent), in `payloads` (what a response shows), and where tokens are made.
async fn admit(access: Access, headers: &HeaderMap, app: &App) -> Result<Caller, ApiError> {
    let caller = match access {
        Access::Monitor(_) if !app.pulse.database_answers() => {
            match auth::remember(headers, &app.verified)? {
                Some(caller) => caller,
                None => auth::verify(headers, &app.verified, app.cell()).await?,
            }
        }
        Access::Right(_) | Access::Monitor(_) | Access::AnyToken(_) | Access::Open(_) => {
            auth::verify(headers, &app.verified, app.cell()).await?
        }
    };
    match access.right() {
        Some(right) if !caller.may(right) => Err(ApiError::right_missing(right, &caller.token)),
        Some(_) | None => Ok(caller),
    }
}
