"""A doubt that an operator settled as `fail`: the customer's data can be erased, and the next run neither asks nor acts."""
from ground import *

def attack():
    cluster = Cluster()
    destination = Destination(lambda *_: (500, {}, b'CANARYanswer'))
    server = Server(cluster, LOOPBACK)
    server.flow('two', f'''flow: two
trigger:
  webhook: {{ auth: none, key: input.id }}
steps:
  - id: charge
    key: '"charge/" + input.customer'
    scope: namespace
    http: {{ post: "{destination.url}/d", json: {{ card: "${{{{ input.card }}}}" }} }}
    guard: review
''')
    send = lambda name: server.hook('two', {'id': name, 'customer': 'ada', 'card': 'CANARYcard'})[1]['run']
    run = send('cust')
    doubt = until(lambda: server.http.get('/v1/doubts')[1]['items'], 20)[0]['effect']
    settled = server.http.post(f'/v1/effects/{doubt}/settle', {'verdict': 'fail', 'reason': 'given up'})
    must('the doubt is settled as fail', settled[0] == 200, settled)
    must('and the run fails', until(lambda: server.run_of(run)['state'] == 'failed', 20))
    # What was given up may still arrive for its landing window: the lease, the time limit of the request, and room.
    erased = until(lambda: (lambda it: it if it[0] == 200 else None)(server.http.post(f'/v1/runs/{run}/erase', {'reason': 'customer asked'})), 180, 1)
    must('the run is erased', erased, erased or server.http.post(f'/v1/runs/{run}/erase', {'reason': 'customer asked'}))
    left = {line.split(' ')[2] for line in cluster.dump().decode('utf-8', 'replace').split('\n') if 'CANARY' in line and line.startswith('INSERT')}
    must('neither the card nor the answer is in the database', not left, left or '')
    sent = len(destination.seen)
    later = server.ended(send('later'))
    # The business key itself is still in doubt: who comes next stands behind it, until an operator settles the key.
    must('the next run of the business key waits for an operator', later['state'] in ('waiting', 'needs_review', 'in_doubt'), (later['state'], later.get('waits_for_key') or fault(later)))
    time.sleep(3)
    must('and sends nothing', len(destination.seen) == sent, len(destination.seen) - sent)

play(attack)
