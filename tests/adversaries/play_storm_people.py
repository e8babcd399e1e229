"""Callbacks, approvals, tasks, events and lists under lost answers, stopped and killed servers and pauses: nothing that was acknowledged is left without effect.

Runs that sleep although their wait is answered are counted and woken by hand, so that other faults show."""
from harness import *
from losing import Losing
import random
SECONDS, SEED = float(os.environ.get("SECONDS", 60)), int(os.environ.get("SEED", 5))
rng = random.Random(SEED); pg = Pg(); migrate(pg)
proxies = [Losing(pg.port, seed=SEED + i) for i in range(2)]
servers = [Server(pg, chr(97 + i), db_port=p.port, SEMEL_LEASE="3s", SEMEL_SETTLE_MARGIN="2s", SEMEL_CAPACITY="64", SEMEL_PUBLIC_URL="http://127.0.0.1:1") for i, p in enumerate(proxies)]
calm = Server(pg, "calm", SEMEL_LEASE="3s", SEMEL_SETTLE_MARGIN="2s", SEMEL_CAPACITY="1", SEMEL_PUBLIC_URL="http://127.0.0.1:1")
head = "trigger:\n  webhook: { auth: none, key: input.id }\nretry: { attempts: 50, delay: 100ms, max_delay: 1s, within: 1d }\nsteps:\n"
flow(calm, "people", "flow: people\n" + head + """  - { id: told, kv: { set: "u/${{ input.id }}", value: { one: "${{ waits.one.url }}", two: "${{ waits.two.url }}" } } }
  - { id: one, wait: { callback: true, within: 1d } }
  - { id: work, task: { queue: q, input: { id: "${{ input.id }}" }, within: 1d } }
  - { id: yes, approval: { from: [first], show: { id: "${{ input.id }}" }, within: 1d } }
  - { id: two, wait: { callback: true, within: 1d } }
  - id: each
    foreach: { in: input.items, as: item, key: item, parallel: 3, steps: [ { id: m, kv: { add: items } } ] }
  - { id: sub, call: { flow: sub, input: { id: "${{ input.id }}" } } }
  - { id: n, kv: { add: through } }
""")
flow(calm, "sub", "flow: sub\ntrigger: { api: { key: input.id } }\nsteps:\n  - { id: n, kv: { add: subs } }\n")
time.sleep(1); over = [False]; accepted = set(); acked = {}; errors = {}
def call(method, path, body=None, tok=True, tries=100):
    for _ in range(tries):
        s = rng.choice(servers)
        try:
            code, text = http_json(method, s.url + path, body, token=admin() if tok else None, timeout=5)
            if code < 500 and code != 429: return code, text
        except Exception: pass
        time.sleep(0.1)
    return 0, ""
def sender(w):
    n = 0
    while not over[0]:
        n += 1; i = f"{w}-{n}"
        code, _ = call("POST", "/hooks/default/people", {"id": i, "items": ["a", "b", "c"]}, tok=False)
        if code and code < 300: accepted.add(i)
        time.sleep(rng.random() * 0.3)
def caller():
    done = set()
    while not over[0] or len(done) < len(accepted):
        for e, v in pg.sql("select entry, value from kv where entry like 'u/%'"):
            if e in done: continue
            u = json.loads(v); done.add(e)
            def both(u=u, e=e):
                for k in ("two", "one"):
                    code, text = call("POST", "/" + u[k].split("/", 3)[3], {"k": k}, tok=False); acked[(e, k)] = code
            threading.Thread(target=both, daemon=True).start()
        time.sleep(0.2)
        if stop[0]: return
def worker(w):
    while not stop[0]:
        code, text = call("POST", "/v1/tasks/claim", {"queue": "q", "worker": f"w{w}", "max": 3, "lease": "5s"}, tries=3)
        if code != 200: time.sleep(0.2); continue
        ts = json.loads(text).get("tasks", [])
        for t in ts:
            c, x = call("POST", f"/v1/tasks/{t['task']}/complete", {"token": t["token"], "result": {"ok": 1}}); errors[("task", c)] = errors.get(("task", c), 0) + 1
        if not ts: time.sleep(0.2)
