"""Rights at their edges: `not_starter`, idempotency keys that two tokens share, ids of another namespace, networks, metrics."""
from ground import *

def attack():
    cluster = Cluster()
    server = Server(cluster)
    server.flow('pay', 'flow: pay\ntrigger:\n  api: { key: input.id }\nsteps:\n  - id: ok\n    approval: { from: [finance], not_starter: true, show: "${{ input }}", within: 1h }\n')
    rights = lambda *words: [it for word in words for it in ('--right', word)]
    one = server.made('ada', '--role', 'operator')
    two = server.made('ada-cli', *rights('read', 'approve'), '--group', 'finance')
    same = server.made('ada2', *rights('read', 'start', 'approve'), '--group', 'finance')
    def decide(starter, approver, name):
        run = server.http.post('/v1/flows/pay/runs', {'input': {'id': name}}, token=starter)[1]['run']
        it = until(lambda: server.http.get(f'/v1/approvals?run={run}', token=approver)[1]['items'], 20)[0]
        return server.http.post(f"/v1/approvals/{it['approval']}/decide", {'approved': True, 'digest': it['digest']}, token=approver)
    status, answer = decide(same, same, 'a')
    must('the same token does not start and approve', status == 403, (status, answer.get('code')))
    must('an approver who is another does', decide(one, two, 'b')[0] == 200)
    known('two-tokens', True, 'two tokens of one person have two names: one starts, the other approves')
    admin = server.made('adm', '--role', 'admin')
    made = server.made('bob', *rights('approve', 'read'), '--group', 'finance', token=admin)
    known('two-tokens', decide(one, made, 'c')[0] == 200, 'a holder of admin makes an approver of any name and group')

    # A command's answer under a key that somebody else used.
    server.flow('res', 'flow: res\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  - id: a\n    approval: { from: [x], show: "${{ input }}", within: 1h }\n')
    run = server.hook('res', {'id': 'k', 'card': 'CANARY'})[1]['run']
    until(lambda: server.http.get(f'/v1/approvals?run={run}')[1]['items'], 20)
    operator, key = server.made('op', *rights('read', 'operate')), {'idempotency-key': 'same-key'}
    cancel = lambda token: server.http.post(f'/v1/runs/{run}/cancel', {'reason': 'CANARYreason'}, headers=key, token=token)
    first, second = cancel(True), cancel(operator)
    must('the first cancels', first[0] < 300, first[0])
    # A command's key is the namespace's: the answer is the same for all who may give the command.
    must('another token under the same key is shown no payload', 'CANARY' not in json.dumps(second[1]), second)
    must('the act is in the name of who did it', 'token:op' not in cluster.sql("SELECT string_agg(actor, ',' ORDER BY id) FROM audit WHERE action = 'run.cancel'").split(',')[:1])

    # Everything that takes an id, asked by a token of another namespace.
    other, found = server.namespace('elsewhere'), {}
    ids = {'run': run, 'approval': server.http.get('/v1/approvals?all=true')[1]['items'][0]['approval'], 'token': server.http.get('/v1/tokens')[1]['items'][0]['id'], 'flow': 'res', 'namespace': 'default'}
    ids.update(wait=ids['approval'], person=ids['token'], effect='eff_' + '0' * 32, digest='sha256:' + '0' * 64)
    before = cluster.dump().count(b'\n')
    for path, methods in server.http.get('/v1/openapi.json')[1]['paths'].items():
        if '{' not in path or not path.startswith('/v1'): continue
        address = re.sub(r'\{(\w+)\}', lambda it: ids.get(it.group(1), 'x'), path)
        for method in set(methods) & {'get', 'post', 'put', 'delete'}:
            status, body = server.http.ask(method.upper(), address, None if method == 'get' else {'reason': 'x'}, token=other)
            found.setdefault(status, []).append((method.upper(), path, json.dumps(body)[:120]))
            must_not = 'CANARY' in json.dumps(body) or run in json.dumps(body) and status < 300
            if must_not: must(f'{method} {path} shows nothing of another namespace', False, body)
    # Lists by a name that is not there are empty, and a search of no such name is not forgotten: no other answer is well.
    empty = lambda it: any(word in it[2] for word in (['"items": []', '[]', '{}'] if it[0] == 'GET' else ['"forgotten": false']))
    well = [it for status, every in found.items() if status < 300 for it in every if not empty(it)]
    must('no id of another namespace is reached', not well, well[:6])
    must('nor does one end in an error of the server', not [status for status in found if status >= 500], {status: len(every) for status, every in found.items()})
    must('the run is as it was', server.run_of(run)['state'] == 'cancelled', server.run_of(run)['state'])

    net = server.made('net', '--right', 'read', '--network', '10.0.0.0/8')
    lies = {'x-forwarded-for': '10.1.1.1', 'forwarded': 'for=10.1.1.1', 'x-real-ip': '10.1.1.1'}
    statuses = [server.http.get('/v1/whoami', token=net, headers=it)[0] for it in ({}, lies)]
    must('a token of another network is not let in, whatever the headers say', statuses == [401, 401], statuses)
    statuses = [server.http.get('/metrics', token=one)[0], server.http.get('/metrics', token=False)[0]]
    must('metrics need the right instance', statuses == [403, 401], statuses)

play(attack)
