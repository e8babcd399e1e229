"""Serving on the network without TLS: who is told, and does the command line send its token all the same?"""
from ground import *

def attack():
    words = subprocess.run(['hostname', '-I'], capture_output=True, text=True).stdout.split()
    lan = need('an address of this machine that is not loopback', next((it for it in words if re.fullmatch(r'[\d.]+', it)), None))
    server = Server(Cluster(), {'SEMEL_PUBLIC_URL': f'http://{lan}:7171'}, listen='0.0.0.0')
    clear = {'SEMEL_URL': f'http://{lan}:{server.port}'}
    warnings = [it.get('message', '') for it in server.lines('WARN')]
    must('the server says at its start that it is reached in the clear', any('clear' in it for it in warnings), warnings)
    ran = server.cli('run', 'list', '--json', env=clear)
    must('the command line sends no token over plain HTTP to another address', ran.returncode == 7 and 'token-withheld' in ran.stdout, (ran.returncode, ran.stdout[:160]))
    ran = server.cli('run', 'list', '--insecure', env=clear)
    must('with --insecure it does', ran.returncode == 0, (ran.returncode, ran.stderr[:160]))
    line = server.doctor(**clear).get('transport') or {}
    must('doctor says so', line.get('state') == 'warn', line)
    text = (ROOT / 'packaging' / 'compose.yaml').read_text()
    must('the worker of packaging/compose.yaml says --insecure', '--insecure' in text)
    page = lambda host, at='127.0.0.1': Http(at, server.port).get('/console/sign-in', headers={'host': host})[0]
    say('console at the public address:', page(f'{lan}:7171'), '; at this machine:', page(f'127.0.0.1:{server.port}'))
    known('http-host', page('localhost', lan) == 200, 'the console answers the network for `Host: localhost`')
    must('not under another name', page('evil.test', lan) != 200)
    status, headers, _ = server.http.ask('OPTIONS', '/v1/runs', headers={'origin': 'https://evil.test', 'access-control-request-method': 'GET'}, raw=True)
    must('no other origin is let in by CORS', not [it for it in headers if it.startswith('access-control')], status)

play(attack)
