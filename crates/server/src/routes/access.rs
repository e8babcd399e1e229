//! Routes about tokens, namespaces and what operators did.

use semel_api::Code;
use semel_api::types::{
    AuditFilter, AuditRecord, ChainFilter, CreateNamespace, CreateToken, CreatedNamespace,
    CreatedToken, Namespace, NamespaceFilter, RevokeToken, SignInCode, Token, TokenFilter, Whoami,
};
use semel_model::Right::{Admin, Audit, Instance, Read};

use crate::access::{Access, Routes};
use crate::{audit, auth, namespaces, sign_ins, tokens};

pub(super) fn routes() -> Routes {
    let own = Access::AnyToken("every holder may see what their own token is");
    Routes::default()
        .get("/whoami", own, auth::whoami)
        .op("whoami", "The token's owner and namespace.")
        .ok::<Whoami>()
        .get("/tokens", Admin, tokens::list)
        .op(
            "list_tokens",
            "List the tokens of the namespace, newest first.",
        )
        .query::<TokenFilter>()
        .page::<Token>()
        .post("/tokens", Admin, tokens::create)
        .op(
            "create_token",
            "Create a token. Its secret is shown only now.",
        )
        .keyed()
        .takes::<CreateToken>()
        .created::<CreatedToken>()
        .post("/tokens/{token}/revoke", Admin, tokens::revoke)
        .op("revoke_token", "Revoke a token.")
        .keyed()
        .takes::<RevokeToken>()
        .ok::<Token>()
        .fails(&[Code::TokenNotFound, Code::ReasonInvalid])
        .post("/sign-in-codes", Read, sign_ins::make)
        .op(
            "make_sign_in_code",
            "Make a code that signs a browser in to the console, once and soon.",
        )
        .ok::<SignInCode>()
        .get("/namespaces", Instance, namespaces::list)
        .op("list_namespaces", "List the namespaces, by name.")
        .query::<NamespaceFilter>()
        .page::<Namespace>()
        .post("/namespaces", Instance, namespaces::create)
        .op(
            "create_namespace",
            "Create a namespace and its first token, whose secret is shown only now.",
        )
        .keyed()
        .takes::<CreateNamespace>()
        .created::<CreatedNamespace>()
        .fails(&[Code::NamespaceExists])
        .get("/audit", Audit, audit::list)
        .op("list_audit", "List what operators did, latest first.")
        .query::<AuditFilter>()
        .page::<AuditRecord>()
        .get("/audit/chain", Audit, audit::chain)
        .op(
            "read_audit_chain",
            "Read the sealed chain of the audit record, in its order.",
        )
        .query::<ChainFilter>()
        .page::<AuditRecord>()
}
