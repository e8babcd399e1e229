"""Who sees what was sent? One canary for each place, then every GET of the API and every page of the console, as an observer, as an
administrator of another namespace, and as nobody; then `run erase`, and a search for the canaries in what is left."""
from ground import *

JSON = {'content-type': 'application/json'}
# What `not_reached` of an erasure names: reasons and notes in the record, external ids, and answers to commands of a day.
STAYS = {'audit': 'CANARY', 'commands': 'CANARY'}
STAYS_ANYWHERE = ('CANARYexternal',)

def answer(method, path, headers, body):
    if 'fail' in path: return 400, JSON, b'{"why":"CANARYrefusal"}'
    if 'doubt' in path: return 500, JSON, b'{"why":"CANARYdoubt"}'
    large = 'CANARYlarge' + 'x' * 90000 if 'big' in path else ''
    return 201, {**JSON, 'x-answer': 'CANARYheader'}, json.dumps({'id': 'CANARYexternal', 'answer': 'CANARYanswer', 'big': large}).encode()

def flows(url):
    call = lambda step, path: f'''  - id: {step}
    http: {{ post: "{url}/{path}", json: {{ card: "${{{{ input.card }}}}" }} }}
    guard: review
'''
    hook = lambda name: f'flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n'
    schema = 'input_schema:\n  type: object\n  required: [id]\n  properties: { id: { type: string }, n: { type: integer } }\n'
    yield 'one', hook('one') + schema + 'steps:\n' + call('call', 'ok') + '    external_id: result.json.id\n' + call('big', 'big') + '''  - id: ask
    approval: { from: [boss], show: "${{ input }}", within: 1h }
  - id: job
    task: { queue: q, input: "${{ input }}", lease: 30s, within: 1h }
    guard: review
result: '{"r": input.card}'
'''
    yield 'two', hook('two') + 'steps:\n' + call('doubt', 'doubt')
    yield 'three', hook('three') + 'steps:\n' + call('refused', 'fail')

def fill(server):
    """Runs, refusals, an approval, a task and a note; the runs by name, and the effect in doubt."""
    boss = server.made('boss', '--right', 'read', '--right', 'approve')
    worker = server.made('wk', '--role', 'worker')
    runs = {'one': server.hook('one', {'id': 'cust-1', 'card': 'CANARYinput'})[1]['run']}
    say('a repeat:', server.hook('one', {'id': 'cust-1', 'card': 'CANARYinput'})[0])
    for flow, body in (('one', {'id': 'cust-1', 'card': 'CANARYmismatch'}), ('one', {'id': 'cust-1b', 'n': 'CANARYmisfit'}),
                       ('one', b'{"a":1,"CANARYmember":1,"CANARYmember":2}'), ('two', {'id': ['CANARYkeyless'], 'card': 1})):
        say('not taken:', server.hook(flow, body)[0])
    for name in ('two', 'three'): runs[name] = server.hook(name, {'id': 'cust-' + name, 'card': 'CANARY' + name})[1]['run']
    approvals = until(lambda: server.http.get('/v1/approvals')[1]['items'], 20)
    decided = server.http.post(f"/v1/approvals/{approvals[0]['approval']}/decide", {'approved': True, 'digest': approvals[0]['digest'], 'comment': 'CANARYcomment'}, token=boss)
    must('the approval is decided', decided[0] == 200, decided[0])
    tasks = until(lambda: server.http.post('/v1/tasks/claim', {'queue': 'q', 'worker': 'x'}, token=worker)[1]['tasks'], 20)
    done = server.http.post(f"/v1/tasks/{tasks[0]['task']}/complete", {'token': tasks[0]['token'], 'result': {'x': 'CANARYworker'}}, token=worker)
    must('the task is done', done[0] == 200, done[0])
    doubt = until(lambda: server.http.get('/v1/doubts')[1]['items'], 20)[0]['effect']
    must('a note is taken', server.http.post(f'/v1/effects/{doubt}/note', {'note': 'CANARYnote'})[0] == 200)
    states = [server.ended(run)['state'] for run in runs.values()]
    must('the runs came to their places', states == ['succeeded', 'in_doubt', 'failed'], states)
    return runs, doubt

