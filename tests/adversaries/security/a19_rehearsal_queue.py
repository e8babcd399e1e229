"""One tenant's author fills the server's places for rehearsals, again and again; another tenant must rehearse and promote all the same."""
from ground import *
import uuid

def source(name, steps):
    head = f'flow: {name}\ntrigger:\n  api: {{ key: input.id }}\nsteps:\n'
    step = '  - id: s{0}\n    http: {{ post: "https://a.example/x{0}", json: {{ a: "${{{{ input.id }}}}" }} }}\n    guard: review\n'
    answers = ''.join(f'      s{at}: {{ status: 201, json: {{}} }}\n' for at in range(steps))
    return head + ''.join(step.format(at) for at in range(steps)) + 'examples:\n  - name: e\n    input: { id: x }\n    answers:\n' + answers

def attack():
    # Rehearsals are required, as by default.
    server = Server(Cluster(), {**LOOPBACK, 'SEMEL_REQUIRE_REHEARSAL': 'true'})
    noisy = server.made('author', '--right', 'read', '--right', 'write', token=server.namespace('noisy'))
    big = {'source': source('big', int(os.environ.get('STEPS', 60))), 'file': 'big.flow.yaml'}
    ask = lambda token, body: server.http.put(f'/v1/rehearsals/{uuid.uuid4()}', body, token=token)
    statuses = [ask(noisy, big)[0] for _ in range(25)]
    must('a tenant does not get all places', 429 in statuses, {it: statuses.count(it) for it in set(statuses)})
    over = threading.Event()
    def refill():
        while not over.is_set():
            try: ask(noisy, big)
            except OSError: pass
            time.sleep(0.05)
    threading.Thread(target=refill, daemon=True).start()
    small = {'source': source('fix', 1), 'file': 'fix.flow.yaml'}
    tries = []
    def taken():
        tries.append(ask(True, small))
        return tries[-1] if tries[-1][0] < 300 else None
    got = until(taken, 10, 1)
    must('another tenant gets a place at once', len(tries) == 1 and got, [(it[0], it[1].get('code')) for it in tries])
    file = put(os.path.join(server.dir, 'fix.flow.yaml'), small['source'])
    for words in (('flow', 'push', file), ('flow', 'publish', 'fix')):
        ran = server.cli(*words)
        must(' '.join(words[:2]), ran.returncode == 0, ran.stderr[:120])
    rehearsed = server.cli('rehearse', file)
    say('rehearse:', rehearsed.returncode, (rehearsed.stdout + rehearsed.stderr).strip().split('\n')[0][:120])
    ran = until(lambda: (lambda it: it if it.returncode == 0 else None)(server.cli('flow', 'promote', 'fix')), 60, 2) or server.cli('flow', 'promote', 'fix')
    must('and promotes', ran.returncode == 0, (ran.stdout + ran.stderr).strip()[:200])
    over.set()

play(attack)
