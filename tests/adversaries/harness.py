"""Shared by the adversaries: a private PostgreSQL, servers, a programmable destination.

Environment: SEMEL_BIN (path of the binary), PG_BIN (folder of PostgreSQL's programs, where they are not in PATH), WORK (an empty work
folder that other users may enter; default: a new temporary one), KEEP=1 (leave it). Only loopback is used.
Every script prints one line `VERDICT name: BROKEN|HOLDS|UNCLEAR ...` at its end and exits 1 if broken, 0 if it holds.
"""
import atexit, json, os, re, signal, socket, subprocess, sys, tempfile, threading, time, http.server, shutil

BIN = os.environ.get("SEMEL_BIN") or (sys.argv[1] if len(sys.argv) > 1 else sys.exit("set SEMEL_BIN, or give the binary as the first argument"))
BIN = os.path.abspath(BIN)
PG = os.environ.get("PG_BIN") or os.path.dirname(shutil.which("initdb") or "") or sys.exit("set PG_BIN to the folder of initdb, pg_ctl, psql")
WORK = os.environ.get("WORK") or (os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None) or tempfile.mkdtemp(prefix="semel-rel-")
os.makedirs(WORK, exist_ok=True)
os.chmod(WORK, 0o755)
children = []

def free_port():
    s = socket.socket(); s.bind(("127.0.0.1", 0)); p = s.getsockname()[1]; s.close(); return p

def log(*a):
    print(time.strftime("%H:%M:%S"), *a, flush=True)

def _end():
    for p in reversed(children):
        try:
            if p.poll() is None:
                os.kill(p.pid, signal.SIGCONT); p.terminate()
                try: p.wait(8)
                except subprocess.TimeoutExpired: p.kill(); p.wait()
        except ProcessLookupError: pass
    for p in Pg.all: p.stop()
    if not os.environ.get("KEEP"): shutil.rmtree(WORK, ignore_errors=True)
atexit.register(_end)
signal.signal(signal.SIGTERM, lambda *a: sys.exit(143))

class Pg:
    current, all = None, []
    def __init__(self, settings=(), name="pg"):
        self.dir = os.path.join(WORK, name); os.makedirs(self.dir); self.port = free_port()
        self.root = os.geteuid() == 0
        if self.root: shutil.chown(self.dir, "postgres", "postgres")
        self.run([f"{PG}/initdb", "-D", self.dir + "/data", "-U", "semel", "-A", "trust", "-E", "UTF8", "--locale=C"])
        with open(self.dir + "/conf", "w") as f:
            f.write(f"port={self.port}\nlisten_addresses='127.0.0.1'\nunix_socket_directories=''\nmax_connections=200\n"
                    "shared_buffers=64MB\nlog_min_messages=error\n" + "\n".join(settings) + "\n")
        self.run(["sh", "-c", f"cat {self.dir}/conf >> {self.dir}/data/postgresql.conf"])
        self.start()
        self.run([f"{PG}/createdb", "-h", "127.0.0.1", "-p", str(self.port), "-U", "semel", "semel"])
        Pg.current = self; Pg.all.append(self)
    def run(self, cmd):
        if self.root: cmd = ["runuser", "-u", "postgres", "--"] + cmd
        r = subprocess.run(cmd, capture_output=True, text=True, cwd="/")
        if r.returncode: sys.exit(f"{cmd}: {r.stderr}")
    def start(self): self.run([f"{PG}/pg_ctl", "-D", self.dir + "/data", "-l", self.dir + "/data/log", "-w", "start"])
    def stop(self, mode="immediate"):
        cmd = [f"{PG}/pg_ctl", "-D", self.dir + "/data", "-m", mode, "-w", "stop"]
        if self.root: cmd = ["runuser", "-u", "postgres", "--"] + cmd
        subprocess.run(cmd, capture_output=True, cwd="/")
    def url(self, db="semel", port=None): return f"postgres://semel@127.0.0.1:{port or self.port}/{db}"
    def sql(self, text, db="semel"):
        r = subprocess.run([f"{PG}/psql", self.url(db), "-qAtX", "-F", "|", "-c", text], capture_output=True, text=True)
        if r.returncode: raise RuntimeError(r.stderr)
        return [line.split("|") for line in r.stdout.splitlines()]
    def one(self, text, db="semel"):
        rows = self.sql(text, db); return rows[0][0] if rows else None

SECRET = "ab" * 32

class Server:
    def __init__(self, pg, name="a", db_port=None, **env):
        self.pg, self.name = pg, name
        self.port = free_port()
        self.env = dict(os.environ, DATABASE_URL=pg.url(port=db_port), SEMEL_SECRET_KEY=SECRET, SEMEL_ALLOW_PRIVATE="127.0.0.0/8",
                        SEMEL_REQUIRE_REHEARSAL="false", SEMEL_LISTEN=f"127.0.0.1:{self.port}", SEMEL_LOG_FORMAT="text",
                        SEMEL_HOOK_RATE="100000", RUST_LOG=os.environ.get("RUST_LOG", "info"), HOME=WORK,
                        **{k: str(v) for k, v in env.items()})
        self.log = os.path.join(WORK, f"server-{name}.log")
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()
    def start(self):
        self.p = subprocess.Popen([BIN, "serve"], env=self.env, stdout=open(self.log, "ab"), stderr=subprocess.STDOUT, cwd=WORK)
        children.append(self.p)
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", self.port), 0.2).close(); return
            except OSError:
                if self.p.poll() is not None: sys.exit(f"server ended: {open(self.log).read()[-2000:]}")
                time.sleep(0.1)
        sys.exit("server does not listen")
    def pause(self): os.kill(self.p.pid, signal.SIGSTOP)
    def cont(self): os.kill(self.p.pid, signal.SIGCONT)
    def kill(self): self.p.kill(); self.p.wait()
    def stop(self, wait=40): self.p.terminate(); self.p.wait(wait)
    def logs(self): return open(self.log, errors="replace").read()