def attack():
    cluster, destination = Cluster(), Destination(answer)
    server = Server(cluster, LOOPBACK)
    for name, source in flows(destination.url): server.flow(name, source)
    runs, doubt = fill(server)
    of = lambda path, name: [it.get(name) or it.get('id') for it in server.http.get(path)[1]['items']]
    ids = {'run': list(runs.values()), 'effect': of('/v1/effects?limit=50', 'effect'), 'flow': list(runs), 'wait': of('/v1/waits?all=true', 'wait'),
           'approval': of('/v1/approvals?all=true', 'approval'), 'task': of('/v1/tasks?all=true', 'task'),
           'digest': [it.replace('res://', '') for it in of('/v1/resources', 'resource')], 'name': ['x']}
    first = runs['one']
    queries = {'all': 'true', 'run': first, 'flow': 'one', 'key': 'cust-1', 'external_id': 'CANARYexternal', 'held': 'true', 'prefix': '', 'entry': 'entry',
               'window': '1d', 'after': '0', 'before': 'r1', 'whole': 'true', 'ids': first}
    document = server.http.get('/v1/openapi.json')[1]
    def addresses():
        for path, methods in document['paths'].items():
            if 'get' not in methods or not path.startswith('/v1') or path.endswith('/wait'): continue
            every = [path]
            for name in re.findall(r'\{(\w+)\}', path):
                every = [it.replace('{' + name + '}', str(value)) for it in every for value in ids.get(name, ['x'])]
            for it in every:
                yield it
                for asked in methods['get'].get('parameters', []):
                    if asked['in'] == 'query' and asked['name'] in queries: yield f"{it}?{asked['name']}={urllib.parse.quote(queries[asked['name']])}"
    def sweep(token):
        seen, statuses = {}, {}
        for address in addresses():
            status, _, data = server.http.get(address, token=token, raw=True)
            statuses[status] = statuses.get(status, 0) + 1
            for canary in {it.decode() for it in re.findall(rb'CANARY\w+', data)}:
                if canary not in urllib.parse.unquote(address): seen.setdefault(canary[:24], []).append(address)
        return seen, statuses
    observer, foreign = server.made('obs', '--role', 'observer'), server.namespace('elsewhere')
    seen, statuses = sweep(server.token)
    must('who has all rights sees what was sent, so that the search finds what there is', len(seen) >= 8, (sorted(seen), statuses))
    for who, token in (('an observer', observer), ('another namespace', foreign), ('nobody', False)):
        seen, statuses = sweep(token)
        must(f'{who} sees none of it', not seen, (seen or '', statuses))

    # The same in the console.
    code = server.http.post('/v1/sign-in-codes', token=observer)[1]['code']
    own = f'127.0.0.1:{server.port}'
    form = {'content-type': 'application/x-www-form-urlencoded', 'origin': f'http://{own}', 'host': own}
    server.http.ask('POST', '/console/sign-in', 'code=' + code, form, token=False)
    cookie = next(it.split(';')[0] for it in server.http.cookies if 'semel' in it)
    pages = ['/', '/runs', '/doubts', '/approvals', '/duplicates', '/effects', '/flows', '/refusals', '/waits', '/tasks', '/keys?key=cust-1', '/events', '/searches',
             '/jobs', '/replays', '/settings', '/audit', '/tokens', '/servers'] + [f'/{kind}s/{it}' for kind in ('run', 'effect', 'flow', 'approval', 'wait') for it in ids[kind]]
    pages += [f'/runs/{run}/{part}' for run in runs.values() for part in ('duplicates', 'items', 'replay')]
    seen, statuses = {}, {}
    for page in pages:
        status, _, data = server.http.ask('GET', '/console/default' + page, headers={'cookie': cookie}, token=False, raw=True)
        statuses[status] = statuses.get(status, 0) + 1
        for canary in {it.decode() for it in re.findall(rb'CANARY\w+', data)}: seen.setdefault(canary, []).append(page)
    must('an observer sees none of it in the console', not seen and statuses.get(200, 0) > 15, (seen or '', statuses))

    # Erasure.
    settled = server.http.post(f'/v1/effects/{doubt}/settle', {'verdict': 'fail', 'reason': 'CANARYreason looked'})
    must('the doubt is given up', settled[0] == 200, settled)
    until(lambda: server.run_of(runs['two'])['state'] == 'failed', 30)
    for name, run in runs.items():
        # What was given up may still arrive for its landing window: the lease, the time limit of the request, and room.
        erased = until(lambda: (lambda it: it if it[0] == 200 else None)(server.http.post(f'/v1/runs/{run}/erase', {'reason': 'asked'})), 180, 1)
        must(f'{name} is erased', erased, erased and erased[1].get('not_reached'))
    time.sleep(2)
    left, refused = {}, set()
    for line in cluster.dump().decode('utf-8', 'replace').split('\n'):
        table = re.match(r'INSERT INTO public\.(\w+)', line)
        for canary in set(re.findall(r'CANARY\w+', line)):
            where = table.group(1) if table else '?'
            if canary[:24] in STAYS_ANYWHERE or where in STAYS: continue
            if where == 'refused_deliveries': refused.add(canary[:24])
            else: left.setdefault(canary[:24], set()).add(where)
    must('the database keeps nothing beside what the erasure said', not left, left or '')
    known('erasure-rest', refused, f'texts of refused deliveries stay: {sorted(refused)}')
    prints = cluster.sql('SELECT (SELECT count(*) FROM claims) + (SELECT count(fingerprint) FROM duplicates)')
    known('erasure-rest', prints != '0', f'{prints} fingerprints stay')
    found = subprocess.run(['grep', '-rlaE', 'CANARY', server.dir + '/resources'], capture_output=True, text=True).stdout.split()
    must('nor does the store of resources', not found, found)
    logged = sorted(set(re.findall(r'CANARY\w+|cust-\w+', server.log())))
    must('the log has neither payloads nor keys', not logged, logged)

play(attack)
