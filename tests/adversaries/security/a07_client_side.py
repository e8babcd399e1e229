"""The command line: where it sends a token, what its commands inherit, what a terminal gets to see, and files of `semel dev`."""
from ground import *
import pty, shlex, stat

def tokens_sent(server):
    got = []
    def answer(method, path, headers, body):
        got.append(headers.get('authorization'))
        return 401, {}, b'{}'
    stranger = Destination(answer)
    folder = os.path.join(WORK, 'cloned')
    os.makedirs(folder + '/.semel')
    os.makedirs(folder + '/sub')
    env = {k: v for k, v in server.env.items() if k not in ('SEMEL_URL', 'HOME')}
    env['SEMEL_TOKEN'] = server.token
    def lists(where, label):
        got.clear()
        ran = subprocess.run([BIN, 'run', 'list', '--json'], cwd=where, env=env, capture_output=True, text=True)
        must(f'{label}: the stranger gets nothing', not any(got), (ran.returncode, ran.stdout[:160]))
        return ran
    toml = put(folder + '/semel.toml', f'url = "{stranger.url}"\n')
    ran = lists(folder, 'semel.toml of the working directory')
    must('the command is refused, and says why', ran.returncode == 7 and 'token-withheld' in ran.stdout, ran.returncode)
    lists(folder + '/sub', 'semel.toml of a folder above')
    os.remove(toml)
    put(folder + '/.semel/url', stranger.url + '\n')
    lists(folder, '.semel/url of the working directory')
    if os.geteuid() == 0:
        subprocess.run(['chown', '-R', 'nobody', folder], check=True)
        lists(folder, '.semel/url of another user')
        lists(folder + '/sub', '.semel/url of another user, in a folder above')
    got.clear()
    server.program('run', 'list', env={'SEMEL_URL': stranger.url, 'SEMEL_TOKEN': server.token})
    must('a server that the user names gets the token', got == ['Bearer ' + server.token])

def inherited(server):
    server.flow('work', 'flow: work\ntrigger:\n  api: { key: input.id }\nsteps:\n  - id: t\n    task: { queue: q, input: "${{ input }}", lease: 30s, within: 1h }\n    guard: review\nresult: steps.t.result\n')
    run = server.http.post('/v1/flows/work/runs', {'input': {'id': '1'}})[1]['run']
    worker = server.made('w', '--role', 'worker', '--queue', 'q')
    script = 'cat >/dev/null; env | grep -c "semel_[0-9a-f]*_"; exit 0'
    server.cli('worker', '--queue', 'q', '--until-idle', '2s', '--', 'sh', '-c', script, token=worker)
    result = json.dumps(server.run_of(run).get('result'))
    must('a command of a worker has no token', '0' in result and '1' not in result, result)
    ran = server.cli('once', 'k1', '--', 'sh', '-c', 'echo tokens: $(env | grep -c "semel_[0-9a-f]*_")')
    must('nor has one of semel once', 'tokens: 0' in ran.stdout, (ran.stdout + ran.stderr)[:120])

def on_a_terminal(server, *arguments):
    out, (child, terminal) = b'', pty.fork()
    if child == 0:
        env = {**server.env, 'SEMEL_URL': f'http://127.0.0.1:{server.port}', 'SEMEL_TOKEN': server.token, 'TERM': 'xterm', 'COLUMNS': '200', 'NO_COLOR': '1'}
        os.chdir(server.dir)
        os.execve(BIN, [BIN, *arguments], env)
    while True:
        try: data = os.read(terminal, 65536)
        except OSError: break
        if not data: break
        out += data
    os.waitpid(child, 0)
    os.close(terminal)
    return out

def shown(server):
    server.flow('keys', 'flow: keys\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  - id: a\n    function: "1"\n')
    hostile, option = '\x1b]0;owned\x07\x1b[2J\x9b31m$(touch owned);`id`\u202e\n-x', '--url=http://127.0.0.1:9'
    for key in (hostile, option): say('delivery:', server.hook('keys', {'id': key})[0])
    marks = (b'\x1b]0', b'\x1b[2J', b'\xc2\x9b', '\u202e'.encode())
    for words in (['run', 'list'], ['key', 'list', 'keys'], ['find', '--', hostile], ['duplicate', 'list'], ['key', 'show', 'keys', '--', hostile]):
        out = on_a_terminal(server, *words)
        must(f'{words[0]} {words[1]}: no escape of a key reaches the terminal', out and not any(mark in out for mark in marks), out[:80])
    commands = []
    def walk(value):
        if isinstance(value, dict):
            if isinstance(value.get('command'), str): commands.append(value['command'])
            for it in value.values(): walk(it)
        elif isinstance(value, list):
            for it in value: walk(it)
    for words in (['key', 'list', 'keys'], ['run', 'list'], ['key', 'show', 'keys', '--', option], ['find', '--', option]): walk(server.json(*words[:2], *(['--json'] if '--' in words else []), *words[2:]) if '--' not in words else json.loads(server.cli(words[0], '--json', *words[1:]).stdout or '{}'))
    naming = [it for it in commands if option in it]
    def is_option(command):
        words = shlex.split(command)
        return option in words and '--' not in words[:words.index(option)]
    must('a suggested command makes no option of a key', not any(map(is_option, naming)), naming[:2])
    log = server.log()
    must('no escape and no key is in the log', '\x1b]0' not in log and 'owned' not in log)

def developing():
    folder = os.path.join(WORK, 'developing')
    os.makedirs(folder)
    os.chmod(folder, 0o711)
    put(folder + '/echo.flow.yaml', 'flow: echo\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  - id: a\n    persist: { value: "${{ input }}", keep: 1d }\nresult: steps.a.result\n')
    env = {k: v for k, v in os.environ.items() if not k.startswith(('SEMEL_', 'DATABASE_'))}
    with open(folder + '/out', 'wb') as out:
        process = subprocess.Popen([BIN, 'dev', '--port', str(free_port())], cwd=folder, env={**env, 'PATH': f"{PG}:{env['PATH']}"}, stdout=out, stderr=out)
    try:
        url = until(lambda: os.path.exists(folder + '/.semel/url') and open(folder + '/.semel/url').read().strip(), 60)
        host, port = url.split('//')[1].split(':')
        must('semel dev listens on this machine alone', host in ('127.0.0.1', 'localhost'), url)
        api = Http(host, int(port))
        def taken():
            try: return api.ask('POST', '/hooks/default/echo', {'id': 'a', 'card': '4242424242424242' * 6000})[0] < 300
            except OSError: return False
        must('a delivery is taken', until(taken, 30))
        time.sleep(2)
        others = []
        for root, folders, files in os.walk(folder + '/.semel'):
            # PostgreSQL guards its own folder.
            folders[:] = [it for it in folders if not (it == 'data' and os.path.basename(root) == 'pg')]
            for it in ['', *files]:
                path = os.path.join(root, it).rstrip('/')
                mode = os.lstat(path).st_mode
                if mode & 0o044 or (stat.S_ISDIR(mode) and mode & 0o011): others.append((oct(mode & 0o777), os.path.relpath(path, folder)))
        closed = os.lstat(folder + '/.semel').st_mode & 0o077 == 0
        # What lies in a folder that others cannot enter cannot be read by them, whatever its own mode is.
        must('others read nothing of .semel', closed and not [it for it in others if 'resources' in it[1]], others[:6])
    finally:
        process.send_signal(signal.SIGINT)
        try: process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

def attack():
    server = Server(Cluster())
    tokens_sent(server)
    inherited(server)
    shown(server)
    developing()

play(attack)
