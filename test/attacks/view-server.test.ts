import { createHash } from 'node:crypto';
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { resultLine, writeEvaluation, writeTraining } from '../viewing/written-runs.ts';
import { type AttackedServer, peakGrowth, startServer } from './attacked-process.ts';

const root = mkdtempSync(join(tmpdir(), 'view-attacks-'));
const SECRET = 'the-secret-outside-of-the-runs';
const png = Buffer.from('89504e470d0a1a0a', 'hex');
const sha256 = createHash('sha256').update(png).digest('hex');
const linked = 'f'.repeat(64);

let local: AttackedServer;
let open: AttackedServer;
let token: string;

beforeAll(async () => {
  const runs = join(root, 'runs');
  const evaluation = writeEvaluation(join(runs, 'good'), [{ group: 'a' }, { group: '../../secret', response: '<script>alert(1)</script>' }]);
  mkdirSync(join(evaluation, 'images'));
  writeFileSync(join(evaluation, 'images', `${sha256}.png`), png);
  writeFileSync(join(root, 'secret'), SECRET);
  writeFileSync(join(root, 'secret.jsonl'), `${resultLine({ group: SECRET })}\n`);
  symlinkSync(join(root, 'secret'), join(evaluation, 'images', `${linked}.png`));
  execFileSync('mkfifo', [join(evaluation, 'images', `${'e'.repeat(64)}.png`)]);
  symlinkSync(root, join(runs, 'out'));
  const training = writeTraining(join(runs, 'train'));
  rmSync(join(training, 'evaluations'), { recursive: true });
  mkdirSync(join(root, 'outside'));
  writeFileSync(join(root, 'outside', 'step-000000.jsonl'), `${resultLine({ group: SECRET })}\n`);
  symlinkSync(join(root, 'outside'), join(training, 'evaluations'));
  execFileSync('mkfifo', [join(training, 'rollouts', 'step-000009.jsonl')]);
  const deep = writeEvaluation(join(runs, 'deep'), []);
  writeFileSync(join(deep, 'results.jsonl'), `${resultLine({ group: 'deep' }).slice(0, -1)},"info":${'['.repeat(100_000)}${']'.repeat(100_000)}}\n`);
  [local, open] = await Promise.all([startServer([runs], { command: 'vf-view' }), startServer([runs, '--host', '0.0.0.0'], { command: 'vf-view' })]);
  token = /#token=([\w-]+)/.exec(open.stdout)![1]!;
}, 60_000);
afterAll(async () => {
  await Promise.all([local, open].map((server) => server?.[Symbol.asyncDispose]()));
  rmSync(root, { recursive: true });
});

interface Answer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly text: string;
}

