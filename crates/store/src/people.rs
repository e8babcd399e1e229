//! People who sign in through an identity provider: their rows of `tokens`, one in each namespace where a
//! group of theirs has a role, and their sign-ins.
//!
//! ```text
//! the provider names person and groups ══▶ rows and a sign-in, for as long as the groups count
//!        ▲                                            │ the provider is asked again
//!        └────────────────────────────────────────────┘
//! ```
//!
//! A person is issuer and subject, never a name or an address. Rows and sign-in are one commit, with
//! the roles of the groups locked, so that a role that is taken away meanwhile ends what it gave.

pub mod views;

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use semel_model::{Right, Rights, Role, Span, TokenId};
use sha2::{Digest, Sha256};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::audit::{self, AuditEntry};
use crate::cell::{HomeCell, ReadError};
use crate::group_roles::{self, MappedGroup};

/// A row that an operator revoked is not written again.
const PUT: &str = "
    INSERT INTO tokens (id, namespace_id, name, digest, expires_at, groups, rights, role, kind, issuer,
                        subject, last_used_at, derived)
    VALUES ($1, $2, $3, $4, moment() + make_interval(secs => $5), $6, $7, $8, 'person', $9, $10, moment(),
            false)
        ON CONFLICT (issuer, subject, namespace_id) WHERE kind = 'person' DO UPDATE
       SET name = EXCLUDED.name, expires_at = EXCLUDED.expires_at, groups = EXCLUDED.groups,
           rights = EXCLUDED.rights, role = EXCLUDED.role, last_used_at = EXCLUDED.last_used_at
     WHERE tokens.revoked_at IS NULL
 RETURNING id";

/// A sign-in moves the end of the tokens that the person made, as far as the person still has their
/// rights; a token that has ended stays so. Once an hour for each token. One that somebody else is
/// changing just now is left to the next sign-in, so that nobody waits for the other.
const EXTEND: &str = "
    UPDATE tokens
       SET expires_at = least(ends_at, moment() + make_interval(secs => $2))
     WHERE id IN (SELECT id
                    FROM tokens
                   WHERE person = $1 AND revoked_at IS NULL AND expires_at > moment()
                     AND rights <@ $3::text[] AND expires_at < ends_at
                     AND expires_at < moment() + make_interval(secs => $2) - interval '1 hour'
                     FOR NO KEY UPDATE SKIP LOCKED)";

/// Where no group of the person has a role any longer.
const LAPSE_OTHERS: &str = "
    UPDATE tokens SET expires_at = moment()
     WHERE issuer = $1 AND subject = $2 AND kind = 'person' AND expires_at > moment()
       AND namespace_id <> ALL($3)";

/// Where the rights of a person changed, the new sign-in takes the place of the browser's earlier one
/// ($4) and ends when that would have: a change of rights gives nobody more time.
const SIGN_IN: &str = "
    INSERT INTO sign_ins (digest, token_id, expires_at, provider_session, created_at)
    VALUES ($1, $2, moment() + make_interval(secs => $3), $8,
            coalesce((SELECT s.created_at
                        FROM sign_ins s
                        JOIN tokens t ON t.id = s.token_id
                       WHERE s.digest = $4 AND s.expires_at > moment()
                         AND s.created_at + make_interval(secs => $5)
                             > moment() + make_interval(secs => $3)
                         AND t.issuer = $6 AND t.subject = $7 AND t.kind = 'person'), moment()))";

/// However often it is renewed, a sign-in ends: one that would last too long is not renewed.
const RENEW: &str = "
    UPDATE sign_ins
       SET seen_at = moment(), token_id = $2, expires_at = moment() + make_interval(secs => $3),
           provider_session = coalesce($7, provider_session)
     WHERE digest = $1 AND expires_at > moment()
       AND created_at + make_interval(secs => $4) > moment() + make_interval(secs => $3)
       AND token_id IN (SELECT id FROM tokens WHERE issuer = $5 AND subject = $6 AND kind = 'person')";

/// A logout token is used up by the statement that acts on it.
const USE_LOGOUT: &str = "
    INSERT INTO logout_tokens (digest, expires_at)
    VALUES ($1, moment() + make_interval(secs => $2))
        ON CONFLICT (digest) DO NOTHING";

const END_ALL: &str = "
    DELETE FROM sign_ins s
     USING tokens t
     WHERE t.id = s.token_id AND t.issuer = $1 AND t.subject = $2 AND t.kind = 'person'
 RETURNING s.digest";

const END_SESSION: &str = "
    DELETE FROM sign_ins WHERE provider_session = $1 RETURNING digest";

