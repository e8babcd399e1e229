"""Common ground of the attacks: private databases, servers, destinations that lie, and the verdict.

Environment: SEMEL_BIN (path of the binary), PG_BIN (folder of PostgreSQL's programs, where they are not in PATH), WORK (an empty
folder that other users may enter; default: a new temporary one), KEEP=1 (leave it). Everything stays on this machine.

A script says what must hold with `must`, and names with `known` an open shortfall of SECURITY.md that it sees; `play` prints one
last line `VERDICT aNN HOLDS` or `VERDICT aNN BROKEN` and exits with 0 or 1. Broken is also what raises, what does not end
in time, what lacks a program that it needs, and what looked at nothing.
"""
import base64, hashlib, hmac, http.client, json, os, re, shutil, signal, socket, subprocess, sys, tempfile, threading, time
import traceback, urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

NAME = Path(sys.argv[0]).stem.split('_')[0]
ROOT = Path(__file__).resolve().parents[3]
TOKEN = re.compile(r'semel_[0-9a-f]{32}_[0-9a-f]{64}')
LOOPBACK = {'SEMEL_ALLOW_PRIVATE': '127.0.0.0/8'}

claims, ends = [], []

def say(*words):
    print(*words, flush=True)

def verdict(holds):
    say('VERDICT', NAME, 'HOLDS' if holds else 'BROKEN')

def need(what, found):
    """What this script cannot do without."""
    if found: return found
    say('needed and missing:', what)
    verdict(False)
    os._exit(1)

BIN = os.path.abspath(need('SEMEL_BIN, the path of the binary', os.environ.get('SEMEL_BIN')))
PG = need('PG_BIN, the folder of initdb, pg_ctl and psql', os.environ.get('PG_BIN') or os.path.dirname(shutil.which('initdb') or ''))
WORK = os.environ.get('WORK') or tempfile.mkdtemp(prefix='semel-attack-')
os.makedirs(WORK, exist_ok=True)
os.chmod(WORK, 0o755)

def must(claim, holds, seen=''):
    """A claim that the product makes. `seen` is what the claim is judged by."""
    claims.append(bool(holds))
    say('holds :' if holds else 'BROKEN:', claim, f'[{seen}]' if seen != '' else '')
    return holds

OPEN = set(re.findall(r'^\| `([a-z-]+)` \|', (ROOT / 'SECURITY.md').read_text(), re.MULTILINE))

def known(shortfall, shows, what):
    """Shows only a shortfall that SECURITY.md lists as open, by its id there: it does not count."""
    if shortfall not in OPEN: must(f'SECURITY.md lists {shortfall}', False)
    if shows: say(f'OPEN {shortfall}', what)

class DidNotEnd(Exception): pass

def play(attack, limit=900):
    """Plays one attack, stops what it started, and prints the verdict."""
    def over(*_): raise DidNotEnd(f'after {limit} s')
    def give_up():
        verdict(False)
        os._exit(1)
    signal.signal(signal.SIGALRM, over)
    signal.signal(signal.SIGTERM, over)
    signal.alarm(limit)
    hard = threading.Timer(limit + 120, give_up)
    hard.daemon = True
    hard.start()
    try: attack()
    except BaseException as error:
        signal.alarm(0)
        must('the attack can be played to its end', False, f'{type(error).__name__}: {error}'[:600])
        traceback.print_exc(limit=-3, file=sys.stdout)
    signal.alarm(0)
    for end in reversed(ends):
        try: end()
        except Exception as error: say('while stopping:', error)
    if not os.environ.get('KEEP'): shutil.rmtree(WORK, ignore_errors=True)
    holds = bool(claims) and all(claims)
    verdict(holds)
    sys.stdout.flush()
    os._exit(0 if holds else 1)

def until(look, seconds, every=0.2):
    """What `look` gives as soon as it gives something, or at the end of the time."""
    end = time.time() + seconds
    while time.time() < end:
        found = look()
        if found: return found
        time.sleep(every)
    return look()

