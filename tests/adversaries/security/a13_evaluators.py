"""Hostile flows, payloads and answers: YAML, CEL, regular expressions, schemas, gzip, deep and wide JSON. Each must end soon, in little memory, with an answer.

SECONDS (20) is what one may take: everything took less than 0.3 s where this was written, and minutes are what a bomb takes."""
from ground import *
import gzip, zlib

SECONDS = float(os.environ.get('SECONDS', 20))
# What one hostile text may cost, in MiB.
GROWTH = 256
HEAD = 'flow: x\ntrigger:\n  api: { key: input.id }\nsteps:\n  - id: a\n    function: >-\n      %s\n'
NINE = '[1,2,3,4,5,6,7,8,9]'

def files():
    yield 'aliases', 'a: &a [x,x]\n' + ''.join(f'b{i}: &b{i} [*a,*a,*a,*a]\n' for i in range(20))
    yield 'nested aliases', 'a0: &a0 [x,x]\n' + ''.join(f'a{i}: &a{i} [*a{i - 1},*a{i - 1}]\n' for i in range(1, 40))
    yield 'a deep sequence', '[' * 100000
    yield 'a deep map on a line', 'a: ' * 50000
    yield '300 kB', 'x: "' + 'y' * 300000 + '"'
    yield 'a deep block sequence', '- ' * 60000
    yield 'deep complex keys', '? ' * 30000
    yield 'a tag', '!!python/object/apply:os.system ["id"]'
    yield 'escapes', '"' + '\\u0041' * 40000
    yield 'many lines', 'a: |\n' + ' x\n' * 80000
    yield 'nested brackets', HEAD % ('(' * 3000 + '1' + ')' * 3000)
    yield 'nots', HEAD % ('!' * 3900 + 'true')
    yield 'minus', HEAD % ('-' * 3900 + '1')
    yield 'lists', HEAD % ('[' * 1500 + ']' * 1500)
    yield 'ternaries', HEAD % ('true?1:' * 900 + '1')
    yield 'nested comprehensions', HEAD % f'{NINE}.map(a,{NINE}.map(b,{NINE}.map(c,[1,2,3].map(d,d))))'
    yield 'regex (a+)+', HEAD % "input.x.matches('(a+)+$')"
    yield 'regex x{1,1000}{1,1000}', HEAD % "input.x.matches('(x{1,1000}){1,1000}')"
    for reference in ('file:///etc/passwd', 'http://169.254.169.254/', '#/definitions/a'):
        yield 'a schema that refers to ' + reference, ('flow: x\ntrigger:\n  api: { key: input.id }\ninput_schema: { $ref: "' + reference
               + '", definitions: { a: { $ref: "#/definitions/a" } } }\nsteps:\n  - id: a\n    function: "1"\n')

