"""One captured Twilio delivery is replayed under other keys, with its own signature.

Twilio signs the address and the sorted form fields, name and value with nothing between them: the signed text does not
determine the fields, so a name can be moved into the value before it."""
from ground import *

SECRET = '0123456789abcdef0123456789abcdef'
URL = 'https://hooks.example/hooks/default/sms'
FIELDS = [('AccountSid', 'AC1'), ('ApiVersion', '2010-04-01'), ('From', '+15005550006'), ('MessageSid', 'SM111'),
          ('MessageStatus', 'delivered'), ('SmsSid', 'SM111'), ('SmsStatus', 'delivered'), ('To', '+15005550007')]

def attack():
    charges = Destination(lambda *_: (200, {'content-type': 'application/json'}, b'{"ok":true}'))
    server = Server(Cluster(), {**LOOPBACK, 'SEMEL_PUBLIC_URL': 'https://hooks.example'})
    server.secret('twilio_token', SECRET)
    server.flow('sms', f'''flow: sms
trigger:
  webhook: {{ provider: twilio, secret: twilio_token }}
steps:
  - id: charge
    http: {{ post: "{charges.url}/charge", json: {{ sid: "${{{{ input.MessageSid }}}}" }} }}
    guard: review
''')
    text = URL + ''.join(name + value for name, value in sorted(FIELDS))
    signature = base64.b64encode(hmac.new(SECRET.encode(), text.encode(), hashlib.sha1).digest()).decode()
    def send(fields):
        assert URL + ''.join(name + value for name, value in sorted(fields)) == text, 'not the same signed text'
        form = {'content-type': 'application/x-www-form-urlencoded', 'x-twilio-signature': signature}
        return server.hook('sms', urllib.parse.urlencode(fields), form)
    genuine = send(FIELDS)
    must('the genuine delivery is taken', genuine[0] < 300, genuine)
    must('it is charged', until(lambda: charges.seen, 20))
    say('again:', send(FIELDS)[0])
    # What follows knows the captured request, and no secret.
    for swallows in (
        [*FIELDS[:3], ('MessageSid', 'SM111MessageStatusdelivered'), *FIELDS[5:]],
        [*FIELDS[:4], ('MessageStatus', 'deliveredSmsSidSM111'), *FIELDS[6:]],
        [*FIELDS[:3], ('MessageSid', 'SM111MessageStatusdeliveredSmsSidSM111'), *FIELDS[6:]],
    ):
        status, answer = send(swallows)
        is_kept_back = status >= 400 or answer.get('held') or answer.get('run') == genuine[1].get('run')
        must('the same text in other fields starts nothing', is_kept_back, (status, str(answer)[:150]))
    time.sleep(3)
    must('one charge was made', len(charges.seen) == 1, [json.loads(body)['sid'] for _, _, _, body in charges.seen])
    say('held:', len(server.http.get('/v1/duplicates?held=true')[1].get('items', [])))

play(attack)
