"""A flow's `db` connection leads to the engine's own database: by its Unix socket, by a forwarded port, and by a socket that the operator allows.

Attacker: a token with connect, write, promote and start in a namespace of its own. Gain: rows of every namespace, and a
token of its own making with all rights."""
from ground import *

FLOW = '''flow: NAME
trigger:
  api: { key: input.id }
steps:
  - id: read
    db:
      connection: NAME
      query: SELECT n.name AS namespace, t.name, encode(t.digest, 'hex') AS digest FROM tokens t JOIN namespaces n ON n.id = t.namespace_id
  - id: plant
    db:
      connection: NAME
      execute: INSERT INTO tokens (id, namespace_id, name, digest, expires_at, rights) SELECT $1::text::uuid, id, 'planted', decode($2, 'hex'), now() + interval '1 year', ARRAY['read','admin'] FROM namespaces WHERE name = 'default'
      values: ["${{ input.token }}", "${{ input.digest }}"]
result: steps.read.result.records
'''

def attack():
    own, other = Cluster('own'), Cluster('other', tcp=True)
    def forward(connection):
        database = socket.socket(socket.AF_UNIX)
        database.connect(f'{own.dir}/.s.PGSQL.{own.port}')
        def pump(a, b):
            try:
                while data := a.recv(65536): b.sendall(data)
            except OSError: pass
            b.close()
        threading.Thread(target=pump, args=(database, connection), daemon=True).start()
        pump(connection, database)
    forwarded = listener(forward)
    to = lambda host, port: {'postgres': {'host': host, 'port': port, 'database': 'semel', 'user': 'semel', 'tls': 'off'}}
    server = Server(own, LOOPBACK)
    tenant = server.namespace('tenant')
    rights = [word for right in ('read', 'payload', 'write', 'promote', 'connect', 'start') for word in ('--right', right)]
    mallory = server.made('mallory', *rights, token=tenant)

    def steal(name, host, port):
        answers = [server.http.put(f'/v1/connections/{name}', {'connection': {'to': to(host, port)}}, token=mallory)]
        answers += [server.http.post(f'/v1/connections/{name}/{what}', token=mallory) for what in ('test', 'prepare')]
        answers.append(server.try_flow(name, FLOW.replace('NAME', name), mallory))
        token, secret = os.urandom(16), os.urandom(32)
        answers.append(server.run(name, {'id': 'x', 'token': token.hex(), 'digest': hashlib.sha256(secret).hexdigest()}, token=mallory))
        text = json.dumps(answers)
        digests = own.sql("SELECT encode(digest, 'hex') FROM tokens").split()
        must(f'{name}: it is refused, and says so', 'address-refused' in text, text[-300:])
        must(f'{name}: no digest of a token is read', not any(digest in text for digest in digests))
        planted = server.http.get('/v1/whoami', token=f'semel_{token.hex()}_{secret.hex()}')
        must(f'{name}: a planted token opens nothing', planted[0] == 401, planted[0])

    steal('socket', own.dir, own.port)
    steal('forwarded', '127.0.0.1', forwarded)
    # The way itself is open: another server's database is reached.
    server.connection('other', to('127.0.0.1', other.port), mallory)
    server.flow('control', 'flow: control\ntrigger:\n  api: { key: input.id }\nsteps:\n  - id: a\n    db: { connection: other, query: "SELECT 1 AS one" }\n', mallory)
    run = server.run('control', {'id': 'x'}, token=mallory)
    must('another database in the opened range is reached', run.get('state') == 'succeeded', run.get('fault'))
    server.stop()
    server = Server(own, {**LOOPBACK, 'SEMEL_ALLOW_SOCKETS': own.dir}, name='allowing')
    steal('allowed', own.dir, own.port)

play(attack)
