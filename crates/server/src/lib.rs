//! HTTP: hooks, API routes, callbacks, health and metrics.
