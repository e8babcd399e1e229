"""Before authentication: (a) one address holds the memory for bodies, (b) one address floods with made-up tokens.

The attacker is 127.0.0.2: 127.0.0.1 has no share of its own, because a proxy on this machine brings everybody's requests.
HOLDERS (300) connections send a body of 1 MiB less a byte and wait; SECS (12) is how long each part lasts."""
from ground import *

HOLDERS, SECS, MEMORY = int(os.environ.get('HOLDERS', 300)), float(os.environ.get('SECS', 12)), 512
ATTACKER = '127.0.0.2'

def attack():
    server = Server(Cluster(), {'SEMEL_MEMORY': str(MEMORY)})
    for name in ('hook', 'other'):
        server.flow(name, f'flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: a\n    function: "1"\n')
    count = [0]
    def deliver():
        count[0] += 1
        return server.hook('hook', {'id': f'k{count[0]}'}, timeout=20)
    listed = lambda: server.http.get('/v1/runs?limit=1', timeout=20)
    say('deliveries, quiet:', probe(deliver, 3)[1])

    over, moved = threading.Event(), [0]
    head = b'POST /hooks/default/other HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1048576\r\n\r\n'
    def hold():
        while not over.is_set():
            try:
                with socket.create_connection(('127.0.0.1', server.port), source_address=(ATTACKER, 0)) as it:
                    it.settimeout(9.5)
                    it.sendall(head + b' ' * ((1 << 20) - 1))
                    moved[0] += 1
                    it.recv(4096)
            except OSError: time.sleep(0.05)
    for _ in range(HOLDERS): threading.Thread(target=hold, daemon=True).start()
    time.sleep(3)
    counts, text = probe(deliver, SECS, 0.05)
    must(f'deliveries are taken while {HOLDERS} connections of another address hold bodies', only_answered(counts), text)
    resident = server.resident()
    must('the server stays in the memory that it is planned with', resident <= MEMORY, f'{resident} MiB; {moved[0]} bodies were sent')
    over.set()
    time.sleep(11)
    counts, text = probe(deliver, 2, 0.05)
    must('and afterwards', only_answered(counts), text)

    say('a list, quiet:', probe(listed, 3)[1])
    got = flood(server.port, 'token', SECS + 4, ATTACKER)
    time.sleep(2)
    counts, text = probe(listed, SECS / 2)
    must('a token that works is never refused under a flood of made-up ones', only_answered(counts), text)
    counts, text = probe(deliver, SECS / 2, 0.05)
    must('nor are deliveries', only_answered(counts), text)
    flooded = got()
    must('the flood is told to wait', '429' in str(flooded), flooded)
    failures = server.metric('semel_token_auth_failures_total')
    must('and is counted', failures.get('semel_token_auth_failures_total{reason="unknown"}', 0) > 0, failures)
    must('without a line of the log for each', len(server.lines()) < 200, len(server.lines()))

play(attack)
