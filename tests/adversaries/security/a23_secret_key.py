"""The installation's secret key is changed, as after a leak: everything goes on beside the new one, and nothing of the old one is left once it is gone."""
from ground import *

def attack():
    help_text = subprocess.run([BIN, 'serve', '--help'], capture_output=True, text=True).stdout
    about = re.sub(r'\s+', ' ', help_text.split('--secret-key-file')[1].split('--master-keys-file')[0])
    must('the help says that there may be several keys', 'first' in about or 'former' in about or 'keys' in about, about)
    cluster, echo = Cluster(), Destination()
    old, new = os.urandom(32).hex(), os.urandom(32).hex()
    key = put(os.path.join(WORK, 'secret.key'), old)
    server = Server(cluster, LOOPBACK, key=key)
    server.secret('api_key', 'a-secret-value-123', '--host', '127.0.0.1')
    server.connection('api', {'http': {'base_url': echo.url, 'auth': {'bearer': {'secret': 'api_key'}}}})
    server.flow('call', 'flow: call\ntrigger:\n  api: { key: input.id }\nretry: { attempts: 1 }\nsteps:\n  - id: a\n    http: { connection: api, get: / }\n')
    server.flow('ask', 'flow: ask\ntrigger:\n  api: { key: input.id }\nsteps:\n  - id: url\n    function: waits.ask.url\n  - id: ask\n    approval: { from: [boss], login: false, show: "${{ input }}", within: 1h }\n')
    token = server.made('ci', '--role', 'admin')
    def link(name):
        run = server.http.post('/v1/flows/ask/runs', {'input': {'id': name}})[1]['run']
        read = lambda: re.search(r'/approvals/[A-Za-z0-9_-]{80,}', cluster.sql(f"SELECT coalesce(string_agg(events::text, ''), '') FROM journal WHERE run_id = '{run[4:]}'::uuid"))
        return until(read, 20).group(0)
    def calls(name):
        run = server.run('call', {'id': name})
        return run.get('state') == 'succeeded' and echo.seen[-1][2].get('authorization') == 'Bearer a-secret-value-123'
    opens = lambda path: server.http.get(path, token=False)[0]
    def restarted(text):
        server.stop()
        put(key, text)
        server.start()
    first = link('first')
    must('with the old key alone everything works', opens(first) == 200 and calls('one'))
    restarted(f'{old}\n{new}\n')
    must('with the new one behind it, too', opens(first) == 200 and calls('two'))
    restarted(f'{new}\n{old}\n')
    second = link('second')
    must('with the new one in front, too: tokens, secrets, addresses of both', server.http.get('/v1/whoami', token=token)[0] == 200 and calls('three') and opens(first) == 200 and opens(second) == 200)
    ran = server.cli('secret', 'rotate')
    must('the vault is rotated', ran.returncode == 0, (ran.stdout + ran.stderr)[:160])
    vault = server.doctor().get('vault') or {}
    must('and needs no former key', vault.get('state') == 'ok', vault)
    restarted(new)
    must('with the new key alone tokens and secrets work', server.http.get('/v1/whoami', token=token)[0] == 200 and calls('four'))
    must('addresses of the old one do not open, those of the new one do', opens(first) in (404, 429) and opens(second) == 200, (opens(first), opens(second)))
    must('neither key is in a dump of the database', old.encode() not in cluster.dump() and new.encode() not in cluster.dump())

play(attack)
