"""An identity provider that lies, a browser that was led here, and a person who leaves. Needs the Python package cryptography."""
from ground import *

try:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
except ImportError: need('the Python package cryptography', None)

J, NOW = {'content-type': 'application/json'}, int(time.time())
SECRET = 'cs-secret-123456'

def plain(data): return base64.urlsafe_b64encode(data if isinstance(data, bytes) else json.dumps(data).encode()).rstrip(b'=').decode()

class Provider:
    """Answers as an identity provider does; `make` gives the next token, `me` what it says of a person."""
    def __init__(self):
        self.key, self.other = (rsa.generate_private_key(65537, 2048) for _ in range(2))
        self.make, self.codes, self.readings, self.form = None, 0, 0, {}
        self.me = {'sub': 'other', 'groups': ['ops']}
        self.issuer = Destination(self.answer).url
    @staticmethod
    def numbers(key):
        it = key.public_key().public_numbers()
        return {'n': plain(it.n.to_bytes(256, 'big')), 'e': plain(it.e.to_bytes(3, 'big'))}
    def pem(self):
        return self.key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    def answer(self, method, path, headers, body):
        if path.endswith('openid-configuration'):
            places = {'authorization_endpoint': '/auth', 'token_endpoint': '/token', 'jwks_uri': '/jwks', 'userinfo_endpoint': '/me'}
            return 200, J, json.dumps({'issuer': self.issuer, 'authorization_response_iss_parameter_supported': True, **{k: self.issuer + v for k, v in places.items()}}).encode()
        if path.endswith('/jwks'):
            self.readings += 1
            return 200, J, json.dumps({'keys': [{'kty': 'RSA', 'kid': 'k1', 'use': 'sig', **self.numbers(self.key)}, {'kty': 'oct', 'kid': 'sym', 'k': plain(b'secret' * 6)}]}).encode()
        if path.endswith('/token'):
            self.codes += 1
            self.form = dict(urllib.parse.parse_qsl(body.decode()))
            return 200, J, json.dumps({'id_token': self.make(), 'access_token': 'at'}).encode()
        if path.endswith('/me'): return 200, J, json.dumps(self.me).encode()
        return 404, {}, b''
    def signed(self, claims, key=None, head=None):
        text = plain({'alg': 'RS256', 'kid': 'k1', **(head or {})}) + '.' + plain(claims)
        return text + '.' + plain((key or self.key).sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))
    def maced(self, claims, secret, head=None):
        text = plain({'alg': 'HS256', 'kid': 'k1', **(head or {})}) + '.' + plain(claims)
        return text + '.' + plain(hmac.new(secret, text.encode(), hashlib.sha256).digest())

class Visitor:
    """A browser without a screen."""
    def __init__(self, server, provider):
        self.http, self.own, self.provider = server.http, f'127.0.0.1:{server.port}', provider
    def get(self, path, cookie='', **headers):
        return self.http.ask('GET', path, headers={'host': self.own, **({'cookie': cookie} if cookie else {}), **headers}, token=False, raw=True)
    def begin(self):
        _, headers, _ = self.get('/console/sign-in/oidc?to=/console/default/')
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlparse(headers['location']).query))
        return asked, self.http.cookies[0].split(';')[0]
    def claims(self, asked, **other):
        return {'iss': self.provider.issuer, 'aud': 'semel', 'sub': 'u1', 'iat': NOW, 'exp': NOW + 600, 'nonce': asked['nonce'], 'name': 'Ada', 'groups': ['ops'], **other}
    def back(self, asked, cookie, issuer=True):
        """The way back from the provider: status, and the cookie of a session."""
        said = self.provider.issuer if issuer is True else issuer
        path = f"/console/sign-in/oidc/callback?code=c&state={asked['state']}" + (f'&iss={urllib.parse.quote(said, safe="")}' if said else '')
        status = self.get(path, cookie)[0]
        session = re.search(r'semel_dev=([\w-]{20,})', ' '.join(self.http.cookies))
        return status, session and 'semel_dev=' + session.group(1)
    def sign_in(self, make):
        asked, cookie = self.begin()
        self.provider.make = lambda: make(asked)
        return self.back(asked, cookie)
    def logout(self, token):
        form = {'content-type': 'application/x-www-form-urlencoded', 'host': self.own}
        return self.http.ask('POST', '/console/sign-in/oidc/logout', 'logout_token=' + token, form, token=False, raw=True)[0]

