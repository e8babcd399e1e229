"""The audit record, rewritten by the role that Semel itself uses.

First as the Debian package leaves it: the role owns the tables, which the documentation says, so that what must hold is that the
operator is told and that an export kept elsewhere is not continued with another chain. Then with packaging/audit-owner.sql:
nothing can be rewritten at all, and the server goes on."""
from ground import *

READ = """SELECT coalesce(json_agg(t), '[]') FROM (
    SELECT c.namespace_id, c.position, a.id, (extract(epoch FROM a.at) * 1000000)::bigint AS us, a.actor, a.action, a.subject, a.reason, a.run_id,
           a.token_id, a.address, encode(a.old_digest, 'hex') AS old, encode(a.new_digest, 'hex') AS new
      FROM audit_chain c JOIN audit a ON a.id = c.audit_id ORDER BY 1, 2) t"""

def sealed(act, before):
    """The digest of an act, as Semel computes it."""
    part = lambda it: b'\0' if it is None else b'\1' + len(it).to_bytes(8, 'big') + it
    text = lambda it: None if it is None else it.encode()
    uuid = lambda it: None if it is None else bytes.fromhex(it.replace('-', ''))
    data = lambda it: None if it is None else bytes.fromhex(it)
    traces = [uuid(act['token_id']), text(act['address']), data(act['old']), data(act['new'])]
    has_traces = any(it is not None for it in traces)
    every = b'semel.audit.2' if has_traces else b'semel.audit.1'
    every += before + act['position'].to_bytes(8, 'big') + act['id'].to_bytes(8, 'big') + act['us'].to_bytes(8, 'big', signed=True)
    every += b''.join(part(text(act[it])) for it in ('actor', 'action', 'subject', 'reason')) + part(uuid(act['run_id']))
    if has_traces: every += b''.join(map(part, traces))
    return hashlib.sha256(every).digest()

def attack():
    cluster = Cluster()
    server = Server(cluster)
    server.made('evil', '--role', 'admin')
    server.made('good', '--role', 'viewer')
    unsealed = 'SELECT count(*) FROM audit WHERE id NOT IN (SELECT audit_id FROM audit_chain)'
    seal = lambda: until(lambda: cluster.sql(unsealed) == '0', 40)
    must('acts are sealed', seal())
    kept, new = os.path.join(WORK, 'kept.jsonl'), os.path.join(WORK, 'new.jsonl')
    must('an export verifies', server.cli('audit', 'export', kept).returncode == 0 and server.cli('audit', 'verify', kept).returncode == 0)
    must('it is an act of the record itself, once', cluster.sql("SELECT count(*) FROM audit WHERE action = 'audit.export'") == '1' and seal())
    must('a plain change is refused', cluster.refused("UPDATE audit SET subject = 'x'"))

    # What somebody with the credential of Semel's role does.
    acts, ends_of, changes, forged = json.loads(cluster.sql(READ)), {}, [], 0
    recomputed = True
    for act in acts:
        place = f"namespace_id = {act['namespace_id']} AND position = {act['position']}"
        if 'evil' in act['subject']:
            act['subject'], act['actor'], forged = act['subject'].replace('evil', 'nice'), 'token:ada', forged + 1
        elif not forged:
            # Until here nothing was changed: the digests computed here are those of the server.
            digest = sealed(act, ends_of.get(act['namespace_id'], bytes(32))).hex()
            recomputed = recomputed and cluster.sql(f"SELECT encode(digest, 'hex') FROM audit_chain WHERE {place}") == digest
        ends_of[act['namespace_id']] = digest = sealed(act, ends_of.get(act['namespace_id'], bytes(32)))
        quoted = {it: act[it].replace("'", "''") for it in ('subject', 'actor')}
        changes.append(f"UPDATE audit SET subject = '{quoted['subject']}', actor = '{quoted['actor']}' WHERE id = {act['id']}")
        changes.append(f"UPDATE audit_chain SET digest = '\\x{digest.hex()}' WHERE {place}")
    must('the attacker computes digests as Semel does, and has something to forge', recomputed and forged, f'{forged} of {len(acts)}')
    doctor = server.doctor().get('audit') or {}
    must('the operator is told that the role could do this', doctor.get('state') == 'warn', doctor)
    off, on = 'DISABLE TRIGGER USER', 'ENABLE ALWAYS TRIGGER'
    cluster.sql(f'ALTER TABLE audit {off}', f'ALTER TABLE audit_chain {off}', *changes)
    ran = server.cli('audit', 'export', new), server.cli('audit', 'verify', new)
    say('the forged record is exported and verified anew, as documented:', [it.returncode for it in ran])
    more = server.cli('audit', 'export', kept)
    must('an export that was kept is not continued with the forged record', more.returncode != 0, (more.returncode, (more.stdout + more.stderr)[:200]))
    must('and still verifies by itself', server.cli('audit', 'verify', kept).returncode == 0)
    cluster.sql(f'ALTER TABLE audit {on} audit_append_only', f'ALTER TABLE audit_chain {on} audit_chain_append_only')

    # The same with a role of its own for the record.
    cluster.sql('CREATE ROLE semel_audit NOLOGIN', user='postgres', db='postgres')
    script = ROOT / 'packaging' / 'audit-owner.sql'
    ran = cluster.psql('-v', 'owner=semel_audit', '-v', 'serving=semel', '-f', str(script), user='postgres')
    must('the script gives the record away', ran.returncode == 0, ran.stderr[:200])
    mark = lambda: cluster.sql("SELECT md5(string_agg(t::text, ',' ORDER BY id)) FROM audit t", user='postgres')
    before = mark()
    for statement in (f'ALTER TABLE audit {off}', f'ALTER TABLE audit_chain {off}', 'ALTER TABLE audit OWNER TO semel', "UPDATE audit SET subject = 'x'", "UPDATE audit_chain SET digest = '\\x00'",
                      'DELETE FROM audit', 'DELETE FROM audit_chain', 'TRUNCATE audit', 'DROP TABLE audit CASCADE', 'ALTER TABLE audit RENAME TO old_audit',
                      'DROP TRIGGER audit_append_only ON audit', "INSERT INTO audit_removed SELECT * FROM audit_removed", 'SET ROLE semel_audit', 'ALTER SCHEMA public RENAME TO other',
                      'CREATE OR REPLACE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$', "SET session_replication_role = 'replica'"):
        refusal = cluster.refused(statement)
        must(f'refused: {statement[:60]}', refusal, refusal[:80])
    must('nothing was changed', mark() == before)
    removal = cluster.refused("SELECT remove_audit_stretch(1, 1, 1000000, '\\x00', '\\x00', now(), ARRAY[1]::bigint[], now())")
    must('the function of retention removes nothing that is young', mark() == before, removal[:120])
    doctor = server.doctor().get('audit') or {}
    must('doctor says that it is guarded', doctor.get('state') == 'ok', doctor)
    count = cluster.sql('SELECT count(*) FROM audit')
    server.made('later', '--right', 'read')
    must('acts are still recorded and sealed', int(cluster.sql('SELECT count(*) FROM audit')) == int(count) + 1 and seal())

play(attack)