/// A sign-in whose session is not known may be the one that is meant.
const END_SESSION_OF: &str = "
    DELETE FROM sign_ins s
     USING tokens t
     WHERE t.id = s.token_id AND t.issuer = $1 AND t.subject = $2 AND t.kind = 'person'
       AND coalesce(s.provider_session, $3) = $3
 RETURNING s.digest";

pub(crate) const STATEMENTS: &[&str] = &[
    PUT,
    EXTEND,
    LAPSE_OTHERS,
    SIGN_IN,
    RENEW,
    USE_LOGOUT,
    END_ALL,
    END_SESSION,
    END_SESSION_OF,
];

/// A person, as an identity provider names them now.
#[derive(Clone, Debug)]
pub struct NamedPerson<'a> {
    /// The provider.
    pub issuer: &'a str,
    /// What it knows the person by.
    pub subject: &'a str,
    /// What to call them.
    pub name: &'a str,
    /// Their groups.
    pub groups: &'a [String],
    /// For how long that counts.
    pub lifetime: Span,
}

/// A sign-in to be made or renewed.
#[derive(Clone, Debug)]
pub struct PersonSignIn<'a> {
    /// The namespace to enter, where the person may; otherwise the first one by name.
    pub namespace: &'a str,
    /// The digest of the browser's new cookie.
    pub digest: &'a [u8],
    /// The digest of the cookie that the browser has, whose sign-in is renewed where it is the same
    /// person's and nothing of their rights changes.
    pub earlier: Option<(&'a [u8], Rights)>,
    /// How long a sign-in lasts, however often it is renewed.
    pub longest: Span,
    /// A digest of what the provider knows its session with the browser by, where it says so.
    pub provider_session: Option<&'a [u8]>,
    /// How long tokens that the person made work after this sign-in.
    pub token_lifetime: Span,
    /// Random bytes, from which rows get an identity, and a digest of no secret that anybody knows.
    pub seed: [u8; 32],
}

/// What a person's sign-in came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonEntry {
    /// A new sign-in opens this namespace.
    Made {
        /// The namespace.
        namespace: String,
    },
    /// The sign-in that the browser has continues.
    Renewed,
    /// No group of the person has a role.
    NoGroup,
    /// An operator revoked the person, wherever their groups have a role.
    Revoked,
}

/// Which sign-ins a provider ends. A person is issuer and subject, a session a digest.
#[derive(Clone, Copy, Debug)]
pub enum EndedSignIns<'a> {
    /// All of a person.
    Person((&'a str, &'a str)),
    /// Those of one session, whosever it is.
    Session(&'a [u8]),
    /// Those of one session of a person.
    SessionOf((&'a str, &'a str), &'a [u8]),
}

/// What a person has in one namespace.
struct Membership {
    namespace_id: i32,
    namespace: String,
    role: Option<Role>,
    rights: Rights,
    /// The groups that have a role here. Others count for nothing: many providers let anybody make one.
    groups: Vec<String>,
}

/// Lets a person in as far as their groups reach, and forgets where they no longer do.
pub async fn sign_in(
    cell: HomeCell<'_>,
    person: &NamedPerson<'_>,
    wish: &PersonSignIn<'_>,
    actor: &str,
) -> Result<PersonEntry, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    let memberships = gather(group_roles::of_groups(&tx, person.groups).await?);
    let everywhere: Vec<i32> = memberships.iter().map(|it| it.namespace_id).collect();
    let values: [&(dyn ToSql + Sync); 3] = [&person.issuer, &person.subject, &everywhere];
    tx.execute(LAPSE_OTHERS, &values).await?;
    let mut entered: Vec<(TokenId, &Membership)> = Vec::new();
    for membership in &memberships {
        if let Some(id) = put(&tx, person, membership, &wish.seed).await? {
            let (secs, rights) = (wish.token_lifetime.as_secs_f64(), membership.rights.words());
            tx.execute(EXTEND, &[id.as_uuid(), &secs, &rights]).await?;
            entered.push((id, membership));
        }
    }
    let asked = entered
        .iter()
        .find(|(_, it)| it.namespace == wish.namespace);
    let entry = match asked.or(entered.first()) {
        None if memberships.is_empty() => PersonEntry::NoGroup,
        None => PersonEntry::Revoked,
        Some((id, membership)) => open(&tx, person, wish, (*id, membership), actor).await?,
    };
    tx.commit().await?;
    Ok(entry)
}

