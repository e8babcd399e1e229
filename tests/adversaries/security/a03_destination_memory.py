"""Destinations that send far more than was asked for, one in each protocol: what they cost the server, and the runs beside theirs.

GIB (4) is what a destination sends unless it is cut off, MIB (400) the size of one row."""
from ground import *

GIB, MIB = float(os.environ.get('GIB', 4)), int(os.environ.get('MIB', 400))
# What one destination may cost beside the load, in MiB.
BOUND = 64
BLOCK = b'A' * (1 << 20)
SEEN = {}

def much(name, connection):
    """Sends as much as is taken."""
    connection.settimeout(60)
    SEEN[name] = 0
    for _ in range(int(GIB * 1024)):
        connection.sendall(BLOCK)
        SEEN[name] += 1

def smtp(connection):
    connection.sendall(b'220 ')
    much('smtp', connection)

def http_body(connection):
    connection.recv(65536)
    connection.sendall(b'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\n\r\n' % (int(GIB * 1024) << 20))
    much('http', connection)

def http_head(connection):
    connection.recv(65536)
    connection.sendall(b'HTTP/1.1 200 OK\r\nx-long: ')
    much('head', connection)

def ssh_server():
    """OpenSSH with keys of its own, for the user who runs this; what a connection to it is, and its private key."""
    program = need('sshd', next((it for it in ('/usr/sbin/sshd', '/usr/bin/sshd') if os.path.exists(it)), None))
    folder, port = os.path.join(WORK, 'ssh'), free_port()
    os.makedirs(folder)
    if os.geteuid() == 0: os.makedirs('/run/sshd', exist_ok=True)
    for key in ('host', 'user'):
        subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', f'{folder}/{key}'], check=True)
    user = subprocess.run(['id', '-un'], capture_output=True, text=True).stdout.strip()
    config = put(f'{folder}/config', f'Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n'
                 'PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\n')
    started(program, '-D', '-e', '-f', config, stderr=subprocess.DEVNULL)
    mark = subprocess.run(['ssh-keygen', '-lf', f'{folder}/host.pub'], capture_output=True, text=True).stdout.split()[1]
    with open(f'{folder}/user') as key:
        return {'ssh': {'host': '127.0.0.1', 'port': port, 'user': user, 'secret': 'ssh_key', 'host_key': mark}}, key.read()

def attack():
    server = Server(Cluster(), {**LOOPBACK, 'SEMEL_MEMORY': '512'})
    ssh, key = ssh_server()
    server.secret('ssh_key', key)
    server.connection('ssh', ssh)
    server.connection('shop', Cluster('shop', tcp=True).shop())
    server.connection('mail', {'smtp': {'host': '127.0.0.1', 'port': listener(smtp), 'from': 'a@b.example', 'tls': 'off'}})
    rows = int(GIB * 1024)
    steps = {
        'row': f'''db: {{ connection: shop, query: "SELECT repeat('x', {MIB} * 1024 * 1024) AS x" }}''',
        'rows': f'''db: {{ connection: shop, query: "SELECT repeat('x', 1024 * 1024) AS x FROM generate_series(1, {rows})" }}''',
        'body': f'http: {{ get: "http://127.0.0.1:{listener(http_body)}/", timeout: 1m }}',
        'head': f'http: {{ get: "http://127.0.0.1:{listener(http_head)}/", timeout: 1m }}',
        'mail': 'notify: { connection: mail, to: [c@d.example], subject: s, text: t }\n    guard: review',
        'ssh': f'ssh: {{ connection: ssh, command: [sh, -c, "yes | head -c {rows << 20}"], timeout: 1m }}\n    guard: review',
        'small': '''db: { connection: shop, query: "SELECT 1 AS x" }''',
    }
    retry = 'retry: { attempts: 1 }\n'
    for name, step in steps.items():
        server.flow(name, f'flow: {name}\ntrigger:\n  api: {{ key: input.id }}\n{retry}steps:\n  - id: a\n    {step}\n')
    # What the first use of each protocol costs is no part of what is measured.
    must('an ordinary statement succeeds', server.run('small', {'id': 'before'}).get('state') == 'succeeded')
    names = ['row', 'rows', 'mail', 'ssh', 'head', 'body']
    for name in names:
        def beside(name=name):
            return at_once([lambda: server.run(name, {'id': 'one'}, wait='55s'), lambda: server.run('small', {'id': f'beside-{name}'})])
        (big, small), grown = server.memory_of(beside)
        for run in (big, small):
            if isinstance(run, Exception): raise run
        big = server.ended(big['run'], 90)
        must(f'{name}: costs at most {BOUND} MiB', grown <= BOUND, f'{grown} MiB; {SEEN}')
        # A body is stored as far as the store takes it, and output of a command is kept to its limit: these may succeed.
        ends_as = ('failed', 'needs_review', 'in_doubt', *(['succeeded'] if name in ('ssh', 'body') else []))
        must(f'{name}: the run comes to its end', big.get('state') in ends_as, (big.get('state'), fault(big)))
        must(f'{name}: a run beside it succeeds', small.get('state') == 'succeeded', (small.get('state'), fault(small)))
        must(f'{name}: what is too large is no doubt', not (fault(big) == 'result-too-large' and big.get('state') == 'in_doubt'))
    _, grown = server.memory_of(lambda: at_once([lambda i=i: server.run('row', {'id': f'many-{i}'}, wait='55s') for i in range(3)]))
    must(f'three rows at once cost at most {3 * BOUND} MiB', grown <= 3 * BOUND, f'{grown} MiB')
    must('the server lives', server.http.get('/healthz')[0] == 200)

play(attack)