def boss():
    while not stop[0]:
        code, text = call("GET", "/v1/approvals?limit=100", tries=3)
        if code == 200:
            for a in json.loads(text).get("items", json.loads(text).get("approvals", [])):
                i = a["approval"]; c, x = call("POST", f"/v1/approvals/{i}/decide", {"approved": True, "digest": a["digest"]}); errors[("approval", c)] = errors.get(("approval", c), 0) + 1
                if c not in (200, 202, 409): errors["last"] = x[:200]
        else: errors[("list", code)] = text[:100]
        time.sleep(0.3)
stop = [False]
ts = [threading.Thread(target=sender, args=(w,), daemon=True) for w in range(3)] + [threading.Thread(target=caller, daemon=True), threading.Thread(target=boss, daemon=True)] + [threading.Thread(target=worker, args=(w,), daemon=True) for w in range(2)]
[t.start() for t in ts]
for p in proxies: p.rate = 0.02
end = time.time() + SECONDS; stats = {"stop": 0, "kill": 0, "pause": 0}
while time.time() < end:
    time.sleep(rng.uniform(1, 3)); s = rng.choice(servers); x = rng.random()
    if x < 0.4: stats["stop"] += 1; s.pause(); time.sleep(rng.uniform(2, 6)); s.cont()
    elif x < 0.7: stats["kill"] += 1; s.kill(); time.sleep(rng.uniform(0.2, 2)); s.start()
    else: stats["pause"] += 1; cli(calm, "flow", "pause", "people", "--reason", "s"); time.sleep(rng.uniform(0.5, 2)); cli(calm, "flow", "resume", "people")
over[0] = True
for p in proxies: p.rate = 0
for s in servers: s.cont()
cli(calm, "flow", "resume", "people")
lost = set()
def nudge():
    for (r,) in pg.sql("""select r.id from runs r join queue q on q.run_id=r.id join waits w on w.run_id=r.id where r.state='active' and w.state='answered' and q.holder is null and q.stage='waiting'
          and w.ended_at < moment() - interval '8 seconds' and w.step not in (select e->>'step' from journal j, json_array_elements(j.events) e where j.partition_date=r.partition_date and j.run_id=r.id and e->>'event'='wait_ended')
          and w.step in (select e->>'step' from journal j, json_array_elements(j.events) e where j.partition_date=r.partition_date and j.run_id=r.id and e->>'event' in ('wait_opened','started'))"""):
        lost.add(r); pg.sql(f"update queue set due_at=moment(), stage='ready' where run_id='{r}' and holder is null")
quiet = until(lambda: nudge() or pg.one("select count(*) from runs where state='active'") == "0", 150, 1)
stop[0] = True
log("storm", stats, "lost", [sum(p.lost.values()) for p in proxies], "accepted", len(accepted), "acks", {c: list(acked.values()).count(c) for c in set(acked.values())}, errors)
st = pg.sql("select f.name, r.state, count(*) from runs r join releases l on l.id=r.release_id join flows f on f.id=l.flow_id group by 1,2 order by 1,2"); log(st, "kv", pg.sql("select entry, value from kv where entry in ('through','items','subs')"))
left = pg.sql("select r.id, q.stage, q.due_at, q.holder is not null, q.stalled_takes from runs r join queue q on q.run_id=r.id where r.state='active' limit 8")
for l in left:
    log(l); last = pg.one(f"select events::text from journal where run_id='{l[0]}' order by seq desc limit 1"); log("   last:", (last or "")[:200]); log("   tasks", pg.sql(f"select state, attempt from tasks where run_id='{l[0]}'"), "approvals", pg.sql(f"select state from approvals where run_id='{l[0]}'"), "waits", pg.sql(f"select step, state from waits where run_id='{l[0]}'"))
n = len(accepted); kv = dict(pg.sql("select entry, value from kv where entry in ('through','items','subs')"))
bad = []
if lost: bad.append(f"{len(lost)} runs slept although their wait was answered; woken by hand")
if not quiet: bad.append(f"{len(left)}+ runs do not end")
ok = sum(int(c) for f, s, c in st if f == "people" and s == "succeeded")
if any(s not in ("succeeded",) for f, s, c in st): bad.append(f"states {[x for x in st if x[1] != 'succeeded']}")
for s in servers + [calm]:
    p = [l for l in s.logs().splitlines() if "panicked" in l or " ERROR " in l]
    if p: log("log of", s.name, len(p), [x[:200] for x in p[:3]])
verdict("storm-people", bool(bad), "; ".join(bad) or f"{n} runs")