/// Continues the browser's sign-in, or makes one.
async fn open(
    tx: &Transaction<'_>,
    person: &NamedPerson<'_>,
    wish: &PersonSignIn<'_>,
    (id, membership): (TokenId, &Membership),
    actor: &str,
) -> Result<PersonEntry, ReadError> {
    let (secs, longest) = (person.lifetime.as_secs_f64(), wish.longest.as_secs_f64());
    if let Some((earlier, rights)) = wish.earlier
        && rights == membership.rights
    {
        let values: [&(dyn ToSql + Sync); 7] = [
            &earlier,
            id.as_uuid(),
            &secs,
            &longest,
            &person.issuer,
            &person.subject,
            &wish.provider_session,
        ];
        if tx.execute(RENEW, &values).await? > 0 {
            return Ok(PersonEntry::Renewed);
        }
    }
    let earlier = wish.earlier.map_or(&[][..], |(earlier, _)| earlier);
    let values: [&(dyn ToSql + Sync); 8] = [
        &wish.digest,
        id.as_uuid(),
        &secs,
        &earlier,
        &longest,
        &person.issuer,
        &person.subject,
        &wish.provider_session,
    ];
    tx.execute(SIGN_IN, &values).await?;
    let subject = id.to_string();
    let act = AuditEntry::new(membership.namespace_id, actor, "console.sign-in", &subject);
    audit::append(tx, &act.by_token(id)).await?;
    Ok(PersonEntry::Made {
        namespace: membership.namespace.clone(),
    })
}

/// Several groups of a person have their roles and rights together.
fn gather(mapped: Vec<MappedGroup>) -> Vec<Membership> {
    let mut by_name: BTreeMap<String, Vec<MappedGroup>> = BTreeMap::new();
    for group in mapped {
        let of_namespace = by_name.entry(group.namespace.clone());
        of_namespace.or_default().push(group);
    }
    let memberships = by_name.into_iter().filter_map(|(namespace, groups)| {
        let first = groups.first()?;
        let is_one = groups.iter().all(|group| group.role == first.role);
        let rights = groups.iter().flat_map(|group| {
            let by_role = group.role.rights().iter();
            by_role.chain(group.rights.iter()).collect::<Vec<Right>>()
        });
        Some(Membership {
            namespace_id: first.namespace_id,
            namespace,
            rights: rights.collect(),
            role: is_one.then_some(first.role),
            groups: groups.iter().map(|group| group.group.clone()).collect(),
        })
    });
    memberships.collect()
}

async fn put(
    tx: &Transaction<'_>,
    person: &NamedPerson<'_>,
    membership: &Membership,
    seed: &[u8; 32],
) -> Result<Option<TokenId>, ReadError> {
    let part = |tag: &[u8]| -> [u8; 32] {
        let digest = Sha256::new_with_prefix(tag).chain_update(seed);
        let digest = digest.chain_update(membership.namespace_id.to_be_bytes());
        digest.finalize().into()
    };
    let id = Uuid::from_slice(&part(b"semel.person.id.1")[..16]).unwrap_or_default();
    let digest = part(b"semel.person.digest.1");
    let secs = person.lifetime.as_secs_f64();
    let rights = membership.rights.words();
    let role = membership.role.map(Role::as_str);
    let values: [&(dyn ToSql + Sync); 10] = [
        &id,
        &membership.namespace_id,
        &person.name,
        &&digest[..],
        &secs,
        &membership.groups,
        &rights,
        &role,
        &person.issuer,
        &person.subject,
    ];
    let row = tx.query_opt(PUT, &values).await?;
    Ok(row.map(|row| TokenId::from_uuid(row.get(0))))
}

/// Ends sign-ins, as a provider asks by a logout token. None where the token was used before; otherwise
/// the digests of the cookies that were signed in.
pub async fn log_out(
    cell: HomeCell<'_>,
    which: EndedSignIns<'_>,
    token: &[u8],
    remembered: Span,
) -> Result<Option<Vec<Vec<u8>>>, ReadError> {
    let mut client = cell.reader().await?;
    let tx = client.transaction().await?;
    if tx
        .execute(USE_LOGOUT, &[&token, &remembered.as_secs_f64()])
        .await?
        == 0
    {
        return Ok(None);
    }
    let ended = match which {
        EndedSignIns::Person((issuer, subject)) => tx.query(END_ALL, &[&issuer, &subject]).await?,
        EndedSignIns::Session(session) => tx.query(END_SESSION, &[&session]).await?,
        EndedSignIns::SessionOf((issuer, subject), session) => {
            tx.query(END_SESSION_OF, &[&issuer, &subject, &session])
                .await?
        }
    };
    tx.commit().await?;
    Ok(Some(ended.iter().map(|row| row.get(0)).collect()))
}
