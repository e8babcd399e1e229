"""Connections that say nothing, of a machine whose limit of open files is low: what others get meanwhile.

The soft limit is 1,024 (SOFT), as a service manager gives it; then hard and soft are. N connections are held open."""
from ground import *
import resource

SOFT, N = int(os.environ.get('SOFT', 1024)), int(os.environ.get('N', 3000))

def hold(server, count, source):
    """Opens connections and leaves them silent; those that the server closes are opened again."""
    held, over = [], threading.Event()
    def fresh():
        it = socket.socket()
        it.bind((source, 0))
        it.setblocking(False)
        it.connect_ex(('127.0.0.1', server.port))
        return it
    for place in range(count):
        held.append(fresh())
        if place % 500 == 499: time.sleep(0.1)
    def again():
        while not over.is_set():
            for place in range(count):
                if over.is_set(): return
                held[place].close()
                try: held[place] = fresh()
                except OSError: pass
            time.sleep(2)
    threading.Thread(target=again, daemon=True).start()
    def end():
        over.set()
        time.sleep(0.2)
        for it in held: it.close()
    return end

def play_with(cluster, name, before, count):
    server = Server(cluster, LOOPBACK, name=name, before=before)
    if name == 'soft': server.flow('hook', 'flow: hook\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  - id: a\n    function: "1"\n')
    with open(f'/proc/{server.process.pid}/limits') as limits: say(name, next(line.strip() for line in limits if 'open files' in line))
    number = [0]
    def deliver():
        number[0] += 1
        return server.hook('hook', {'id': f'{name}{number[0]}'}, timeout=15)
    release = hold(server, count, '127.0.0.2')
    time.sleep(3)
    descriptors = len(os.listdir(f'/proc/{server.process.pid}/fd'))
    counts, text = probe(deliver, 12, 0.1)
    return server, release, descriptors, counts, text

def attack():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need(f'a limit of {N + 2000} open files', hard == resource.RLIM_INFINITY or hard >= N + 2000)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, N + 1000), hard))
    cluster = Cluster()
    few = lambda server: [it for it in server.lines('WARN', 'ERROR') if 'too many open files' in json.dumps(it).lower()]
    server, release, descriptors, counts, text = play_with(cluster, 'soft', ['prlimit', f'--nofile={SOFT}:{max(hard, 8704) if hard == resource.RLIM_INFINITY else hard}'], N)
    must(f'with a soft limit of {SOFT}, deliveries are taken beside {N} silent connections', only_answered(counts), text)
    must('and no file is missing', not few(server), (descriptors, [it.get('message') for it in few(server)][:2]))
    release()
    server.stop()
    # Silent connections fill the few that are admitted, and are let go in turn; the database must not be without a file meanwhile.
    server, release, descriptors, counts, text = play_with(cluster, 'hard', ['prlimit', f'--nofile={SOFT}:{SOFT}'], 1500)
    must(f'with a hard limit of {SOFT}, fewer connections are admitted', descriptors <= SOFT - 256, descriptors)
    must('which the log says', any('open files' in it.get('message', '') for it in server.lines('WARN')), [it.get('message') for it in server.lines('WARN')][:3])
    must('and no file is missing', not few(server), [it.get('message') for it in few(server)][:2])
    say('deliveries beside 1500 silent connections:', text)
    release()
    must('afterwards deliveries are taken', until(lambda: server.hook('hook', {'id': 'after'}, timeout=15)[0] < 300, 30))

play(attack)