def lies(visitor, provider):
    signed, maced, claims = provider.signed, provider.maced, visitor.claims
    yield 'no algorithm', lambda q: plain(b'{"alg":"none"}') + '.' + plain(claims(q)) + '.'
    yield 'HS256 with the public key for a secret', lambda q: maced(claims(q), provider.pem())
    yield 'HS256 with a symmetric key of the set', lambda q: maced(claims(q), b'secret' * 6, {'kid': 'sym'})
    yield 'HS256 with the secret of the client', lambda q: maced(claims(q), SECRET.encode())
    yield 'another key under the same name', lambda q: signed(claims(q), provider.other)
    yield 'a key in the head', lambda q: signed(claims(q), provider.other, {'jwk': {'kty': 'RSA', **provider.numbers(provider.other)}})
    yield 'a critical extension', lambda q: signed(claims(q), None, {'crit': ['x'], 'x': 1})
    for label, other in {
        'another issuer': {'iss': provider.issuer + '/'}, 'another audience': {'aud': 'other'}, 'two audiences without azp': {'aud': ['semel', 'x']},
        'two audiences, azp another': {'aud': ['semel', 'x'], 'azp': 'x'}, 'expired': {'exp': NOW - 120}, 'of the future': {'iat': NOW + 900}, 'not yet': {'nbf': NOW + 900},
        'the nonce of another': {'nonce': 'x'}, 'no nonce': {'nonce': None}, 'no subject': {'sub': ''}, 'a subject with a control character': {'sub': 'a\u0000b'},
        'an end in letters': {'exp': str(NOW + 300)}, 'a group that is not mapped': {'groups': ['nobody']}, 'a group in another spelling': {'groups': ['Ops', ' ops', 'ops\u200b']},
        'groups as a map': {'groups': {'ops': 1}},
    }.items(): yield label, lambda q, other=other: signed(claims(q, **other))

def person_who_leaves(server, provider, visitor, logout_claims):
    """A person with `admin` makes a token in the console, and leaves: the token goes too."""
    server.cli('member', 'map', 'leads', '--role', 'admin')
    _, session = visitor.sign_in(lambda q: provider.signed(visitor.claims(q, sub='boss', groups=['leads'])))
    if not must('the person signs in', session): return
    page = visitor.get('/console/default/tokens', session)[2].decode()
    form = {**dict(re.findall(r'name="(form|key)" value="([^"]*)"', page)), 'name': 'kept', 'role': 'admin', 'lifetime': '365d', 'days': '365'}
    headers = {'host': visitor.own, 'cookie': session, 'origin': 'http://' + visitor.own, 'content-type': 'application/x-www-form-urlencoded'}
    status, _, shown = server.http.ask('POST', '/console/default/tokens', urllib.parse.urlencode(form), headers, token=False, raw=True)
    made = TOKEN.search(shown.decode())
    if not must('and makes a token', made, status): return
    whoami = lambda: server.http.get('/v1/whoami', token=made.group(0))[0]
    must('which works', whoami() == 200)
    row = next(it for it in server.http.get('/v1/tokens')[1]['items'] if it['name'] == 'kept')
    must('which knows its maker', row.get('made_by'), row.get('expires_at'))
    must('and lives no longer than the setting', row['expires_at'] < time.strftime('%Y-%m-%d', time.gmtime(NOW + 32 * 86400)), row['expires_at'])
    must('the provider logs the person out', visitor.logout(provider.signed(logout_claims(sub='boss'))) == 200)
    person = next(it for it in server.http.get('/v1/people')[1]['items'] if it.get('subject') == 'boss')
    revoked = server.http.post(f"/v1/people/{person.get('person') or person.get('id')}/revoke", {'reason': 'left'})
    must('an administrator revokes the person, and is told of the token', revoked[0] == 200 and 'kept' in json.dumps(revoked[1]), str(revoked)[:300])
    must('the person is out', until(lambda: visitor.get('/console/default/', session)[0] != 200, 10))
    must('and so is the token', until(lambda: whoami() == 401, 10), whoami())

