"""Events of one namespace beside large events of another, each of which a hundred flows look at slowly.

All of them arrive, and the slowest hundredth of the neighbour's two hundred takes at most a second longer than in quiet."""
from harness import *
import concurrent.futures as cf

EVENTS, FLOWS, NEIGHBOURS = (int(os.environ.get(name, usual)) for name, usual in (("EVENTS", 150), ("FLOWS", 100), ("NEIGHBOURS", 200)))
WATCH = float(os.environ.get("WATCH", 300))
pg, a = world(1)
token = secret_of(cli(a, "namespace", "create", "--admin", "boss", "tenant", "--json")) or sys.exit("no token of the other namespace")

flow(a, "src", """flow: src
trigger: { api: { key: input.id } }
steps:
  - { id: tell, emit: { event: big.one, data: '${{ input }}' } }
""", token=token)
for i in range(FLOWS):
    flow(a, f"r{i}", f"""flow: r{i}
trigger:
  event: {{ name: big.one, when: 'input.rows.exists(x, x == 1)' }}
steps:
  - {{ id: mark, kv: {{ add: got }} }}
""", token=token)

# The neighbour: an event and its receiver, whose run has the key of the run that told it.
flow(a, "ping", """flow: ping
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - { id: tell, emit: { event: ping, data: { id: '${{ input.id }}' } } }
""")
flow(a, "pong", """flow: pong
trigger:
  event: { name: ping, key: input.id }
steps:
  - { id: mark, kv: { add: pong } }
""")

TOOK = """
    with of_flow as (
        select f.name, convert_from(r.key, 'UTF8') as key, r.accepted_at, r.ended_at
          from runs r join releases l on l.id = r.release_id join flows f on f.id = l.flow_id)
    select extract(epoch from pong.ended_at - ping.accepted_at)
      from of_flow ping join of_flow pong on pong.key = ping.key and pong.name = 'pong' and pong.ended_at is not null
     where ping.name = 'ping' and ping.key like '%s-%%'"""


def play(prefix):
    """Sends the neighbour's events at one pace. Gives how many arrived, and the slowest hundredth of them in seconds."""
    for i in range(NEIGHBOURS):
        http_json("POST", f"{a.url}/hooks/default/ping", {"id": f"{prefix}-{i}"})
        time.sleep(0.05)
    until(lambda: len(pg.sql(TOOK % prefix)) == NEIGHBOURS, 120, 1)
    took = sorted(float(row[0]) for row in pg.sql(TOOK % prefix))
    return len(took), took[len(took) * 99 // 100] if took else float("inf")


def send(i):
    with open(f"{WORK}/e{i}.json", "w") as file:
        file.write('{"id":"e%d","rows":[' % i + ",".join(["0"] * 30_000) + "]}")
    return cli(a, "run", "start", "src", "--input", f"@{WORK}/e{i}.json", "--json", token=token).code


play("warm")
_, quiet = play("quiet")
with cf.ThreadPoolExecutor(4) as pool:
    sent = [pool.submit(send, i) for i in range(EVENTS)]
    until(lambda: sum(it.done() for it in sent) > EVENTS // 5, 120)
    arrived, beside = play("beside")
is_empty = until(lambda: pg.one("select count(*) from outbox") == "0", WATCH, 1)
log(f"p99 {quiet:.2f} s in quiet, {beside:.2f} s beside; {arrived} of {NEIGHBOURS} arrived")
verdict("outbox-neighbours", arrived < NEIGHBOURS or beside > quiet + 1 or not is_empty,
        f"{arrived} of {NEIGHBOURS} events arrived, p99 {beside:.2f} s beside {EVENTS} large ones, {quiet:.2f} s in quiet; outbox {'empty' if is_empty else 'not empty'}")
