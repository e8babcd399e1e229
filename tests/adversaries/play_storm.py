"""Two flows, business keys, undo, lists, calls, events and callbacks under lost answers, stopped and killed servers and pausing operators.

Oracle: after everything is healed, no run is active, no effect is pending, no name is held, nothing waits in the outbox, every order was charged under one key once (the
destination counts distinct Idempotency-Keys), each event has its receiver."""
from harness import *
from losing import Losing
import random
SECONDS, ORDERS, SEED = float(os.environ.get("SECONDS", 60)), int(os.environ.get("ORDERS", 25)), int(os.environ.get("SEED", 7))
rng = random.Random(SEED)
pg = Pg(); migrate(pg)
proxies = [Losing(pg.port, seed=SEED + i) for i in range(2)]
servers = [Server(pg, chr(97 + i), db_port=p.port, SEMEL_LEASE="3s", SEMEL_SETTLE_MARGIN="2s", SEMEL_CAPACITY="64") for i, p in enumerate(proxies)]
calm = Server(pg, "calm", SEMEL_LEASE="3s", SEMEL_SETTLE_MARGIN="2s", SEMEL_CAPACITY="1")
charged, sent, lock = {}, [0], threading.Lock()
acts = {}
def answer(method, path, body, headers, n):
    key = headers.get("idempotency-key", "")
    with lock:
        sent[0] += 1
        if path == "/charges":
            order = json.loads(body)["order"]; charged.setdefault(order, set()).add(key)
        r = rng.random()
        if path == "/acts": o = json.loads(body)["order"]; acts[o] = acts.get(o, 0) + 1
    if path.startswith("/acts?"):
        o = path.split("order=")[1]
        return 200, {"items": [1] * min(acts.get(o, 0), 1)}
    time.sleep(r * 0.2)
    if r < 0.06: return None
    if r < 0.10 and path != "/acts": return 503, {"busy": 1}
    return 200, {"id": "ch_" + key[-8:]}
d = Destination(answer)
step = f"""
  - id: charge
    key: '"charge/" + input.order'
    scope: namespace
    http: {{ post: '{d.url}/charges', json: {{ order: '${{{{ input.order }}}}' }}, timeout: 5s }}
    guard: key
    result: response.json
    external_id: result.id
"""
head = "retry: { attempts: 50, delay: 100ms, max_delay: 1s, within: 1d }\n"
for name in ("one", "two"):
    flow(calm, name, f"flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n{head}steps:{step}  - {{ id: told, emit: {{ event: charged, data: {{ id: '${{{{ input.id }}}}' }} }} }}\n  - {{ id: n, kv: {{ add: '{name}' }} }}\n")
flow(calm, "hears", "flow: hears\ntrigger:\n  event: { name: charged, key: input.id }\n" + head + "steps:\n  - { id: n, kv: { add: heard } }\n")
flow(calm, "lists", f"flow: lists\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n{head}steps:\n  - id: each\n    foreach:\n      in: input.orders\n      as: order\n      key: order\n      on_error: collect\n      steps:\n        - id: charge\n          key: '\"charge/\" + order'\n          scope: namespace\n          http: {{ post: '{d.url}/charges', json: {{ order: '${{{{ order }}}}' }}, timeout: 5s }}\n          guard: key\n          result: response.json\n  - {{ id: sub, call: {{ flow: sub, input: {{ id: '${{{{ input.id }}}}' }} }} }}\n")
flow(calm, "sub", "flow: sub\ntrigger: { api: { key: input.id } }\n" + head + "steps:\n  - { id: n, kv: { add: subs } }\n")
flow(calm, "probed", f"flow: probed\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n{head}steps:\n  - id: act\n    key: '\"act/\" + input.order'\n    http: {{ post: '{d.url}/acts', json: {{ order: '${{{{ input.order }}}}' }}, timeout: 5s }}\n    guard: probe\n    probe:\n      http: {{ get: '{d.url}/acts?order=${{{{ input.order }}}}' }}\n      found: probe.json.items.size() > 0\n  - {{ id: n, kv: {{ add: probed }} }}\n")
flow(calm, "reviewed", f"flow: reviewed\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\n{head}steps:\n  - id: act\n    http: {{ post: '{d.url}/acts', json: {{ order: 'r-${{{{ input.id }}}}' }}, timeout: 5s }}\n    guard: review\n  - {{ id: n, kv: {{ add: reviewed }} }}\n")
time.sleep(1)
over = [False]; accepted = {}
def sender(w):
    r = random.Random(SEED * 100 + w); n = 0
    while not over[0]:
        n += 1; i = f"{w}-{n}"; order = f"o{r.randrange(ORDERS)}"
        name = r.choice(["one", "two", "one", "two", "lists", "probed", "probed", "reviewed"])
        body = {"id": i, "order": order, "orders": [f"o{r.randrange(ORDERS)}" for _ in range(4)]}
        body["orders"] = sorted(set(body["orders"]))
        for _ in range(200):
            if over[0]: return
            try:
                code, text = http_json("POST", f"{r.choice(servers).url}/hooks/default/{name}", body, timeout=5)
                if code < 300: accepted[(name, i)] = re.search(r"run_[0-9a-f]+", text).group(0); break
            except Exception: pass
            time.sleep(0.1)
        time.sleep(r.random() * 0.5)
