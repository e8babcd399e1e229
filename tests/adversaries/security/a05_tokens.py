"""Tokens: is one shown again in silence, what is left after its maker was revoked, who is an actor, and what does the secret key know?"""
from ground import *

def attack():
    cluster = Cluster()
    server = Server(cluster)
    boss = server.made('boss', '--role', 'admin')
    words = ('token', 'create', 'ci', '--role', 'editor', '--json')
    ci = token_in(server.cli(*words, token=boss).stdout)
    acts = lambda: int(cluster.sql("SELECT count(*) FROM audit WHERE action IN ('token.create', 'token.show')"))
    # A thief who holds the maker's token for a minute reads the list, and asks again in the same words.
    before = acts()
    again = server.cli(*words, token=boss)
    was_shown = ci in again.stdout
    must('a token is not shown again without an act in the audit record', not was_shown or acts() > before, f'shown: {was_shown}, acts: {acts() - before}')
    must('what is shown again is the same token', was_shown or not TOKEN.search(again.stdout))
    cluster.sql("UPDATE tokens SET sealed_until = moment() - interval '1 second' WHERE sealed_until IS NOT NULL")
    late = server.cli(*words, token=boss)
    must('after the window of the repeat it is not shown', late.returncode != 0 and not TOKEN.search(late.stdout + late.stderr), (late.stdout + late.stderr)[:200])
    must('and the refusal says so', 'token-shown' in late.stdout, late.stdout[:120])

    # Revocation reaches what the token made, or names it.
    evil = server.made('evil', '--role', 'admin', token=boss)
    deeper = server.made('deeper', '--role', 'viewer', token=evil)
    rows = {it['name']: it for it in server.http.get('/v1/tokens')[1]['items']}
    must('a token names its maker', rows['ci'].get('made_by') == rows['boss']['id'] and rows['deeper'].get('made_by') == rows['evil']['id'])
    status = lambda token: server.http.get('/v1/whoami', token=token)[0]
    plain = server.json('token', 'revoke', rows['evil']['id'], '--reason', 'stolen')
    must('revoking names what the token made', rows['deeper']['id'] in json.dumps(plain) or 'deeper' in json.dumps(plain), json.dumps(plain)[:400])
    server.json('token', 'revoke', rows['boss']['id'], '--reason', 'stolen', '--with-made')
    closed = until(lambda: {status(it) for it in (boss, ci, evil, deeper)} == {401}, 10)
    must('revoking with what it made leaves none of them', closed, [status(it) for it in (boss, ci, evil, deeper)])
    must('each is an act', int(cluster.sql("SELECT count(*) FROM audit WHERE action = 'token.revoke'")) >= 4)

    # Two tokens of one name are two in the record.
    for word in ('one', 'two'):
        ada = server.made('ada', '--role', 'admin', '--idempotency-key', word)
        server.made('by-' + word, '--right', 'read', token=ada)
    told = cluster.sql("SELECT count(DISTINCT token_id) FROM audit WHERE actor = 'token:ada' AND action = 'token.create'")
    must('two tokens of one name are two in the audit record', told == '2', told)
    must('which says from where', cluster.sql("SELECT count(*) FROM audit WHERE actor = 'token:ada' AND address IS NULL") == '0')

    # The secret key, the maker's identity (in the list) and the idempotency key once made every token.
    with open(server.key) as file: key = bytes.fromhex(file.read().strip())
    maker = bytes.fromhex(cluster.sql("SELECT replace(id::text, '-', '') FROM tokens ORDER BY created_at LIMIT 1"))
    real = server.made('deploy', '--role', 'admin', '--idempotency-key', 'deploy-2026')
    part = lambda tag: hmac.new(key, tag + maker + b'deploy-2026', hashlib.sha256).digest()
    computed = f"semel_{part(b'semel.token.id.1')[:16].hex()}_{part(b'semel.token.secret.1').hex()}"
    must('the secret key does not make a token', computed != real and status(computed) == 401)

play(attack)
