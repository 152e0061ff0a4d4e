/** A program of the environment `agent` in bubblewrap that turns against what it reaches: the socket to its policy, other rollouts behind it, files, variables, other machines. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseArguments } from '../../environments/agent/arguments.ts';
import { toRow } from '../../environments/agent/rows.ts';
import { runAgent } from '../../environments/agent/run-agent.ts';
import type { GatewayAddress } from '../../src/agents/agent-gateway.ts';
import { findCommand } from '../../src/execution/index.ts';
import { Gateway } from '../../src/server/gateway/gateway.ts';
import { TemporaryFolder } from '../cli/eval/temporary-folder.ts';
import { PYTHON_CLIENT } from '../environments/agent/python-client.ts';
import { whyMissing } from '../execution/missing-executor.ts';
import { loopback } from '../transport/loopback.ts';

const PATH = '/usr/bin:/bin';
const SECRETS = { OPENAI_API_KEY: 'sk-of-the-user-1', ANTHROPIC_API_KEY: 'sk-of-the-user-2', HF_TOKEN: 'hf-of-the-user' };
const row = toRow({ id: '1', question: 'q', golden_answers: ['a'], data_source: 'x', index: 0, split: 'test', answer: 'a' });

const missing = await whyMissing('bubblewrap');
describe.skipIf(missing !== null)(`an agent in bubblewrap${missing === null ? '' : ` (skipped: ${missing})`}`, { concurrent: true }, () => {
  const folder = new TemporaryFolder();
  const failures: unknown[] = [];
  let gateway: Gateway;
  let [one, two]: GatewayAddress[] = [];
  beforeAll(async () => {
    gateway = await Gateway.open({ onFailure: (error) => failures.push(error) });
    const add = (name: string) =>
      gateway.add({
        model: name,
        ask: async () => [
          { content: `${name} heard`, toolCalls: [], finish: 'stop' as const, usage: { promptTokens: 1, completionTokens: 1, cachedTokens: null } },
        ],
        count: async () => 1,
      });
    [one, two] = [add('one'), add('two')];
  });
  afterAll(async () => {
    await gateway.close();
    folder[Symbol.dispose]();
  });

  let scripts = 0;
  /** What a program prints last, as JSON, that plays for the first session. */
  async function attack(code: string): Promise<unknown> {
    const own = join(folder.path, `agent-${++scripts}`);
    mkdirSync(join(own, 'settings/deep'), { recursive: true });
    for (const path of ['.env', '.env.local', 'settings/deep/.env']) writeFileSync(join(own, path), 'KEY=in-a-file');
    symlinkSync('settings/deep/.env', join(own, '.env.link'));
    const script = join(own, 'agent.py');
    writeFileSync(
      script,
      `${PYTHON_CLIENT}\nimport time\nPORT = int(os.environ['OPENAI_BASE_URL'].split(':')[2].split('/')[0])\n${HELPERS}\n${code}`,
    );
    const { reward: _, ...args } = parseArguments({ command: ['python3', script], sandbox: 'bubblewrap', seconds: 60 });
    const { answer } = await runAgent({
      args,
      row,
      env: { PATH, HOME: '/root', ...SECRETS },
      signal: new AbortController().signal,
      command: findCommand(args.command, { path: PATH }),
      rewardCommand: null,
      policy: { name: 'policy', baseURL: one!.baseURL, apiKey: one!.apiKey },
    });
    return JSON.parse(answer);
  }
  const HELPERS = `
def raw(data, port=None):
    try:
        with socket.create_connection(('127.0.0.1', port or PORT), 10) as to:
            try: to.sendall(data)
            except OSError: pass
            return b''.join(iter(lambda: to.recv(65536), b'')).decode('latin1')
    except OSError as error: return type(error).__name__
def request(path, headers='', body=b'{"model": "m", "messages": [{"role": "user", "content": "x"}]}', length=None):
    head = f"POST {path} HTTP/1.0\\r\\ncontent-type: application/json\\r\\ncontent-length: {length or len(body)}\\r\\n{headers}\\r\\n"
    return raw(head.encode() + body)
REFUSED = (413, 431, 'ConnectionResetError', 'BrokenPipeError', '')
def status(answer): return int(answer.split(' ')[1]) if answer.startswith('HTTP/') else answer
`;

  it('gets no answer of another rollout, under any key or path, nor under another name of the host', async () => {
    const guess = two!.apiKey.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A'));
    const path = new URL(two!.baseURL).pathname.slice(0, -4);
    const found = await attack(`
own = os.environ['OPENAI_BASE_URL'].split(str(PORT))[1]
host = 'host: 127.0.0.1\\r\\n'
print(json.dumps([status(answer) for answer in [
    request('/v1/chat/completions', host + 'authorization: Bearer ${guess}\\r\\n'),
    request('${path}x/chat/completions', host),
    request('/sessions', host),
    request(own + '/../../sessions', host),
    request(own + '/chat/completions', 'host: evil.example\\r\\n'),
    request(own + '/chat/completions', host)]]))`);
    expect(found).toEqual([401, 404, 401, 404, 403, 200]);
  });

  it('reaches no other server of this machine and no other machine', async () => {
    await using other = await loopback((_, response) => response.end('reached'));
    const found = await attack(`
def reaches(host, port):
    try: socket.create_connection((host, port), 3); return True
    except OSError: return False
others = [('127.0.0.1', ${new URL(other.url).port}), ('127.0.0.1', PORT + 1), ('10.0.0.1', 80), ('1.1.1.1', 53), ('::1', PORT), ('example.com', 80)]
complete([{'role': 'user', 'content': 'x'}])
print(json.dumps([reaches(*each) for each in others]))`);
    expect(found).toEqual([false, false, false, false, false, false]);
  });

  it('sends no frame that is too large, and opens no more connections than it may; others are answered meanwhile', async () => {
    const attacking = attack(`
own = os.environ['OPENAI_BASE_URL'].split(str(PORT))[1] + '/chat/completions'
held = []
for i in range(300):
    try: held.append(socket.create_connection(('127.0.0.1', PORT), 5))
    except OSError: break
for each in held: each.settimeout(0.5)
def is_open(to):
    try: return to.recv(1) != b''
    except TimeoutError: return True
    except OSError: return False
for each in held:
    try: each.sendall(b'POST ')
    except OSError: pass
time.sleep(0.5)
closed = 0
for each in held[64:]:
    if not is_open(each): closed += 1
    if closed > 10: break
for each in held: each.close()
time.sleep(0.5)
print(json.dumps([closed > 10, status(request(own, 'host: 127.0.0.1\\r\\n', b' ' * 2**26)) in REFUSED, status(raw(b'GET / HTTP/1.1\\r\\nx: ' + b'y' * 2**20)) in REFUSED,
    complete([{'role': 'user', 'content': 'x'}])]))`);
    const answers = Array.from({ length: 20 }, async () => {
      const body = JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }] });
      const answer = await fetch(`${two!.baseURL}/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      return [answer.status, (await answer.text()).includes('two heard')];
    });
    expect(await Promise.all(answers)).toEqual(Array.from({ length: 20 }, () => [200, true]));
    expect(await attacking).toEqual([true, true, true, 'one heard']);
  });

  it('finds no key of the user: not in variables, not in other processes, not in files', async () => {
    const found = await attack(`
import glob
def read(path):
    try: return open(path, 'rb').read(100000).decode('latin1')
    except OSError as error: return type(error).__name__
here = os.path.dirname(os.path.abspath(__file__))
files = [here + name for name in ['/.env', '/.env.local', '/.env.link', '/settings/deep/.env']]
texts = [json.dumps(dict(os.environ))] + [read(path) for path in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline') + files]
outside = [read(path) for path in ['/root/.bashrc', '/etc/passwd', '/etc/shadow', '${join(import.meta.dirname, 'agent-sandbox.test.ts')}']]
seen = [each for each in ${JSON.stringify([...Object.values(SECRETS), 'in-a-file'])} if any(each in text for text in texts)]
complete([{'role': 'user', 'content': 'x'}])
print(json.dumps([seen, outside, sorted(name for name in os.listdir('/tmp') if name.startswith('vf-')) ]))`);
    const [seen, outside, rollouts] = found as [string[], string[], string[]];
    expect(seen).toEqual([]);
    expect(outside.every((text) => text === 'FileNotFoundError' || text === 'PermissionError')).toBe(true);
    // Its own folder alone.
    expect(rollouts.length).toBeLessThanOrEqual(2);
  });

  it('makes the gateway fail at nothing', () => {
    expect(failures).toEqual([]);
  });
});