TOKEN = None
def admin():
    return TOKEN
def migrate(pg):
    global TOKEN
    r = subprocess.run([BIN, "migrate", "--json"], env=dict(os.environ, DATABASE_URL=pg.url(), SEMEL_SECRET_KEY=SECRET, HOME=WORK),
                       capture_output=True, text=True, cwd=WORK)
    m = re.search(r"(semel_[A-Za-z0-9_\-]+|[a-z]+_[A-Za-z0-9_\-]{30,})", r.stdout + r.stderr)
    if r.returncode or not m: sys.exit(f"migrate: {r.stdout} {r.stderr}")
    TOKEN = m.group(1)

def world(n=1, settings=(), **env):
    """A database and n servers."""
    pg = Pg(settings); migrate(pg)
    servers = [Server(pg, chr(97 + i), **env) for i in range(n)]
    return (pg, *servers)

class Result:
    def __init__(self, r):
        self.code, self.out, self.err = r.returncode, r.stdout, r.stderr
    @property
    def json(self):
        try: return json.loads(self.out)
        except ValueError: return None
    @property
    def data(self): return (self.json or {}).get("data") if self.json else None

def cli(server, *args, stdin=None, token=None, ok=None, timeout=120, env=None):
    e = dict(os.environ, SEMEL_URL=server.url, SEMEL_TOKEN=token or TOKEN, HOME=WORK, **(env or {}))
    r = Result(subprocess.run([BIN, *args], env=e, capture_output=True, text=True, input=stdin, cwd=WORK, timeout=timeout))
    if ok is not None and r.code != ok:
        sys.exit(f"semel {' '.join(args)}: exit {r.code}\n{r.out}\n{r.err}")
    return r

def flow(server, name, text, token=None):
    path = os.path.join(WORK, f"{name}.flow.yaml")
    open(path, "w").write(text)
    for args in (["flow", "push", path], ["flow", "publish", name], ["flow", "promote", name]):
        cli(server, *args, ok=0, token=token)

def secret_of(result):
    """The token that a command prints, wherever its JSON has it."""
    def walk(v):
        if isinstance(v, dict):
            for k, x in v.items():
                if k in ("token", "secret") and isinstance(x, str) and len(x) > 30: return x
                found = walk(x)
                if found: return found
        if isinstance(v, list):
            for x in v:
                found = walk(x)
                if found: return found
    return walk(result.json)

def http_json(method, url, body=None, token=None, headers=None, timeout=30):
    import urllib.request, urllib.error
    data = None if body is None else (body if isinstance(body, bytes) else json.dumps(body).encode())
    req = urllib.request.Request(url, data=data, method=method, headers={"content-type": "application/json", **(headers or {})})
    if token: req.add_header("authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(req, timeout=timeout) as r: return r.status, r.read().decode()
    except urllib.error.HTTPError as e: return e.code, e.read().decode()

def start(server, flow_name, input, key=None, wait=None):
    args = ["run", "start", flow_name, "--input", json.dumps(input), "--json"]
    if key: args += ["--key", key]
    if wait: args += ["--wait", wait]
    r = cli(server, *args)
    m = re.search(r"run_[0-9a-f]+", r.out + r.err)
    return (m.group(0) if m else None), r

def state(pg, run):
    """State of a run by its public id (run_HEX, hyphens dropped)."""
    return pg.one(f"select state from runs where replace(id::text,'-','')='{run[4:]}'")

def until(what, seconds, every=0.2):
    end = time.time() + seconds
    while time.time() < end:
        v = what()
        if v: return v
        time.sleep(every)
    return what()

class Destination:
    """handler(method, path, body, headers, n) -> (status, obj) | None (close the connection without an answer)."""
    def __init__(self, handler=None):
        self.seen, self.lock = [], threading.Lock()
        outer = self
        class H(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            def do(self):
                n = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(n).decode("utf8", "replace") if n else ""
                with outer.lock:
                    outer.seen.append((time.time(), self.command, self.path, body, dict(self.headers)))
                    count = sum(1 for s in outer.seen if s[1:3] == (self.command, self.path))
                answer = (handler or (lambda *a: (200, {"id": f"x_{count}"})))(self.command, self.path, body, self.headers, count)
                if answer is None:
                    self.close_connection = True; self.connection.shutdown(socket.SHUT_RDWR); return
                status, obj = answer
                data = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
                try:
                    self.send_response(status); self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(data))); self.end_headers(); self.wfile.write(data)
                except OSError: pass
            do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do
            def log_message(self, *a): pass
        self.port = free_port()
        class S(http.server.ThreadingHTTPServer): daemon_threads = True; request_queue_size = 512
        self.srv = S(("127.0.0.1", self.port), H)
        threading.Thread(target=self.srv.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.port}"
    def count(self, method, prefix):
        with self.lock: return sum(1 for s in self.seen if s[1] == method and s[2].startswith(prefix))

def verdict(name, broken, text):
    word = {True: "BROKEN", False: "HOLDS", None: "UNCLEAR"}[broken]
    print(f"VERDICT {name}: {word} {text}", flush=True)
    sys.exit(1 if broken else 0)
