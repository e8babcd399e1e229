"""Hostile texts in every place that senders, destinations and operators write, looked at with a real browser; forged forms, framing and foreign hosts.

Needs chromium (CHROME names another one); it is spoken to by pipes."""
from ground import *
import fcntl

CHROME = need('chromium', os.environ.get('CHROME') or shutil.which('chromium') or shutil.which('chromium-browser') or shutil.which('google-chrome'))
TEXTS = ['<script>alert(1)</script>', '"><img src=x onerror=alert(2)>', "'-alert(3)-'", '</title><svg onload=alert(4)>', 'javascript:alert(5)', '{{7*7}}${7*7}<%= 7*7 %>',
         '<iframe srcdoc="<script>alert(6)</script>">', '</textarea></pre></code></bdi><details open ontoggle=alert(7)>', '<a href="javascript:alert(8)">x</a>',
         '<meta http-equiv=refresh content="0;url=https://evil.test">', '<base href=https://evil.test>', '<form action=https://evil.test><button>', '\u2028alert(9)//',
         '<style>@import "https://evil.test"</style>', '&lt;script&gt;alert(10)&lt;/script&gt;', '%3Cscript%3Ealert(11)%3C/script%3E', '<svg><animate onbegin=alert(12) attributeName=x dur=1s>',
         '<math><mtext></table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(13)&gt;">', '\u202e<script>alert(14)</script>', '"autofocus onfocus=alert(15) x="']
quoted = lambda text: urllib.parse.quote(text, safe='')

