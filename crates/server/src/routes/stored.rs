//! Routes about keys, entries, resources, waits, connections and secrets.

use semel_api::Code;
use semel_api::schema::Span;
use semel_api::types::{
    Called, CompleteWait, Connection, DeletedConnection, DeletedSecret, DropKey, Dropped, Entry,
    EntryFilter, FoundKey, KeptConnection, KeyAudit, KeyFilter, KeyInfo, PutConnection, Resource,
    ResourceFilter, Rotated, Secret, SecretSet, SetSecret, Tried, UploadResource, Wait, WaitFilter,
};
use semel_model::Right::{Connect, Operate, Payload, Read, Secret as MaySetSecret, Start};

use crate::access::Routes;
use crate::operation::Content;
use crate::{connections, entries, find, keys, resources, secrets, waits};

pub(super) fn routes() -> Routes {
    keys_and_entries()
        .merge(resources_and_waits())
        .merge(destinations())
        .merge(vault())
}

fn keys_and_entries() -> Routes {
    Routes::default()
        .get("/find", Read, find::find)
        .op("find_key", "Show everything that is known under one key.")
        .needs::<String>("key", "The key, any text.")
        .ok::<FoundKey>()
        .fails(&[Code::KeyInvalid])
        .get("/kv", Read, entries::list)
        .op(
            "list_entries",
            "List entries of `kv`, without their values.",
        )
        .query::<EntryFilter>()
        .page::<Entry>()
        .get("/kv/entry", Payload, entries::show)
        .op("get_entry", "Show an entry of `kv`.")
        .needs::<String>("entry", "Its name.")
        .ok::<Entry>()
        .fails(&[Code::EntryNotFound])
        .get("/flows/{flow}/keys", Read, keys::list)
        .op(
            "list_keys",
            "List the keys of a flow, those of the newest runs first.",
        )
        .query::<KeyFilter>()
        .page::<KeyInfo>()
        .fails(&[Code::FlowNotFound])
        .get("/keys/{flow}", Read, keys::show)
        .op("get_key", "Show what is known of a key.")
        .needs::<String>("key", "The key, any text.")
        .ok::<KeyInfo>()
        .fails(&[Code::FlowNotFound, Code::KeyNotFound, Code::KeyInvalid])
        .get("/keys/{flow}/audit", Payload, keys::audit)
        .op("audit_keys", "What real traffic says about a flow's keys.")
        .param::<Span>(
            "window",
            "How long a repeat is still a redelivery; three days by default.",
        )
        .ok::<KeyAudit>()
        .fails(&[Code::FlowNotFound, Code::TooManyRequests])
        .post("/keys/{flow}/drop", Operate, keys::drop_key)
        .op(
            "drop_key",
            "Free a key, so that the next delivery makes a new run.",
        )
        .keyed()
        .needs::<String>("key", "The key, any text.")
        .takes::<DropKey>()
        .ok::<Dropped>()
        .fails(&[
            Code::FlowNotFound,
            Code::KeyNotFound,
            Code::RunNotEnded,
            Code::ReasonInvalid,
        ])
}

fn resources_and_waits() -> Routes {
    Routes::default()
        .get("/resources", Read, resources::list)
        .op("list_resources", "List resources, newest first.")
        .query::<ResourceFilter>()
        .page::<Resource>()
        .get("/resources/{digest}", Read, resources::show)
        .op("get_resource", "Show what is known of a resource.")
        .ok::<Resource>()
        .fails(&[Code::ResourceNotFound])
        .put("/resources/{digest}", Start, resources::upload)
        .op(
            "upload_resource",
            "Upload a resource, by the digest of its bytes.",
        )
        .query::<UploadResource>()
        .takes_content(Content::Other("application/octet-stream"))
        .ok::<Resource>()
        .fails(&[Code::ResourceNotFound, Code::ResourcesUnavailable])
        .get("/resources/{digest}/content", Payload, resources::download)
        .op("open_resource", "Read the bytes of a resource.")
        .answers_content(200, Content::Other("*/*"))
        .fails(&[Code::ResourceNotFound, Code::ResourcesUnavailable])
        .get("/waits", Read, waits::list)
        .op("list_waits", "List open waits, or all.")
        .query::<WaitFilter>()
        .page::<Wait>()
        .get("/waits/{wait}", Read, waits::show)
        .op("get_wait", "Show a wait.")
        .ok::<Wait>()
        .fails(&[Code::WaitNotFound])
        .post("/waits/{wait}/complete", Operate, waits::complete)
        .op("complete_wait", "Complete a wait in place of its callback.")
        .keyed()
        .takes::<CompleteWait>()
        .ok::<Called>()
        .fails(&[Code::WaitNotFound])
}

fn destinations() -> Routes {
    Routes::default()
        .get("/connections", Read, connections::list)
        .op("list_connections", "List the connections of the namespace.")
        .page::<Connection>()
        .get("/connections/{name}", Read, connections::show)
        .op("get_connection", "Show a connection.")
        .ok::<Connection>()
        .fails(&[Code::ConnectionNotFound])
        .put("/connections/{name}", Connect, connections::put)
        .op("put_connection", "Store a connection.")
        .keyed()
        .takes::<PutConnection>()
        .created::<KeptConnection>()
        .ok::<KeptConnection>()
        .fails(&[
            Code::ConnectionInvalid,
            Code::ConnectionDiffers,
            Code::SecretBoundElsewhere,
        ])
        .delete("/connections/{name}", Connect, connections::delete)
        .op(
            "delete_connection",
            "Delete a connection that nothing uses.",
        )
        .keyed()
        .ok::<DeletedConnection>()
        .fails(&[Code::ConnectionNotFound, Code::ConnectionInUse])
        .post("/connections/{name}/test", Connect, connections::test)
        .op(
            "test_connection",
            "Test a connection, without an effect at its destination.",
        )
        .ok::<Tried>()
        .fails(&[Code::ConnectionNotFound, Code::ConnectionInvalid])
        .post("/connections/{name}/prepare", Connect, connections::prepare)
        .op(
            "prepare_connection",
            "Make at the destination what its guard needs.",
        )
        .ok::<Tried>()
        .fails(&[Code::ConnectionNotFound, Code::ConnectionInvalid])
}

fn vault() -> Routes {
    Routes::default()
        .get("/secrets", Read, secrets::list)
        .op("list_secrets", "List the names of secrets.")
        .page::<Secret>()
        .post("/secrets/rotate", MaySetSecret, secrets::rotate)
        .op(
            "rotate_secrets",
            "Encrypt the secrets of the namespace with a new key.",
        )
        .keyed()
        .ok::<Rotated>()
        .fails(&[Code::VaultLocked])
        .put("/secrets/{name}", MaySetSecret, secrets::set)
        .op("set_secret", "Set a secret. It can never be read.")
        .keyed()
        .takes::<SetSecret>()
        .created::<SecretSet>()
        .ok::<SecretSet>()
        .fails(&[Code::SecretInvalid, Code::VaultLocked])
        .delete("/secrets/{name}", MaySetSecret, secrets::delete)
        .op("delete_secret", "Delete a secret.")
        .keyed()
        .ok::<DeletedSecret>()
        .fails(&[Code::SecretNotFound])
}
