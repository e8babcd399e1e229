"""Smaller looks: what uses of a revoked token leave, and who may read the files of `serve`."""
from ground import *

def attack():
    os.umask(0o022)
    cluster = Cluster()
    server = Server(cluster, {'SEMEL_ARCHIVE': os.path.join(WORK, 'archive')})
    server.flow('a', 'flow: a\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  - id: a\n    persist: { value: "${{ input }}", keep: 1d }\nresult: steps.a.result\n')
    run = server.hook('a', {'id': 'k', 'card': 'x' * 100000})[1]['run']
    must('a run with a large output succeeds', server.ended(run)['state'] == 'succeeded')
    acts = lambda: int(cluster.sql('SELECT count(*) FROM audit'))
    before = acts()
    server.http.get('/v1/runs/' + run)
    server.cli('audit', 'export', os.path.join(WORK, 'e.jsonl'))
    say('acts for a payload that was read and an export of the record:', acts() - before)

    old = server.made('old', '--right', 'read')
    name = next(it['id'] for it in server.http.get('/v1/tokens')[1]['items'] if it['name'] == 'old')
    must('a token works', server.http.get('/v1/runs', token=old)[0] == 200)
    server.cli('token', 'revoke', name)
    use = lambda: server.http.get('/v1/runs', token=old, source='127.0.0.3')[0]
    must('a revoked one does not', until(lambda: use() == 401, 10))
    statuses = {use() for _ in range(20)}
    must('however often', statuses <= {401, 429}, statuses)
    lines = [it for it in server.lines() if name in json.dumps(it) and 'no longer works' in it.get('message', '')]
    must('the log has a line of it, and not one for each use', 1 <= len(lines) <= 3, len(lines))
    must('with the address', lines and '127.0.0.3' in json.dumps(lines[0]), lines[:1])
    counted = server.metric('semel_token_auth_failures_total{reason="revoked"}')
    must('the metrics count it', sum(counted.values()) >= 10, counted)

    made = []
    for folder in ('resources', 'state'):
        for root, folders, files in os.walk(os.path.join(server.dir, folder)):
            made += [os.path.join(root, it) for it in folders + files]
    open_to_others = [(oct(os.lstat(it).st_mode & 0o777), os.path.relpath(it, server.dir)) for it in made if os.lstat(it).st_mode & 0o077]
    must('what the server makes is for its own user alone', made and not open_to_others, open_to_others[:4] or len(made))

play(attack)
