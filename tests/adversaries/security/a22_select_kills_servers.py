"""A server with 3 GB of address space, and one flow of one SELECT whose row has 900 MiB: the server must live, and the runs of others go on."""
from ground import *

LIMIT, MIB, WATCHED = 3 << 30, int(os.environ.get('MIB', 900)), float(os.environ.get('SECS', 60))

def attack():
    server = Server(Cluster(), {**LOOPBACK, 'SEMEL_MEMORY': '512'}, before=[need('prlimit', shutil.which('prlimit')), f'--as={LIMIT}'])
    server.connection('shop', Cluster('shop', tcp=True).shop())
    for name, query in {'big': f"SELECT repeat('x', {MIB} * 1024 * 1024) AS x", 'small': 'SELECT 1 AS x'}.items():
        server.flow(name, f'flow: {name}\ntrigger:\n  api: {{ key: input.id }}\nsteps:\n  - id: read\n    db: {{ connection: shop, query: "{query}" }}\n')
    must('an ordinary statement succeeds', server.run('small', {'id': 'before'}).get('state') == 'succeeded')
    first = server.process
    runs = at_once([lambda i=i: server.run('big', {'id': f'a{i}'}, wait='30s') for i in range(3)])
    must('the server answers those who asked', not any(isinstance(it, Exception) for it in runs), [it if isinstance(it, Exception) else (it.get('state'), fault(it)) for it in runs])
    deaths, end = [], time.time() + WATCHED
    while time.time() < end and not deaths:
        if first.poll() is not None: deaths.append(first.returncode)
        time.sleep(0.5)
    must(f'the server lives for {WATCHED:.0f} s', not deaths, deaths and (deaths, server.log()[-200:]))
    ended = [server.ended(it['run']) for it in runs]
    must('the runs fail by their size', all(it['state'] == 'failed' and fault(it) == 'result-too-large' for it in ended), [(it['state'], fault(it)) for it in ended])
    must('a run beside them succeeds', server.run('small', {'id': 'after'}).get('state') == 'succeeded')

play(attack)