def free_port():
    with socket.socket() as it:
        it.bind(('127.0.0.1', 0))
        return it.getsockname()[1]

def started(*command, **options):
    """A program that is stopped at the end."""
    process = subprocess.Popen(command, **options)
    def end():
        if process.poll() is None: process.kill()
        process.wait()
    ends.append(end)
    return process

def token_in(text):
    return TOKEN.search(text if isinstance(text, str) else json.dumps(text)).group(0)

def bearer(token):
    return {'Authorization': 'Bearer ' + token}

def put(path, text):
    with open(path, 'w') as file: file.write(text)
    return path

class Http:
    """Requests, each by a connection of its own."""
    def __init__(self, host, port, token=None):
        self.host, self.port, self.token = host, port, token
    def ask(self, method, path, body=None, headers=None, timeout=70, token=True, raw=False, source=None):
        """Status and JSON (or text); with `raw` status, headers (names in lower case) and bytes. `token` False sends none, a text sends that."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout, source_address=source and (source, 0))
        headers = dict(headers or {})
        bears = self.token if token is True else token
        if bears and 'Authorization' not in headers: headers.update(bearer(bears))
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault('content-type', 'application/json')
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            self.cookies = answer.headers.get_all('set-cookie') or []
            self.last = answer
            data = answer.read()
        finally: connection.close()
        if raw: return answer.status, {k.lower(): v for k, v in answer.getheaders()}, data
        try: return answer.status, json.loads(data)
        except ValueError: return answer.status, data.decode('utf-8', 'replace')
    def get(self, path, **how): return self.ask('GET', path, **how)
    def post(self, path, body=None, **how): return self.ask('POST', path, {} if body is None else body, **how)
    def put(self, path, body, **how): return self.ask('PUT', path, body, **how)

class Cluster:
    """A private PostgreSQL, of the user postgres where this runs as root: by its socket, and by TCP where asked."""
    def __init__(self, name='pg', tcp=False):
        self.dir, self.port, self.tcp = os.path.join(WORK, name), free_port(), tcp
        os.makedirs(self.dir)
        self.by = []
        if os.geteuid() == 0:
            shutil.chown(self.dir, 'postgres', 'postgres')
            self.by = ['runuser', '-u', 'postgres', '--']
        self.run('initdb', '-D', self.dir + '/data', '-A', 'trust', '-U', 'postgres', '-E', 'UTF8', '--locale', 'C')
        put(self.dir + '/data/postgresql.auto.conf', f"listen_addresses='{'127.0.0.1' if tcp else ''}'\nport={self.port}\n"
            f"unix_socket_directories='{self.dir}'\nmax_connections=150\nfsync=on\n")
        self.run('pg_ctl', '-D', self.dir + '/data', '-l', self.dir + '/log', '-w', 'start')
        ends.append(lambda: self.run('pg_ctl', '-D', self.dir + '/data', '-m', 'immediate', 'stop'))
        self.sql('CREATE ROLE semel LOGIN', 'CREATE DATABASE semel OWNER semel', user='postgres', db='postgres')
    def run(self, program, *arguments):
        ran = subprocess.run([*self.by, f'{PG}/{program}', *arguments], stdout=subprocess.PIPE if program != 'pg_ctl' else subprocess.DEVNULL,
                             stderr=subprocess.STDOUT, cwd='/')
        if ran.returncode: raise RuntimeError(f'{program}: {ran.stdout}')
    def psql(self, *arguments, user='semel', db='semel'):
        return subprocess.run([f'{PG}/psql', '-h', self.dir, '-p', str(self.port), '-U', user, '-d', db, '-XAtq', '-v', 'ON_ERROR_STOP=1', *arguments],
                              capture_output=True, text=True)
    def sql(self, *statements, user='semel', db='semel'):
        ran = self.psql(*[word for one in statements for word in ('-c', one)], user=user, db=db)
        if ran.returncode: raise RuntimeError(f'{statements}: {ran.stderr}')
        return ran.stdout.strip()
    def refused(self, statement, user='semel', db='semel'):
        """What PostgreSQL says against a statement, or nothing."""
        ran = self.psql('-c', statement, user=user, db=db)
        return ran.stderr.strip() if ran.returncode else ''
    def dump(self):
        command = [f'{PG}/pg_dump', '-h', self.dir, '-p', str(self.port), '-U', 'semel', '--inserts', 'semel']
        return subprocess.run(command, capture_output=True, check=True).stdout
    def shop(self):
        """A database of somebody else, and what a connection to it is."""
        self.sql('CREATE ROLE shop LOGIN', 'CREATE DATABASE shop OWNER shop', user='postgres', db='postgres')
        return {'postgres': {'host': '127.0.0.1', 'port': self.port, 'database': 'shop', 'user': 'shop', 'tls': 'off'}}
    def url(self):
        return f"postgresql://semel@{urllib.parse.quote(self.dir, safe='')}:{self.port}/semel"

class Server:
    """A server of the installation that has the cluster, and its command line. `before` stands before the program, as `prlimit …`."""
    def __init__(self, cluster, env=None, listen='127.0.0.1', name='serve', before=(), key=None):
        self.dir, self.port, self.before = os.path.join(WORK, name), free_port(), list(before)
        os.makedirs(self.dir + '/resources')
        self.key = key or os.path.join(WORK, 'secret.key')
        if not os.path.exists(self.key):
            put(self.key, os.urandom(32).hex())
            os.chmod(self.key, 0o600)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(('SEMEL_', 'DATABASE_'))}
        self.env.update({'DATABASE_URL': cluster.url(), 'SEMEL_SECRET_KEY_FILE': self.key, 'SEMEL_LISTEN': f'{listen}:{self.port}',
                         'SEMEL_STATE_DIR': self.dir + '/state', 'SEMEL_RESOURCES': self.dir + '/resources',
                         'SEMEL_REQUIRE_REHEARSAL': 'false', 'HOME': self.dir, **(env or {})})
        ran = self.program('migrate', '--json')
        if not TOKEN.search(ran.stdout): ran = self.program('migrate', '--new-token', '--json')
        self.token = token_in(ran.stdout)
        self.http = Http('127.0.0.1', self.port, self.token)
        ends.append(self.stop)
        self.start()
    def start(self):
        with open(self.dir + '/log', 'ab') as log:
            self.process = subprocess.Popen([*self.before, BIN, 'serve'], env=self.env, cwd=self.dir, stdout=log, stderr=log)
        def answers():
            if self.process.poll() is not None: raise RuntimeError('the server ended: ' + self.log()[-2000:])
            try: return self.http.get('/readyz')[0] == 200
            except OSError: return False
        if not until(answers, 60): raise RuntimeError('the server is not ready')
    def stop(self):
        if self.process.poll() is None: self.process.kill()
        self.process.wait()
    def program(self, *arguments, env=None, input=None, cwd=None):
        return subprocess.run([BIN, *arguments], env={**self.env, **(env or {})}, cwd=cwd or self.dir, capture_output=True, text=True, input=input, timeout=120)
    def cli(self, *arguments, token=None, env=None, **how):
        here = {'SEMEL_URL': f'http://127.0.0.1:{self.port}', 'SEMEL_TOKEN': token or self.token}
        return self.program(*arguments, env={**here, **(env or {})}, **how)
    def json(self, *arguments, **how):
        ran = self.cli(*arguments, '--json', **how)
        try: return json.loads(ran.stdout)
        except ValueError: raise RuntimeError(f'{arguments}: {ran.stdout} {ran.stderr}')
    def made(self, name, *arguments, token=None):
        """A new token."""
        ran = self.cli('token', 'create', name, *arguments, '--json', token=token)
        if not TOKEN.search(ran.stdout): raise RuntimeError(f'token create {name}: {ran.stdout} {ran.stderr}')
        return token_in(ran.stdout)
    def namespace(self, name):
        """A new namespace's first token."""
        return token_in(self.json('namespace', 'create', name, '--admin', 'eve'))
    def secret(self, name, value, *arguments):
        ran = self.cli('secret', 'set', name, *arguments, input=value + '\n')
        if ran.returncode: raise RuntimeError(f'secret set {name}: {ran.stdout} {ran.stderr}')
    def connection(self, name, to, token=None):
        answer = self.http.put(f'/v1/connections/{name}', {'connection': {'to': to}}, token=token or True)
        if answer[0] >= 300: raise RuntimeError(f'connection {name}: {answer}')
    def try_flow(self, name, source, token=None):
        """Publishes and promotes a flow; the first answer that refuses it, or nothing."""
        for method, path, body in (('PUT', 'draft', {'source': source}), ('POST', 'publish', {}), ('POST', 'promote', {'release': 1})):
            answer = self.http.ask(method, f'/v1/flows/{name}/{path}', body, token=token or True)
            if answer[0] >= 300: return answer
        return None
    def flow(self, name, source, token=None):
        refusal = self.try_flow(name, source, token)
        if refusal: raise RuntimeError(f'flow {name}: {refusal}')
    def run(self, flow, input, wait='25s', token=None):
        """A run of a flow, as far as it came in the time."""
        return self.http.post(f'/v1/flows/{flow}/runs?wait={wait}', {'input': input}, token=token or True)[1]
    def hook(self, flow, body, headers=None, query='', **how):
        return self.http.ask('POST', f'/hooks/default/{flow}{query}', body, headers, token=False, **how)
    def run_of(self, run, token=None):
        return self.http.get(f'/v1/runs/{run}', token=token or True)[1]
    def ended(self, run, seconds=30):
        """A run once it goes no further by itself."""
        return until(lambda: (lambda it: it if it.get('state') not in ('active', 'running', None) else None)(self.run_of(run)), seconds) or self.run_of(run)
    def doctor(self, **env):
        """What `semel doctor` says, by check."""
        data = self.json('doctor', env=env).get('data') or []
        lines = data if isinstance(data, list) else next(v for v in data.values() if isinstance(v, list))
        return {line['subject']: line for line in lines}
    def log(self):
        with open(self.dir + '/log', errors='replace') as log: return log.read()
    def lines(self, *levels):
        """Lines of the log, as JSON."""
        every = [json.loads(line) for line in self.log().splitlines() if line.startswith('{')]
        return [line for line in every if not levels or line.get('level') in levels]
    def metric(self, start):
        """Lines of the metrics that begin like this, with their values."""
        text = str(self.http.get('/metrics')[1])
        return {line.rsplit(' ', 1)[0]: float(line.rsplit(' ', 1)[1]) for line in text.splitlines() if line.startswith(start)}
    def resident(self):
        """Memory of the server, in MiB."""
        with open(f'/proc/{self.process.pid}/status') as status:
            return next(int(line.split()[1]) // 1024 for line in status if line.startswith('VmRSS'))
    def memory_of(self, work):
        """What `work` gives, and by how many MiB the server grew meanwhile, at most."""
        before, peak, over = self.resident(), [0], threading.Event()
        def watch():
            while not over.is_set():
                try: peak[0] = max(peak[0], self.resident())
                except (OSError, StopIteration): return
                time.sleep(0.02)
        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try: gave = work()
        finally:
            over.set()
            watcher.join()
        return gave, max(peak[0], before) - before

def fault(run):
    return (run.get('fault') or {}).get('code') or run.get('code')

def at_once(works):
    """Several works at once; what each gave, in their order."""
    gave = [None] * len(works)
    def go(place, work):
        try: gave[place] = work()
        except Exception as error: gave[place] = error
    threads = [threading.Thread(target=go, args=pair, daemon=True) for pair in enumerate(works)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return gave

def listener(serve, host='127.0.0.1'):
    """A TCP server, whose connections are served in a thread each; its port."""
    it = socket.create_server((host, 0), backlog=256)
    def one(connection):
        try: serve(connection)
        except OSError: pass
        finally: connection.close()
    def accept():
        while True:
            try: connection, _ = it.accept()
            except OSError: return
            threading.Thread(target=one, args=(connection,), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    return it.getsockname()[1]

class Destination:
    """An HTTP server whose `answer(method, path, headers, body)` gives status, headers and bytes. It remembers requests."""
    def __init__(self, answer=None, host='127.0.0.1', port=0):
        answer = answer or (lambda *_: (200, {'content-type': 'application/json'}, b'{}'))
        self.seen = seen = []
        class Handler(BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            def go(self):
                body = self.rfile.read(int(self.headers.get('content-length') or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                seen.append((self.command, self.path, headers, body))
                status, more, data = answer(self.command, self.path, headers, body)
                self.send_response(status)
                for name, value in more.items(): self.send_header(name, value)
                self.send_header('content-length', str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = go
            def log_message(self, *_): pass
        class Many(ThreadingHTTPServer):
            daemon_threads, request_queue_size = True, 256
            def handle_error(self, *_): pass
        server = Many((host, port), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.port = server.server_address[1]
        self.url = f'http://{host}:{self.port}'

FLOOD = '''
import collections, http.client, os, sys, threading, time
port, seconds, kind, source = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
got, end = collections.Counter(), time.time() + seconds
def request():
    if kind == 'token': return '/v1/runs', {'authorization': 'Bearer semel_' + os.urandom(16).hex() + '_' + os.urandom(32).hex()}
    import base64
    return '/console/default/', {'cookie': 'semel_dev=' + base64.urlsafe_b64encode(os.urandom(32)).decode().rstrip('=')}
def go():
    connection = None
    while time.time() < end:
        try:
            if connection is None: connection = http.client.HTTPConnection('127.0.0.1', port, timeout=20, source_address=(source, 0))
            path, headers = request()
            connection.request('GET', path, headers=headers)
            answer = connection.getresponse(); answer.read(); got[answer.status] += 1
        except Exception as error: connection = None; got[type(error).__name__] += 1; time.sleep(0.01)
threads = [threading.Thread(target=go) for _ in range(64)]
[it.start() for it in threads]; [it.join() for it in threads]
print(dict(got))
'''

def flood(port, kind, seconds, source='127.0.0.2', processes=3):
    """Made-up tokens or cookies of one address, from processes of their own; a function that waits for what they got."""
    command = [sys.executable, '-c', FLOOD, str(port), str(seconds), kind, source]
    running = [started(*command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return lambda: [process.communicate()[0].strip() for process in running]

def probe(ask, seconds, pause=0.03):
    """Answers by status and code while a time lasts, and a line that says them with their pace."""
    took, end = {}, time.time() + seconds
    while time.time() < end:
        begun = time.time()
        try:
            status, body = ask()
            what = f"{status} {body.get('code', '') if isinstance(body, dict) else ''}".strip()
        except Exception as error: what = type(error).__name__
        took.setdefault(what, []).append((time.time() - begun) * 1000)
        time.sleep(pause)
    text = '; '.join(f'{what}: {len(it)} times, median {sorted(it)[len(it) // 2]:.0f} ms, most {max(it):.0f} ms' for what, it in took.items())
    return {what: len(it) for what, it in took.items()}, text

def only_answered(counts):
    """Whether every request of a probe was answered well."""
    return bool(counts) and all(what.startswith('2') for what in counts)
