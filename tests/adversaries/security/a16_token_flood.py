"""Made-up tokens and cookies at the rate that a small program sends them, from an address of its own: what others get meanwhile, and what is left of it.

SECS (12) is how long each flood lasts."""
from ground import *

SECS = float(os.environ.get('SECS', 12))

def attack():
    server = Server(Cluster())
    server.flow('hook', 'flow: hook\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  - id: a\n    function: "1"\n')
    count = [0]
    def deliver():
        count[0] += 1
        return server.hook('hook', {'id': f'k{count[0]}'}, timeout=20)
    listed = lambda: server.http.get('/v1/runs?limit=1', timeout=20)
    say('quiet: list', probe(listed, 3)[1], '| delivery', probe(deliver, 1)[1])
    for kind in ('token', 'cookie'):
        got = flood(server.port, kind, SECS)
        time.sleep(2)
        for what, ask in (('a token that works is served', listed), ('a delivery is taken', deliver)):
            counts, text = probe(ask, SECS / 2 - 1, 0.05)
            must(f'{kind} flood: {what}', only_answered(counts), text)
        flooded = got()
        must(f'{kind} flood: nothing is opened', not re.search(r"\b20\d: ", ' '.join(flooded)), flooded)
    failures = server.metric('semel_token_auth_failures_total')
    must('the metrics count made-up tokens', failures.get('semel_token_auth_failures_total{reason="unknown"}', 0) > 100, failures)
    must('the log has no line for each', len(server.lines()) < 200, len(server.lines()))

play(attack)
