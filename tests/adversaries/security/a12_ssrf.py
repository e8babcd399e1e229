"""Where a flow can reach: spellings of private addresses, redirects, other kinds of destinations, and the server's own listeners."""
from ground import *
from concurrent.futures import ThreadPoolExecutor

def this_machine():
    """An address of this machine that is not loopback, if it has one."""
    words = subprocess.run(['hostname', '-I'], capture_output=True, text=True).stdout.split()
    return next((it for it in words if re.fullmatch(r'\d+\.\d+\.\d+\.\d+', it)), None)

def spellings(port, database, lan):
    hosts = ('127.0.0.1 127.1 2130706433 0x7f000001 0177.0.0.1 0x7f.1 [::1] [::ffff:127.0.0.1] [::ffff:7f00:1] 0.0.0.0 0 [::] localhost LOCALHOST localhost. 127.0.0.1. '
             '①②⑦.⓪.⓪.① 127。0。0。1 [::127.0.0.1] [64:ff9b::7f00:1] [2002:7f00:1::] [0:0:0:0:0:ffff:127.0.0.1] 169.254.169.254 [fd00:ec2::254] 100.100.100.200 '
             '168.63.129.16 192.0.0.192 [fe80::1%25lo] ip6-localhost').split() + ([lan] if lan else [])
    yield from (f'http://{host}:{port}/' for host in hosts)
    yield from (f'http://a@127.0.0.1:{port}/', f'http://127.0.0.1:{port}@example.com/', f'HTTP://127.0.0.1:{port}/', f'http:\\\\127.0.0.1:{port}\\', f'http://127.0.0.1\t:{port}/',
                'file:///etc/passwd', 'gopher://127.0.0.1/', 'ftp://127.0.0.1/', f'http://[::ffff:0:127.0.0.1]:{port}/', f'http://%31%32%37.0.0.1:{port}/', f'https://127.0.0.1:{port}/',
                f'http://127.0.0.1:{database}/', '//127.0.0.1/', 'res://x', f'http://user:pw@localhost:{port}/')

def fetch(server, number, url):
    """What a flow that asks for an address gets: a refusal when it is published, or its run."""
    name = f'g-{number}'
    refusal = server.try_flow(name, f'flow: {name}\ntrigger:\n  api: {{ key: input.id }}\nretry: {{ attempts: 1 }}\nsteps:\n  - id: a\n    http: {{ get: {json.dumps(url)}, timeout: 5s }}\nresult: steps.a.result\n')
    return {'state': 'not published', 'code': refusal[1].get('code')} if refusal else server.run(name, {'id': url})

def attack():
    cluster, lan = Cluster(tcp=True), this_machine()
    inner = Destination(lambda *_: (200, {'content-type': 'text/plain'}, b'reached'))
    server = Server(cluster)
    urls = list(spellings(inner.port, cluster.port, lan))
    with ThreadPoolExecutor(6) as pool: runs = list(pool.map(lambda it: fetch(server, *it), enumerate(urls)))
    reached = [url for url, run in zip(urls, runs) if run.get('state') == 'succeeded']
    must(f'none of {len(urls)} spellings of a private address is reached', not reached and not inner.seen, reached)
    refused = {}
    for run in runs: refused[fault(run)] = refused.get(fault(run), 0) + 1
    must('they are refused for their address, for the most part', refused.get('address-refused', 0) >= 15, refused)
    server.http.put('/v1/secrets/s', {'value': 'whsec_' + base64.b64encode(b'x' * 32).decode()})
    here = {'host': '127.0.0.1', 'port': inner.port}
    for name, to in {
        'pg': {'postgres': {'host': '127.0.0.1', 'port': cluster.port, 'database': 'x', 'user': 'x', 'tls': 'off'}},
        'pgsock': {'postgres': {'host': cluster.dir, 'port': cluster.port, 'database': 'semel', 'user': 'semel', 'tls': 'off'}},
        'smtp': {'smtp': {**here, 'from': 'a@b.example', 'tls': 'off'}},
        'ssh': {'ssh': {**here, 'user': 'x', 'secret': 's', 'host_key': 'SHA256:' + 'A' * 43}},
        'slack': {'slack': {'base_url': inner.url, 'secret': 's'}},
        'hook': {'webhook': {'url': inner.url + '/', 'secret': 's'}},
        'llm': {'llm': {'shape': 'openai', 'base_url': inner.url, 'secret': 's', 'model': 'm'}},
        'oauth': {'http': {'base_url': 'https://127.0.0.1:1', 'auth': {'oauth2': {'token_url': inner.url + '/', 'client_id': 'c', 'secret': 's'}}}},
    }.items():
        kept = server.http.put(f'/v1/connections/{name}', {'connection': {'to': to}})
        tried = server.http.post(f'/v1/connections/{name}/test')
        must(f'a connection of the kind {name} leads to nobody here', not tried[1].get('ok'), (kept[0], kept[1].get('code', ''), tried[1].get('code'), str(tried[1].get('found'))[:80]))
    server.http.put('/v1/alerts', {'connection': 'hook'})
    alert = server.http.post('/v1/alerts/test')
    must('nor does an alert', alert[0] >= 400 or not alert[1].get('ok', False), alert)
    must('nothing of this reached this machine', not inner.seen, len(inner.seen))
    server.stop()

    # An opened range, and listeners on every address.
    admin = free_port()
    opened = ['127.0.0.0/8', *([re.sub(r'\.\d+$', '.0/24', lan)] if lan else [])]
    redirecting = Destination(lambda method, path, headers, body: (302, {'location': f'http://127.0.0.1:{admin}/metrics'}, b''))
    server = Server(cluster, {'SEMEL_ALLOW_PRIVATE': ','.join(opened), 'SEMEL_ADMIN_LISTEN': f'0.0.0.0:{admin}'}, listen='0.0.0.0', name='open')
    must('an admin listener on every address is warned of', any('admin' in json.dumps(it) for it in server.lines('WARN')), [it.get('message') for it in server.lines('WARN')])
    own = [f'http://{host}:{port}/{path}' for host in ('127.0.0.1', '127.0.0.2', *([lan] if lan else [])) for port, path in ((admin, 'metrics'), (server.port, 'healthz'), (cluster.port, ''))]
    for number, url in enumerate(own):
        run = fetch(server, f'own-{number}', url)
        must(f'{url} stays closed', run.get('state') != 'succeeded' and (fault(run) == 'address-refused' or str(cluster.port) in url), (run.get('state'), fault(run)))
    server.connection('r', {'http': {'base_url': redirecting.url, 'redirects': 3}})
    server.flow('redirected', 'flow: redirected\ntrigger:\n  api: { key: input.id }\nretry: { attempts: 1 }\nsteps:\n  - id: a\n    http: { connection: r, get: /, timeout: 5s }\nresult: steps.a.result\n')
    run = server.run('redirected', {'id': 'a'})
    must('a redirect does not lead there', redirecting.seen and 'semel_' not in json.dumps(run.get('result')), (run.get('state'), fault(run)))
    must('the opened range itself is open', fetch(server, 'open', inner.url + '/').get('state') == 'succeeded')

play(attack)