/** Sends a path as it is: fetch would resolve its dots, and sets the host itself. */
function send(
  { port }: AttackedServer,
  path: string,
  { method = 'GET', headers = {}, body = '' }: { method?: string; headers?: Record<string, string>; body?: string } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ host: '127.0.0.1', port, path, method, headers }, (response) => {
      let text = '';
      response.setEncoding('latin1').on('data', (chunk) => (text += String(chunk)));
      response.on('end', () => resolve({ status: response.statusCode!, headers: response.headers, text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

const at = (route: string, query: Record<string, string>) => `/api/${route}?${new URLSearchParams(query).toString()}`;

async function isServing(): Promise<void> {
  const { status, text } = await send(local, at('rollouts', { run: 'good', set: 'results' }));
  expect([status, JSON.parse(text).total]).toEqual([200, 2]);
}

describe('vf-view under attack', () => {
  it.each(['evil.example', '127.0.0.1.evil.example', 'localhost.evil.example:80', '0.0.0.0'])(
    'refuses the host %j, as a page of another domain sends it',
    async (host) => {
      const answer = await send(local, '/api/runs', { headers: { host } });
      expect(answer.status).toBeGreaterThanOrEqual(400);
      expect(answer.text).not.toContain('good');
      await isServing();
    },
  );

  it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'])('refuses the method %s, with a body too', async (method) => {
    for (const path of ['/', '/api/runs', '/api/image']) {
      const answer = await send(local, path, { method, headers: { 'content-length': '14' }, body: '{"run":"good"}' });
      expect([path, answer.status]).toEqual([path, 405]);
    }
    await isServing();
  });

  it('gives every answer a policy without inline scripts, and no answer a cross-origin permission', async () => {
    const paths = ['/', '/view.js', '/view.css', '/api/runs', '/api/run?run=nope', '/nothing', at('image', { run: 'good', sha256 })];
    const answers = await Promise.all([
      ...paths.map((path) => send(local, path)),
      send(local, '/api/runs', { method: 'POST' }),
      send(local, '/api/runs', { headers: { host: 'evil.example' } }),
      send(open, '/api/runs'),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 404, 404, 200, 405, 403, 401]);
    for (const { headers } of answers) {
      expect(headers['content-security-policy']).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';/);
      expect(headers['content-security-policy']).toMatch(/base-uri 'none';.*frame-ancestors 'none'/);
      expect(headers['content-security-policy']).not.toMatch(/unsafe|\*/);
      expect([headers['x-content-type-options'], headers['referrer-policy'], headers['access-control-allow-origin']]).toEqual([
        'nosniff',
        'no-referrer',
        undefined,
      ]);
    }
  });

  it('serves text of models as JSON alone, whatever it asks to be', async () => {
    const { headers, text } = await send(local, at('rollout', { run: 'good', set: 'results', group: '../../secret', index: '0' }), {
      headers: { accept: 'text/html' },
    });
    expect(headers['content-type']).toMatch(/^application\/json/);
    expect(JSON.parse(text).parts[0].content[0].text).toBe('<script>alert(1)</script>');
  });

  it.each([
    ['run', { run: '../' }],
    ['run', { run: '/etc' }],
    ['run', { run: 'good/../../outside' }],
    ['run', { run: 'out' }],
    ['run', { run: 'out/outside' }],
    ['run', { run: '__proto__' }],
    ['run', { run: 'good\0' }],
    ['rollouts', { run: 'good', set: '../../secret' }],
    ['rollouts', { run: 'good', set: '/etc/passwd' }],
    ['rollouts', { run: 'train', set: 'evaluation/../../../outside/step-000000' }],
    ['rollouts', { run: 'train', set: 'evaluation/0' }],
    ['rollouts', { run: 'train', set: 'constructor' }],
    ['rollout', { run: 'good', set: 'results', group: '../../secret', index: '1' }],
    ['rollouts', { run: 'good', set: 'results', sort: '__proto__' }],
    ['rollouts', { run: 'good', set: 'results', from: '-1' }],
    ['rollouts', { run: 'good', set: 'results', count: '1e999' }],
    ['rollouts', { run: 'good', set: 'results', text: 'x'.repeat(3000) }],
    ['compare', { set: 'good:../../secret' }],
    ['held-out', { run: 'train', group: '../../secret' }],
    ['step', { run: 'train', step: '../1' }],
    ['metrics', { run: '../train', after: '0' }],
    ['image', { run: 'good', sha256: '../../secret' }],
    ['image', { run: 'good', sha256: `../images/${sha256}` }],
    ['image', { run: 'good', sha256: linked }],
    ['image', { run: 'good', sha256: linked.toUpperCase() }],
    ['image', { run: 'good', sha256: 'e'.repeat(64) }],
    ['image', { run: 'out', sha256 }],
  ])('refuses %s of %j in one line, and shows nothing from outside of the runs', async (route, query) => {
    const { status, text } = await send(local, at(route, query));
    expect([400, 404]).toContain(status);
    expect(JSON.parse(text).problem).toMatch(/^[^\n]{10,}$/);
    expect(text).not.toContain(SECRET);
    await isServing();
  });

  it.each([
    '/../package.json',
    '/%2e%2e/package.json',
    '/view.js/../../../package.json',
    '/..%2f..%2fpackage.json',
    '//etc/passwd',
    '/api/../../secret',
    '/view.js%00.png',
  ])('has no file at the path %s', async (path) => {
    const { status } = await send(local, path);
    expect([400, 404]).toContain(status);
  });

  it('answers for a pipe in the place of a step, and for a step next to it', async () => {
    const pipe = await send(local, at('rollouts', { run: 'train', set: 'step/9' }));
    expect([pipe.status, JSON.parse(pipe.text).problem]).toEqual([400, expect.stringMatching(/is a pipe/)]);
    expect((await send(local, at('rollouts', { run: 'train', set: 'step/1' }))).status).toBe(200);
  });

  it('serves images with their media type alone', async () => {
    const { status, headers, text } = await send(local, at('image', { run: 'good', sha256 }));
    expect([status, headers['content-type'], Buffer.from(text, 'latin1')]).toEqual([200, 'image/png', png]);
  });

  it('shows a rollout whose reference is nested 100,000 levels deep', async () => {
    const { status, text } = await send(local, at('rollout', { run: 'deep', set: 'results', group: 'deep', index: '0' }));
    expect([status, JSON.parse(text).info]).toEqual([200, expect.stringMatching(/nested more than/)]);
  });

  it('reads a file with a line of 300 MB in bounded memory', async () => {
    const path = join(writeEvaluation(join(root, 'runs', 'huge'), [{ group: 'a' }]), 'results.jsonl');
    const piece = Buffer.alloc(30 * 2 ** 20, '[');
    appendFileSync(path, '{"group_id":"x","rollout_index":0,"prompt":');
    for (let i = 0; i < 10; i++) appendFileSync(path, piece);
    appendFileSync(path, `\n${resultLine({ group: 'b' })}\n`);
    // The list of runs finds a new one at once; an unknown run is looked for every two seconds.
    await send(local, '/api/runs');
    const grown = await peakGrowth(local, async () => {
      const { text } = await send(local, at('rollouts', { run: 'huge', set: 'results', text: 'nobody' }));
      expect(JSON.parse(text)).toMatchObject({
        total: 2,
        matched: 2,
        problem: expect.stringMatching(/results\.jsonl is damaged: line 2 is longer than 32 MB/),
      });
    });
    expect(grown).toBeLessThan(200 * 2 ** 20);
  });
});

describe('vf-view for other machines', () => {
  const authorization = (value: string) => ({ headers: { authorization: value } });

  it('asks for the token that it printed, which no run is shown without', async () => {
    expect(token.length).toBeGreaterThanOrEqual(32);
    expect((await send(open, '/api/runs', authorization(`Bearer ${token}`))).status).toBe(200);
    const wrong = ['', 'Bearer', 'Bearer ', `Basic ${token}`, `Bearer ${token.slice(1)}`, `Bearer ${token}x`, `Bearer ${token.toLowerCase()}`];
    for (const value of wrong) {
      const answer = await send(open, '/api/runs', authorization(value));
      expect([value, answer.status]).toEqual([value, 401]);
      expect(answer.text).not.toContain('good');
    }
  });

  it('takes the token from the address of an image alone', async () => {
    expect((await send(open, `${at('image', { run: 'good', sha256 })}&token=${token}`)).status).toBe(200);
    for (const path of [`/api/runs?token=${token}`, `/api/image/?token=${token}`, `/API/runs`, '//api/runs', '/api/image?run=good&token='])
      expect([path, [401, 404].includes((await send(open, path)).status)]).toEqual([path, true]);
  });

  it('gives the page itself, which holds nothing of a run', async () => {
    const { status, text } = await send(open, '/');
    expect(status).toBe(200);
    expect(text).not.toContain('good');
  });
});