def checked():
    """`semel check` of each, in 4 GB of address space."""
    for label, text in files():
        file, begun = put(os.path.join(WORK, 'x.flow.yaml'), text), time.time()
        try: ran = subprocess.run(['prlimit', '--as=4000000000', BIN, 'check', '--json', file], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired: ran = None
        took = time.time() - begun
        # A signal or a panic is no answer.
        answered = ran and 0 <= ran.returncode <= 20 and ran.stdout.startswith('{')
        must(f'check answers: {label}', answered and took < SECONDS, ran and (ran.returncode, f'{took:.1f} s', ran.stderr[:80]))

def bomb():
    packer, zeros = zlib.compressobj(9, zlib.DEFLATED, 31), bytes(1 << 20)
    return b''.join(packer.compress(zeros) for _ in range(1500)) + packer.flush()

def attack():
    checked()
    bombs, json_type = bomb(), {'content-type': 'application/json'}
    answers = {'bomb': ({**json_type, 'content-encoding': 'gzip'}, bombs), 'deep': (json_type, b'[' * 500000 + b']' * 500000),
               'wide': (json_type, b'[' + b'[],' * 330000 + b'[]]'), 'heads': ({f'x-{i}': 'a' * 3000 for i in range(90)}, b'{}')}
    destination = Destination(lambda method, path, headers, body: (200, *answers[path.strip('/')]))
    server = Server(Cluster(), {**LOOPBACK, 'SEMEL_MEMORY': '512', 'SEMEL_HOOK_RATE': '0'})
    def bounded(label, work):
        begun = time.time()
        gave, grown = server.memory_of(work)
        took = time.time() - begun
        must(f'{label}: bounded', took < 2 * SECONDS and grown <= GROWTH, f'{took:.1f} s, {grown} MiB')
        return gave
    server.flow('g', f'flow: g\ntrigger:\n  api: {{ key: input.id }}\nretry: {{ attempts: 1 }}\nsteps:\n  - id: a\n    http: {{ get: "{destination.url}/${{{{ input.p }}}}" }}\n')
    for name in answers:
        run = bounded('the answer ' + name, lambda: server.run('g', {'id': name, 'p': name}, wait='40s'))
        must(f'the run with the answer {name} ends', server.ended(run['run'])['state'] not in ('active', 'running'), (run.get('state'), fault(run)))
    expressions = {'square': 'input.l.map(a, input.l.map(b, a))', 'exists': 'input.l.exists(a, input.l.exists(b, a == b && a == -1))', 'regex': 'input.s.matches("^(a|aa)+$")',
                   'join': 'input.l.map(a, input.s)', 'print': 'fingerprint(input.l.map(a, input.l))', 'sort': 'input.l.filter(a, a in input.l)'}
    body = lambda name: json.dumps({'id': name, 'l': list(range(60000)), 's': 'a' * 300000}).encode()
    taken = []
    for name, expression in expressions.items():
        refusal = server.try_flow(name, f'flow: {name}\ntrigger:\n  webhook: {{ auth: none, key: input.id }}\nsteps:\n  - id: a\n    function: >-\n      {expression}\n')
        if refusal:
            say('refused when it is published:', name, refusal[1].get('code'))
            continue
        taken.append(name)
        status, answer = bounded('the expression ' + name, lambda: server.hook(name, body(name)))
        run = answer.get('run') and server.ended(answer['run'], SECONDS)
        must(f'the run of the expression {name} ends', status >= 400 or run['state'] not in ('active', 'running'), (status, run and (run['state'], fault(run))))
    must('some of these were published', taken, taken)
    server.flow('hook', 'flow: hook\ntrigger:\n  webhook: { auth: none, key: input.id }\nsteps:\n  - id: a\n    function: "1"\n')
    for label, (data, is_taken) in {
        '1 MiB of [': (b'[' * (1 << 20), False), '65 deep': (b'{"id":' + b'[' * 65 + b']' * 65 + b'}', False), 'many members': (b'{' + b','.join(b'"k%d":1' % i for i in range(80000)) + b',"id":"m"}', None),
        'wide': (b'{"id":"w","x":[' + b'[],' * 340000 + b'[]]}', None), '1e400': (b'{"id":1e400}', False), 'half a surrogate': (b'{"id":"\\ud800"}', False), 'a zero': (b'{"id":"a\\u0000b"}', None),
        'no UTF-8': (b'{"id":"\xff"}', False), 'a member twice': (b'{"id":"a","id":"b"}', False),
    }.items():
        status, answer = bounded('the payload ' + label, lambda: server.hook('hook', data))
        must(f'the payload {label} is answered', 200 <= status < 500 and (is_taken is None or (status < 300) == is_taken), (status, answer.get('code') if isinstance(answer, dict) else ''))
    bounded('40 bodies at once', lambda: at_once([lambda: server.hook('hook', b'[' * (1 << 20))] * 40))
    must('the server lives', server.http.get('/healthz')[0] == 200 and server.process.poll() is None)

play(attack)