senders = [threading.Thread(target=sender, args=(w,), daemon=True) for w in range(4)]
[t.start() for t in senders]
for p in proxies: p.rate = 0.02
end = time.time() + SECONDS; stats = {"stop": 0, "kill": 0, "pause": 0}
while time.time() < end:
    time.sleep(rng.uniform(1, 3)); s = rng.choice(servers); what = rng.random()
    if what < 0.35:
        stats["stop"] += 1; s.pause(); time.sleep(rng.uniform(2, 6)); s.cont()
    elif what < 0.65:
        stats["kill"] += 1; s.kill(); time.sleep(rng.uniform(0.2, 2)); s.start()
    elif what < 0.9:
        stats["pause"] += 1; f = rng.choice(["one", "two", "lists"])
        cli(calm, "flow", "pause", f, "--reason", "storm"); time.sleep(rng.uniform(0.5, 3)); cli(calm, "flow", "resume", f)
over[0] = True
for p in proxies: p.rate = 0.0
for s in servers: s.cont()
log("storm over:", stats, "accepted", len(accepted), "lost", [sum(p.lost.values()) for p in proxies])
log("kinds:", sorted(((k, v) for p in proxies for k, v in p.lost.items()), key=lambda x: -x[1])[:25])
for f in ("one", "two", "lists"): cli(calm, "flow", "resume", f)
lost_wakeups = set()
def nudge():
    rows = pg.sql("""select r.id from runs r join queue q on q.run_id=r.id join waits w on w.run_id=r.id where r.state='active' and w.state='answered' and q.holder is null
                     and q.stage='waiting' and w.ended_at < moment() - interval '10 seconds'
                     and w.step not in (select e->>'step' from journal j, json_array_elements(j.events) e where j.partition_date=r.partition_date and j.run_id=r.id and e->>'event'='wait_ended')""")
    for (r,) in rows:
        lost_wakeups.add(r); pg.sql(f"update queue set due_at=moment(), stage='ready' where run_id='{r}' and holder is null")
    return True
quiet = until(lambda: nudge() and pg.one("select count(*) from runs where state='active'") == "0" and pg.one("select count(*) from outbox") == "0", 150, 1)
states = pg.sql("select f.name, r.state, count(*) from runs r join releases l on l.id=r.release_id join flows f on f.id=l.flow_id group by 1,2 order by 1,2")
log("states", states)
names = pg.sql("select state, count(*) from named_effects group by 1"); waiters = pg.one("select count(*) from named_effect_waiters"); notices = pg.one("select count(*) from named_effect_notices")
log("names", names, "waiters", waiters, "notices", notices, "outbox", pg.one("select count(*) from outbox"), "queue", pg.sql("select stage, count(*), count(holder) from queue group by 1"))
twice = {o: len(k) for o, k in charged.items() if len(k) != 1}
missing = [k for k, run in accepted.items() if state(pg, run) is None]
counts = {e: pg.one(f"select value from kv where entry='{e}'") for e in ("one", "two", "heard", "subs")}
ok_runs = {n: sum(int(c) for f, s, c in states if f == n and s == "succeeded") for n in ("one", "two", "hears", "sub", "lists")}
log("kv", counts, "succeeded", ok_runs, "orders", len(charged), "requests", sent[0])
bad = []
if lost_wakeups: bad.append(f"{len(lost_wakeups)} runs slept although their wait was answered; woken by hand")
double = {o: n for o, n in acts.items() if n != 1 and not o.startswith("r-")}; dr = {o: n for o, n in acts.items() if o.startswith("r-") and n > 1}
if double or dr: bad.append(f"acts at a destination that honours no key: {double} {dr}")
if not quiet: bad.append("does not come to rest")
if twice: bad.append(f"orders under several keys: {twice}")
if missing: bad.append(f"{len(missing)} acknowledged deliveries have no run")
if any(s != "succeeded" and not (f == "reviewed" and s == "in_doubt") for f, s, _ in states): bad.append(f"not succeeded: {[x for x in states if x[1] != 'succeeded' and x[0] != 'reviewed']}")
if waiters != "0" or notices != "0" or any(s in ("pending", "in_doubt") for s, _ in names): bad.append(f"names {names} waiters {waiters} notices {notices}")
for e, f in (("one", "one"), ("two", "two"), ("heard", "hears"), ("subs", "sub")):
    if int(counts[e] or 0) != ok_runs[f]: bad.append(f"kv {e} = {counts[e]}, runs {ok_runs[f]}")
if ok_runs["hears"] != ok_runs["one"] + ok_runs["two"]: bad.append(f"events heard {ok_runs['hears']} of {ok_runs['one'] + ok_runs['two']}")
for s in servers + [calm]:
    p = [l for l in s.logs().splitlines() if "panicked" in l or "ERROR" in l]
    if p: log("log of", s.name, p[:5])
verdict("storm", bool(bad), "; ".join(bad) or f"{len(accepted)} deliveries, {sum(sum(p.lost.values()) for p in proxies)} lost answers, {stats}")