def attack():
    provider = Provider()
    server = Server(Cluster(), {'SEMEL_OIDC_ISSUER': provider.issuer, 'SEMEL_OIDC_CLIENT_ID': 'semel', 'SEMEL_OIDC_CLIENT_SECRET': SECRET})
    server.cli('member', 'map', 'ops', '--role', 'operator')
    visitor = Visitor(server, provider)
    good = lambda q: provider.signed(visitor.claims(q))
    must('who is who they say they are enters', visitor.sign_in(good)[1])
    for label, make in lies(visitor, provider):
        status, session = visitor.sign_in(make)
        must(f'refused: {label}', not session, status)
    without_groups = lambda q: provider.signed({k: v for k, v in visitor.claims(q).items() if k != 'groups'})
    provider.me = {'sub': 'u2', 'groups': ['ops']}
    must('refused: what the provider says of another person', not visitor.sign_in(without_groups)[1])
    provider.me = {'sub': 'u1', 'groups': ['ops'], 'aud': 'x', 'nonce': 'y'}
    must('what it says of this one is taken', visitor.sign_in(without_groups)[1])

    # A browser that was led here.
    (first, cookie), (_, foreign) = visitor.begin(), visitor.begin()
    provider.make = lambda: good(first)
    codes = provider.codes
    for label, bears, issuer in (('the state of another browser', foreign, True), ('no cookie', '', True), ('no issuer', cookie, ''), ('another provider', cookie, 'https://evil')):
        status, session = visitor.back(first, bears, issuer)
        must(f'refused: {label}', not session, status)
    must('no code was shown to the provider for these', provider.codes == codes, provider.codes - codes)
    asked, cookie = visitor.begin()
    provider.make = lambda: good(asked)
    status, session = visitor.back(asked, cookie)
    name = cookie.split('=')[0]
    taken = [it for it in server.http.cookies if it.startswith(name + '=;') or it.startswith(name + '=') and 'max-age=0' in it.lower()]
    must('the way back takes the cookie of its state away', session and taken, (status, [it.split(';')[0][:40] for it in server.http.cookies]))
    # Only the provider can know that a code was used: a browser that keeps the cookie, and a provider that takes a code twice.
    say('   with a provider that takes a code twice, and the cookie kept, the same way back opens again:', bool(visitor.back(asked, cookie)[1]))
    challenge = plain(hashlib.sha256(provider.form['code_verifier'].encode()).digest())
    must('the code is bound by PKCE', asked['code_challenge_method'] == 'S256' and challenge == asked['code_challenge'])
    status, headers, _ = visitor.get('/console/sign-in/oidc?to=//evil.test', **{'sec-fetch-site': 'cross-site'})
    leads = urllib.parse.urljoin(f'http://{visitor.own}/', headers.get('location', ''))
    must('a link of another site leads to nobody else', leads.startswith((f'http://{visitor.own}/', provider.issuer + '/')), (status, leads[:80]))
    status = server.http.ask('GET', '/console/sign-in/oidc', headers={'host': 'evil.test'}, token=False, raw=True)[0]
    must('nor does it begin under another host', status >= 400, status)

    # Logout by the provider.
    _, session = visitor.sign_in(lambda q: provider.signed(visitor.claims(q, sid='s1')))
    inside = lambda: visitor.get('/console/default/', session)[0]
    def claims(**other):
        return {'iss': provider.issuer, 'aud': 'semel', 'iat': NOW, 'exp': NOW + 600, 'jti': os.urandom(8).hex(), 'sub': 'u1', 'events': {'http://schemas.openid.net/event/backchannel-logout': {}}, **other}
    forged = {'by another key': provider.signed(claims(), provider.other), 'an identity': provider.signed(visitor.claims({'nonce': 'n'})), 'with a nonce': provider.signed(claims(nonce='x')), 'old': provider.signed(claims(iat=NOW - 1800, exp=NOW - 900))}
    statuses = {label: visitor.logout(token) for label, token in forged.items()}
    must('a forged logout ends nothing', inside() == 200 and all(it >= 400 for it in statuses.values()), statuses)
    must('the provider ends a sign-in', visitor.logout(provider.signed(claims())) == 200 and until(lambda: inside() != 200, 10))
    person_who_leaves(server, provider, visitor, claims)
    before = provider.readings
    for number in range(20): visitor.logout(provider.signed(claims(), provider.other, {'kid': f'x{number}'}))
    must('made-up names of keys cost few readings of the keys', provider.readings - before <= 3, provider.readings - before)
    log = server.log()
    must('neither the secret of the client nor a verifier is in the log', SECRET not in log and provider.form['code_verifier'] not in log)

play(attack)
