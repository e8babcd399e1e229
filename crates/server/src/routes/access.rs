//! Routes about tokens, namespaces and what operators did.

use semel_api::Code;
use semel_api::types::{
    AuditFilter, AuditRecord, ChainFilter, ChangePerson, CreateNamespace, CreateToken,
    CreatedNamespace, CreatedToken, ForgottenSearch, GroupRole, KeptSearch, MapGroup, Namespace,
    NamespaceFilter, Person, PersonFilter, RemovedFilter, RemovedStretch, RevokeDerivedTokens,
    RevokeToken, RevokedDerivedTokens, RevokedPerson, RevokedToken, SaveSearch, SavedSearch,
    SearchScope, Servers, SetNamespace, SignInCode, Token, TokenFilter, UnmapGroup, Whoami,
};
use semel_model::Right::{Admin, Audit, Instance, Read};

use crate::access::{Access, Routes};
use crate::{audit, auth, members, namespaces, searches, servers, sign_ins, tokens};

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
            "Create a token. Its secret is shown now, and for 10 minutes to a repeat under its key.",
        )
        .keyed()
        .takes::<CreateToken>()
        .created::<CreatedToken>()
        .fails(&[Code::TokenShown])
        .post("/tokens/{token}/revoke", Admin, tokens::revoke)
        .op("revoke_token", "Revoke a token.")
        .keyed()
        .takes::<RevokeToken>()
        .ok::<RevokedToken>()
        .fails(&[Code::TokenNotFound, Code::ReasonInvalid])
        .post("/tokens/revoke-derived", Admin, tokens::revoke_derived)
        .op(
            "revoke_derived_tokens",
            "Revoke the tokens that may have been derived from the installation's secret key.",
        )
        .takes::<RevokeDerivedTokens>()
        .ok::<RevokedDerivedTokens>()
        .fails(&[Code::ReasonInvalid])
        .post("/sign-in-codes", Read, sign_ins::make)
        .op(
            "make_sign_in_code",
            "Make a code that signs a browser in to the console, once and soon.",
        )
        .ok::<SignInCode>()
        .merge(searches())
        .merge(members())
        .get("/namespaces", Instance, namespaces::list)
        .op("list_namespaces", "List the namespaces, by name.")
        .query::<NamespaceFilter>()
        .page::<Namespace>()
        .post("/namespaces", Instance, namespaces::create)
        .op(
            "create_namespace",
            "Create a namespace and its first token, whose secret is shown now, and for 10 minutes to a repeat under its key.",
        )
        .keyed()
        .takes::<CreateNamespace>()
        .created::<CreatedNamespace>()
        .fails(&[Code::NamespaceExists, Code::TokenShown])
        .post("/namespaces/{namespace}/set", Instance, namespaces::set)
        .op(
            "set_namespace",
            "Change the share of a namespace, how many of its runs may wait, or how long they are kept.",
        )
        .takes::<SetNamespace>()
        .ok::<Namespace>()
        .fails(&[Code::NamespaceNotFound, Code::BodyInvalid])
        .get("/servers", Instance, servers::list)
        .op(
            "list_servers",
            "List the servers of the installation, and how much there is to do.",
        )
        .ok::<Servers>()
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
        .get("/audit/removed", Audit, audit::removed)
        .op(
            "list_removed_audit",
            "List the stretches of the chain whose acts were removed as past their time, with their seals.",
        )
        .query::<RemovedFilter>()
        .page::<RemovedStretch>()
}

/// What people saved for themselves; what everybody gets needs a further right.
fn searches() -> Routes {
    Routes::default()
        .get("/searches", Read, searches::list)
        .op(
            "list_searches",
            "List your saved searches, and those that everybody has.",
        )
        .page::<SavedSearch>()
        .put("/searches/{name}", Read, searches::save)
        .op("save_search", "Save a search of runs.")
        .takes::<SaveSearch>()
        .ok::<KeptSearch>()
        .fails(&[Code::BodyInvalid, Code::RightMissing])
        .delete("/searches/{name}", Read, searches::forget)
        .op("forget_search", "Remove a saved search.")
        .query::<SearchScope>()
        .ok::<ForgottenSearch>()
        .fails(&[Code::RightMissing])
}

/// Who may enter through an identity provider.
fn members() -> Routes {
    Routes::default()
        .get("/group-roles", Admin, members::list_groups)
        .op(
            "list_group_roles",
            "List the groups of the identity provider that have a role, by name.",
        )
        .page::<GroupRole>()
        .post("/group-roles/map", Admin, members::map)
        .op("map_group", "Give the members of a group a role.")
        .takes::<MapGroup>()
        .ok::<GroupRole>()
        .post("/group-roles/unmap", Admin, members::unmap)
        .op("unmap_group", "Take the role of a group away.")
        .takes::<UnmapGroup>()
        .ok::<GroupRole>()
        .fails(&[Code::GroupNotMapped])
        .get("/people", Admin, members::list_people)
        .op(
            "list_people",
            "List the people who signed in through the identity provider, newest first.",
        )
        .query::<PersonFilter>()
        .page::<Person>()
        .post("/people/{person}/revoke", Admin, members::revoke)
        .op(
            "revoke_person",
            "Keep a person out, whatever their groups, and revoke the tokens that they made.",
        )
        .takes::<ChangePerson>()
        .ok::<RevokedPerson>()
        .fails(&[Code::PersonNotFound, Code::ReasonInvalid])
        .post("/people/{person}/restore", Admin, members::restore)
        .op("restore_person", "Let a person in again that was revoked.")
        .takes::<ChangePerson>()
        .ok::<Person>()
        .fails(&[Code::PersonNotFound, Code::ReasonInvalid])
}