class Browser:
    """A headless browser with one page; commands and events of its protocol end with a zero byte."""
    def __init__(self):
        (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
        # Out of the way of the two numbers that the browser knows its pipes by.
        reads, writes = (fcntl.fcntl(it, fcntl.F_DUPFD, 50) for it in (theirs_in, theirs_out))
        def place():
            os.dup2(reads, 3)
            os.dup2(writes, 4)
        started(CHROME, '--headless=new', '--no-sandbox', '--disable-gpu', '--no-first-run', '--remote-debugging-pipe', f"--user-data-dir={os.path.join(WORK, 'chrome')}",
                '--host-resolver-rules=MAP evil.test 127.0.0.1, EXCLUDE 127.0.0.1', 'about:blank',
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=place, close_fds=False)
        for it in (reads, writes, theirs_in, theirs_out): os.close(it)
        self.out, self.into, self.rest, self.count, self.events, self.session = ours_out, ours_in, b'', 0, [], None
        target = self.command('Target.createTarget', url='about:blank')['targetId']
        self.session = self.command('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Log', 'Network'): self.command(domain + '.enable')
    def send(self, method, **parameters):
        self.count += 1
        message = {'id': self.count, 'method': method, 'params': parameters, **({'sessionId': self.session} if self.session else {})}
        os.write(self.out, json.dumps(message).encode() + b'\0')
        return self.count
    def command(self, method, **parameters):
        me = self.send(method, **parameters)
        while True:
            while b'\0' not in self.rest:
                data = os.read(self.into, 1 << 16)
                if not data: raise RuntimeError('the browser ended')
                self.rest += data
            one, self.rest = self.rest.split(b'\0', 1)
            message = json.loads(one)
            if message.get('id') == me: return message.get('result', message.get('error'))
            if 'method' in message: self.events.append(message)
            if message.get('method') == 'Page.javascriptDialogOpening': self.send('Page.handleJavaScriptDialog', accept=True)
    def go(self, url, seconds=0.6):
        """Opens a page, and gives what happened."""
        self.events.clear()
        self.command('Page.navigate', url=url)
        end = time.time() + seconds
        while time.time() < end:
            self.command('Runtime.evaluate', expression='1')
            time.sleep(0.05)
        return list(self.events)
    def js(self, expression):
        return ((self.command('Runtime.evaluate', expression=expression, returnByValue=True, awaitPromise=True) or {}).get('result') or {}).get('value')

def fill(server, url):
    """Puts every text everywhere; runs, and the run that waits for an approval."""
    server.flow('x', f'''flow: x
about: {json.dumps(' '.join(TEXTS)[:900])}
trigger:
  webhook: {{ auth: none, key: input.id }}
steps:
  - id: a
    about: {json.dumps(TEXTS[0] + TEXTS[3])}
    http: {{ post: "{url}/ok", json: {{ all: "${{{{ input.all }}}}" }} }}
    guard: review
    external_id: result.json.id
  - id: r
    http: {{ post: "{url}/refuse", json: {{ all: "${{{{ input.all }}}}" }} }}
    guard: review
''')
    server.flow('ap', '''flow: ap
trigger:
  webhook: { auth: none, key: input.id }
steps:
  - id: url
    function: waits.ask.url
  - id: ask
    approval: { from: ['<script>alert(20)</script>', boss], login: false, show: "${{ input }}", within: 1h }
''')
    runs = []
    for text in TEXTS:
        runs.append(server.hook('x', {'id': text, 'all': TEXTS, text: text})[1].get('run'))
        server.hook('x', {'id': text, 'all': TEXTS, 'other': text})
        name = text[:100].replace('\u2028', '')
        server.http.post('/v1/tokens', {'name': name, 'groups': [name], 'rights': ['read']})
    asked = server.hook('ap', {'id': TEXTS[0], 'all': TEXTS, TEXTS[1]: TEXTS[7]})[1]['run']
    for text in TEXTS[:6]:
        server.http.put('/v1/searches/' + quoted(text), {'query': 'key:' + text, 'shared': True})
        for act in ('pause', 'resume'): server.http.post(f'/v1/flows/x/{act}', {'reason': text})
    server.http.put('/v1/connections/evil', {'connection': {'to': {'http': {'base_url': url + '/'}}, 'find_url': 'https://evil.test/{external_id}?{key}'}})
    runs = [it for it in runs if it]
    for run in runs: server.ended(run)
    return runs, asked

def look(server, browser, base, runs, asked):
    """Every page, with every text in it."""
    effects = [it['effect'] for it in server.http.get('/v1/effects?limit=100')[1]['items']]
    names = ('runs doubts approvals duplicates effects flows flows/x flows/x/releases refusals waits tasks events searches jobs jobs/new replays settings audit audit/chain '
             'tokens people servers connections connections/evil secrets schedules subscriptions').split()
    pages = ['/', *('/' + it for it in names), *(f'/runs/{it}' for it in [*runs, asked]), *(f'/runs/{runs[0]}/{it}' for it in ('duplicates', 'items', 'replay')),
             *(f'/effects/{it}' for it in effects[:25]), *(f'/{it}={quoted(text)}' for text in TEXTS for it in ('runs?q', 'keys?key')),
             *(f'/nothing/{quoted(text)}' for text in TEXTS[:5]), f'/flows/x?q={quoted(TEXTS[1])}']
    dialogs, errors, elsewhere, shown = [], [], [], 0
    for page in pages:
        for event in browser.go(base + '/console/default' + page, 0.3):
            what, more = event['method'], event['params']
            if what == 'Page.javascriptDialogOpening': dialogs.append((page, more['message']))
            if what == 'Runtime.exceptionThrown': errors.append((page, json.dumps(more)[:200]))
            if what == 'Network.requestWillBeSent' and not more['request']['url'].startswith((base, 'data:', 'about:')): elsewhere.append((page, more['request']['url'][:80]))
        shown += 'alert(' in (browser.js('document.body.innerText') or '')
    must(f'{len(pages)} pages with {len(TEXTS)} hostile texts run nothing', not dialogs, dialogs[:5])
    must('many of them show the texts as such', shown > 20, shown)
    must('nor do they ask anybody else', not elsewhere, elsewhere[:5])
    must('nor fail', not errors, errors[:3])
    must('no page has a script in it', browser.js('[...document.querySelectorAll("script")].filter(it => !it.src).length') == 0)

def forge(cluster, server, browser, base, link):
    """Requests of other origins: another port of this machine, and another name."""
    target = base + '/console/default/tokens'
    page = lambda text: text.encode()
    pages = {
        '/form': page(f'<form id=f method=post action="{target}"><input name=name value=forged><input name=right value=admin><input name=role value=admin></form><script>f.submit()</script>'),
        '/frame': page(f'<iframe src="{target}"></iframe><iframe src="{base}{link}"></iframe>'),
        '/fetch': page('<script>(async()=>{let o=[];for(const p of ["/console/default/json/tokens","/console/default/live?topic=runs&once=yes","/v1/tokens"])try{const r=await fetch("'
                       + base + '"+p,{credentials:"include"});o.push("READ "+(await r.text()).length)}catch(e){o.push("blocked")}document.title=o.join("; ")})()</script>'),
    }
    evil = Destination(lambda method, path, headers, body: (200, {'content-type': 'text/html'}, pages.get(path, b'')))
    for origin in (evil.url, f'http://evil.test:{evil.port}'):
        browser.go(origin + '/form', 1.0)
        must(f'a form of {origin} makes no token', cluster.sql("SELECT count(*) FROM tokens WHERE name = 'forged'") == '0')
        browser.go(origin + '/fetch', 1.5)
        title = browser.js('document.title') or ''
        must(f'a script of {origin} reads nothing', 'blocked' in title and 'READ' not in title, title)
        events = [json.dumps(it) for it in browser.go(origin + '/frame', 1.5)]
        refusals = sum('frame-ancestors' in it or 'X-Frame-Options' in it or 'Refused to frame' in it or 'ERR_BLOCKED_BY_RESPONSE' in it or '"blockedReason"' in it for it in events)
        must(f'no page is shown in a frame of {origin}', refusals >= 1, refusals)
    known('http-cookie', any('semel_dev=' in headers.get('cookie', '') for _, _, headers, _ in evil.seen), 'the session cookie of 127.0.0.1 reaches other ports of this machine')
    browser.go(f'http://evil.test:{server.port}/console', 0.8)
    text = browser.js('document.body.innerText') or ''
    must('the console does not answer under the name of somebody else', 'Sign in' not in text and 'Runs' not in text, text[:90])

def sign_in(server, base):
    """Without a browser: what the checks of forms let through."""
    def form(path, data, **headers):
        return server.http.ask('POST', path, urllib.parse.urlencode(data), {'content-type': 'application/x-www-form-urlencoded', **headers}, token=False, raw=True)
    new = lambda: server.http.post('/v1/sign-in-codes')[1]['code']
    code = new()
    has_session = lambda: any(it.startswith('semel') and not re.match(r'[^=]+=;', it) for it in server.http.cookies)
    for label, headers in {'a foreign origin': {'origin': 'http://evil.test'}, 'none': {}}.items():
        status = form('/console/sign-in', {'code': code}, **headers)[0]
        must(f'a code with {label} opens nothing', not has_session(), status)
    code = new()
    form('/console/sign-in', {'code': code}, origin=base)
    must('with its own origin it signs in', has_session())
    cookies = server.http.cookies
    must('by a cookie that scripts and other sites do not have', all('httponly' in it.lower() and 'samesite' in it.lower() for it in cookies), [re.sub(r'=[\w-]{20,}', '=…', it) for it in cookies])
    cookie = cookies[0].split(';')[0]
    form('/console/sign-in', {'code': code}, origin=base)
    must('a code works once', not has_session())
    for label, headers in {'without its token': {'origin': base}, 'of the origin null': {'origin': 'null'}}.items():
        status = form('/console/default/tokens', {'name': 'forged', 'right': 'read'}, cookie=cookie, **headers)[0]
        must(f'a form {label} is refused', 400 <= status < 500, status)
    for to in ('//evil.test', 'https://evil.test', '/console/../../evil', '/console/\\evil', '/console/x\r\nset-cookie: a=b'):
        location = form('/console/sign-in', {'code': new(), 'to': to}, origin=base)[1].get('location', '')
        must('signing in leads to nobody else', '\\' not in location and urllib.parse.urljoin(base, location).startswith(base + '/'), (to, location))
    headers = server.http.ask('GET', '/console/default/', headers={'cookie': cookie}, token=False, raw=True)[1]
    for name in ('content-security-policy', 'referrer-policy', 'cache-control', 'cross-origin-opener-policy', 'x-content-type-options'):
        must(f'a page has {name}', headers.get(name), headers.get(name, '')[:100])

def attack():
    cluster = Cluster()
    destination = Destination(lambda method, path, headers, body: (400 if 'refuse' in path else 201, {'content-type': 'text/html', 'x-h': TEXTS[1]}, json.dumps({'id': TEXTS[1], 'all': TEXTS}).encode()))
    server = Server(cluster, LOOPBACK)
    base = f'http://127.0.0.1:{server.port}'
    runs, asked = fill(server, destination.url)
    browser = Browser()
    code = server.http.post('/v1/sign-in-codes')[1]
    browser.go(base + code['path'], 1.5)
    place = browser.js('location.pathname') or ''
    must('the one-time link signs in', '/console/' in place and 'sign-in' not in place, place)
    must('and leaves no code in the address, and no cookie to scripts', not browser.js('location.hash') and not browser.js('document.cookie'))
    look(server, browser, base, runs, asked)
    link = re.search(r'/approvals/[A-Za-z0-9_-]{80,}', cluster.sql(f"SELECT events::text FROM journal WHERE run_id = '{asked[4:]}'::uuid"))
    link = link.group(0) if link else '/approvals/x'
    must('the API does not show the link of an approval', link not in json.dumps(server.run_of(asked)))
    dialogs = [it for it in browser.go(base + link, 0.6) if it['method'] == 'Page.javascriptDialogOpening']
    scripts = browser.js('[...document.links].filter(it => /^javascript/i.test(it.href)).length')
    must('the page of an approval runs nothing', not dialogs and scripts == 0, (link[:20], scripts))
    forge(cluster, server, browser, base, link)
    sign_in(server, base)

play(attack)
