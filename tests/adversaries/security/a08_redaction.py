"""Secrets that come back: a destination echoes the Authorization header, in answers of several sizes and shapes.

An author with `write` and no right `secret` tries to read a secret that is bound to a host. A destination that reverses,
splits or zips what it was sent shows it: no search can find that, so it is said and does not count."""
from ground import *
import gzip

SECRET = 'sk_live_' + 'Zq7wE3rT9yUiOpAsDfGh' * 2
PLAIN = {'content-type': 'text/plain'}

def echo(method, path, headers, body):
    sent = headers.get('authorization', '')
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(path).query))
    match asked.get('mode'):
        case 'big': return 200, PLAIN, sent.encode() + b'\n' + b'x' * (2 << 20)
        # Across the places where a stream may be read in pieces.
        case 'late': return 200, PLAIN, b''.join(b'x' * (65536 - 20) + sent.encode() for _ in range(40))
        case 'refuse': return 400, PLAIN, b'y' * int(asked['pad']) + sent.encode()
        case 'reverse': return 200, PLAIN, sent.encode()[::-1]
        case 'zip': return 200, PLAIN, base64.b64encode(gzip.compress(sent.encode()))
        case 'split': return 200, {'content-type': 'application/json'}, json.dumps(list(sent[7:])).encode()
    shapes = {'you': sent, sent: 1, 'b64': base64.b64encode(('pad' + sent).encode()).decode()}
    return 200, {'content-type': 'application/json', 'x-echo': sent}, json.dumps(shapes).encode()

def attack():
    cluster, destination = Cluster(), Destination(echo)
    server = Server(cluster, {**LOOPBACK, 'SEMEL_LOG': 'debug', 'RUST_LOG': 'debug'})
    server.secret('api_key', SECRET, '--host', '127.0.0.1')
    server.connection('api', {'http': {'base_url': destination.url, 'auth': {'bearer': {'secret': 'api_key'}}}})
    rights = ('read', 'payload', 'write', 'promote', 'start', 'override')
    author = server.made('author', *[word for right in rights for word in ('--right', right)])
    server.flow('peek', '''flow: peek
trigger:
  api: { key: input.id }
steps:
  - id: a
    http: { connection: api, get: "/?mode=${{ input.mode }}&pad=${{ input.pad }}" }
result: steps.a.result
''', author)
    def peek(mode, pad='0'):
        run = server.run('peek', {'id': mode + pad, 'mode': mode, 'pad': pad}, token=author)
        return json.dumps(run) + json.dumps(server.run_of(run['run'], author)), run
    def beginning(text):
        return next((n for n in range(len(SECRET), 3, -1) if SECRET[:n] in text), 0)

    text, run = peek('plain')
    must('the destination was sent the secret', any(SECRET in headers.get('authorization', '') for _, _, headers, _ in destination.seen))
    in_base64 = base64.b64encode(SECRET.encode()).decode()
    must('an echo does not show it', run['state'] == 'succeeded' and not beginning(text) and in_base64[4:40] not in text, run.get('fault'))
    for mode in ('big', 'late'):
        text, run = peek(mode)
        references = set(re.findall(r'(?:res://)?(sha256:[0-9a-f]{64})', text)) or {it['resource'].replace('res://', '') for it in server.http.get('/v1/resources')[1]['items']}
        must(f'{mode}: a large answer is kept by reference', references and run['state'] == 'succeeded', (run['state'], len(references)))
        for one in references:
            status, _, data = server.http.get(f'/v1/resources/{one}/content', token=author, raw=True)
            must(f'{mode}: what the author downloads has no secret', status == 200 and SECRET.encode() not in data and SECRET[:12].encode() not in data, (status, len(data)))
        must(f'{mode}: the run shows none', not beginning(text))
    found = subprocess.run(['grep', '-rlaF', SECRET[:24], server.dir + '/resources'], capture_output=True, text=True).stdout.split()
    must('nor is it in the store', not found, found)
    best = max((beginning(peek('refuse', str(pad))[0]), pad) for pad in range(220, 301, 4))
    must('a refusal that is cut shows no beginning of it', best[0] == 0, f'{best[0]} of {len(SECRET)} characters')
    for mode, shows in (('reverse', lambda it: SECRET[::-1] in it), ('zip', lambda it: 'H4sI' in it), ('split', lambda it: json.dumps(list(SECRET[:8]))[1:-1] in it)):
        say(f'   by nature, {mode}:', 'shown' if shows(peek(mode)[0]) else 'not shown')
    must('it is not in a dump of the database', SECRET.encode() not in cluster.dump())
    must('nor in the log at debug', SECRET not in server.log())
    must('nor in the metrics', SECRET not in str(server.http.get('/metrics')[1]))

play(attack)
