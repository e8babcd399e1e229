"""DNS rebinding, all on loopback: a name server of our own answers 127.0.0.2 (opened by the operator), then 127.0.0.1 (not opened).

Plays itself in a mount namespace whose resolv.conf names that server: needs root and unshare."""
from ground import *
import struct

NAMES = {'flip': lambda asked: ['127.0.0.2'] if asked <= 1 else ['127.0.0.1'], 'flop': lambda asked: ['127.0.0.1'] if asked <= 1 else ['127.0.0.2'],
         'both': lambda asked: ['127.0.0.2', '127.0.0.1'], 'good': lambda asked: ['127.0.0.2']}
asked = {}

def name_server():
    it = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    it.bind(('127.0.0.53', 53))
    while True:
        data, client = it.recvfrom(512)
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1:at + 1 + data[at]].decode())
            at += data[at] + 1
        kind = struct.unpack('>H', data[at + 1:at + 3])[0]
        if kind == 1: asked[labels[0]] = asked.get(labels[0], 0) + 1
        told = NAMES.get(labels[0].split('-')[0], lambda _: [])(asked.get(labels[0], 0)) if kind == 1 else []
        records = b''.join(b'\xc0\x0c' + struct.pack('>HHIH', 1, 1, 0, 4) + socket.inet_aton(one) for one in told)
        it.sendto(data[:2] + struct.pack('>HHHHH', 0x8180, 1, len(told), 0, 0) + data[12:at + 5] + records, client)

def attack():
    file = put(os.path.join(WORK, 'resolv.conf'), 'nameserver 127.0.0.53\noptions timeout:1 attempts:1\n')
    subprocess.run(['mount', '--bind', file, '/etc/resolv.conf'], check=True)
    threading.Thread(target=name_server, daemon=True).start()
    port, hits = free_port(), {'127.0.0.1': 0, '127.0.0.2': 0}
    def place(address):
        def answer(method, path, headers, body):
            hits[address] += 1
            if path.startswith('/redirect'): return 302, {'location': f'http://flop-r.test:{port}/'}, b''
            return 200, {'content-type': 'text/plain'}, address.encode()
        Destination(answer, address, port)
    for address in hits: place(address)
    server = Server(Cluster(), {'SEMEL_ALLOW_PRIVATE': '127.0.0.2/32'})
    count = [0]
    def fetch(url, connection=None):
        count[0] += 1
        name, by = f'd{count[0]}', f'connection: {connection}, ' if connection else ''
        server.flow(name, f'flow: {name}\ntrigger:\n  api: {{ key: input.id }}\nretry: {{ attempts: 2, delay: 1s }}\nsteps:\n  - id: a\n    http: {{ {by}get: {json.dumps(url)} }}\nresult: steps.a.result\n')
        run = server.run(name, {'id': 'a'})
        return run.get('state'), fault(run)
    good = fetch(f'http://good-a.test:{port}/')
    must('a name that leads to what is opened is reached', good[0] == 'succeeded' and hits['127.0.0.2'], good)
    for name in ('flip-a', 'flip-b', 'flop-a', 'both-a'): say(name, fetch(f'http://{name}.test:{port}/'), 'asked', asked.get(name), 'times')
    for _ in range(3):
        fetch(f'http://flip-c.test:{port}/')
        time.sleep(4.5)
    say('a name that is used again:', asked.get('flip-c'), 'lookups')
    server.connection('r', {'http': {'base_url': f'http://good-r.test:{port}', 'redirects': 3}})
    say('a redirect to a name that leads to 127.0.0.1:', fetch('/redirect', 'r'))
    for name, to in {'db': {'postgres': {'host': 'both-db.test', 'port': port, 'database': 'x', 'user': 'x', 'tls': 'off'}},
                     'mail': {'smtp': {'host': 'flop-m.test', 'port': port, 'from': 'a@b.example', 'tls': 'off'}}}.items():
        server.connection(name, to)
        say(name, server.http.post(f'/v1/connections/{name}/test')[1].get('code'))
    must('the names were asked for', all(asked.get(it) for it in ('flip-a', 'flop-a', 'both-a', 'flip-c')), asked)
    must('nothing reached the address that is not opened', hits['127.0.0.1'] == 0, hits)

if not os.environ.get('INSIDE'):
    can = os.geteuid() == 0 and shutil.which('unshare') and subprocess.run(['unshare', '-m', 'true'], capture_output=True).returncode == 0
    need('root and unshare', can)
    os.environ.update(INSIDE='1', WORK=WORK)
    os.execvp('unshare', ['unshare', '-m', sys.executable, *sys.argv])
play(attack)
