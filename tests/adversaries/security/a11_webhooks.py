"""Signatures, replay windows, callbacks and heads of requests: forged, late, early, doubled, replayed, moved."""
from ground import *

K = b'k' * 32
NOW = int(time.time())

def hexed(key, text): return hmac.new(key, text, hashlib.sha256).hexdigest()

def stripe(body, at, key=b'whsec_stripe_secret_123'):
    return {'stripe-signature': f't={at},v1=' + hexed(key, f'{at}.'.encode() + body)}

def standard(name, at, body, before='v1,'):
    text = f'{name}.{at}.'.encode() + body
    return {'webhook-id': name, 'webhook-timestamp': str(at), 'webhook-signature': before + base64.b64encode(hmac.new(K, text, hashlib.sha256).digest()).decode()}

def changed(headers, name, change): return {**headers, name: change(headers[name])}

def attack():
    server = Server(Cluster())
    for name, value in {'stripe': 'whsec_stripe_secret_123', 'std': 'whsec_' + base64.b64encode(K).decode(), 'gh': 'githubsecret1', 'cust': 'customsecret'}.items(): server.secret(name, value)
    plain = 'steps:\n  - id: a\n    function: "1"\n'
    server.flow('st', 'flow: st\ntrigger:\n  webhook: { provider: stripe, secret: stripe }\n' + plain)
    server.flow('sw', 'flow: sw\ntrigger:\n  webhook: { provider: standard-webhooks, secret: std }\n' + plain)
    server.flow('gh', "flow: gh\ntrigger:\n  webhook: { provider: github, secret: gh, when: 'headers[\"x-github-event\"] == \"deployment_status\"' }\n" + plain)
    custom = 'flow: cu\ntrigger:\n  webhook: { auth: { hmac: { header: x-sig } }, secret: cust, key: input.id }\nsteps:\n  - id: a\n    function: "query"\nresult: steps.a.result\n'
    server.flow('cu', custom)
    # Heads that proxies read in another way: first, since wrong signatures are told to wait.
    def answers(data):
        with socket.create_connection(('127.0.0.1', server.port), timeout=3) as it:
            out = b''
            try:
                it.sendall(b'POST /hooks/default/cu HTTP/1.1\r\nhost: x\r\n' + data)
                while more := it.recv(65536): out += more
            except OSError: pass
        return [int(it) for it in re.findall(rb'HTTP/1\.1 (\d+)', out)]
    smuggled = b'0\r\n\r\nGET /v1/whoami HTTP/1.1\r\nhost: x\r\n\r\n'
    both = answers(b'content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n' + smuggled)
    must('a request behind one with two lengths is not answered', len(both) <= 1, both)
    for label, head in {'two lengths that differ': b'content-length: 5\r\ncontent-length: 6\r\n\r\nhello', 'an unknown coding': b'transfer-encoding: xchunked\r\n\r\n0\r\n\r\n',
                        'a space before the colon': b'content-length : 5\r\n\r\nhello', 'a folded line': b'x: a\r\n b\r\ncontent-length: 0\r\n\r\n',
                        '64 KiB': b'x: ' + b'a' * 65536 + b'\r\n\r\n', '200 headers': b''.join(b'x%d: a\r\n' % i for i in range(200)) + b'\r\n'}.items():
        got = answers(head)
        must(f'a head with {label} is refused', len(got) <= 1 and all(400 <= it < 500 for it in got), got)
    count = [0]
    def event():
        count[0] += 1
        return json.dumps({'id': f'evt_{count[0]}', 'created': NOW, 'type': 'x', 'data': {'object': {'id': 'o'}}}).encode()

    def tries(flow, cases):
        for label, (sign, is_taken) in cases.items():
            body = event()
            status, answer = server.hook(flow, body, sign(body))
            must(f'{flow} {label}: {"taken" if is_taken else "refused"}', status < 300 if is_taken else 400 <= status < 500, (status, answer.get('code', '')))
    mark = 'stripe-signature'
    tries('st', {
        'good': (lambda b: stripe(b, NOW), True), 'within its time': (lambda b: stripe(b, NOW - 200), True),
        'late': (lambda b: stripe(b, NOW - 310), False), 'early': (lambda b: stripe(b, NOW + 400), False),
        'by another key': (lambda b: stripe(b, NOW, b'x'), False), 'of v0 alone': (lambda b: changed(stripe(b, NOW), mark, lambda it: it.replace('v1', 'v0')), False),
        'with a later time before its own': (lambda b: {mark: f't={NOW},' + stripe(b, NOW - 310)[mark]}, False), 'without a header': (lambda b: {}, False),
        'with a point in its time': (lambda b: changed(stripe(b, NOW), mark, lambda it: it.replace('t=', 't=.')), False),
    })
    tries('sw', {
        'good': (lambda b: standard('m1', NOW, b), True), 'late': (lambda b: standard('m3', NOW - 310, b), False),
        'with a point moved into its id': (lambda b: {**standard('m', NOW, b), 'webhook-id': f'm.{NOW}'}, False),
        'asymmetric in name only': (lambda b: standard('m2', NOW, b, 'v1a,'), False),
    })
    # The event's name is not signed: a delivery that the flow ignored is sent again under another one.
    github = lambda event, name: {'x-hub-signature-256': 'sha256=' + hexed(b'githubsecret1', b'{"a":1}'), 'x-github-delivery': name, 'x-github-event': event}
    say('a captured delivery of the event push:', server.hook('gh', b'{"a":1}', github('push', 'd1')))
    for name in ('d2', 'd3'):
        status, answer = server.hook('gh', b'{"a":1}', github('deployment_status', name))
        must('the same bytes under the name of another event start nothing', status >= 400 or answer.get('held') or not answer.get('run'), (status, answer))
    time.sleep(1)
    must('no run of it is there', not server.http.get('/v1/runs?flow=gh')[1]['items'])
    # What no signature covers is named where the flow is checked.
    file = put(os.path.join(server.dir, 'cu.flow.yaml'), custom)
    starts = server.json('check', file)['data']['files'][0]['starts']
    must('semel check names the query, which no signature covers', 'query' in starts[0].get('unsigned', []), starts)
    own = lambda body: {'x-sig': hexed(b'customsecret', body)}
    must('a wrong signature is refused', server.hook('cu', b'{"id":"q1"}', {'x-sig': '0' * 64})[0] in (401, 429))
    zipped = __import__('gzip').compress(b'{"id":"z"}')
    status = server.hook('cu', zipped, {'content-encoding': 'gzip', **own(zipped)})[0]
    must('a zipped body is not unpacked', 400 <= status < 500, status)
    # Callbacks.
    ask = lambda method, path: server.http.ask(method, path, None if method == 'GET' else {}, token=False)[0]
    say('reading a callback that does not exist:', ask('GET', '/callbacks/x'))
    unknown = [ask('POST', '/callbacks/' + it) for it in ('x', 'A' * 86)]
    must('unknown callbacks are not found', set(unknown) <= {404, 429}, unknown)
    must('and told to wait when there are many', 429 in [ask('POST', '/callbacks/x') for _ in range(15)])
    must('the server lives', server.http.get('/healthz')[0] == 200)

play(attack)
