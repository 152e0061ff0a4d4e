import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { recordEvaluation } from '../../src/evaluate/record-evaluation.ts';
import { startCommand } from '../attacks/attacked-process.ts';
import { sumsClient, sumsEnvironment, sumsOptions } from '../evaluate/sums-world.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { until } from '../transport/loopback.ts';
import { resultLine, writeTraining } from '../viewing/written-runs.ts';
import { runInProcess } from './in-process.ts';

const root = mkdtempSync(join(tmpdir(), 'vf-view-'));
const runs = join(root, 'outputs');
const evaluation = join(runs, 'evals', 'sums');

beforeAll(async () => {
  await recordEvaluation(sumsOptions(evaluation, { environment: sumsEnvironment({ rows: 4 }), rolloutsPerExample: 2, client: sumsClient() }));
  writeTraining(join(runs, 'train', 'written'));
});
afterAll(() => rmSync(root, { recursive: true }));

/** For what ends by itself: in the process of the test. */
const ended = (args: readonly string[]) => runInProcess('vf-view', args, { cwd: root, env: {} });

describe('vf-view', () => {
  it('prints its address as one line, shows ./outputs without arguments, and ends with 0 after Ctrl-C', async () => {
    await using view = startCommand('vf-view', ['--port', '0'], { cwd: root });
    await until(() => view.stdout.includes('\n') && view.stderr.includes('\n'));
    expect(view.stdout).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\n$/);
    expect(view.stderr).toContain('2 runs below ./outputs');
    const list = await (await fetch(`${view.stdout.trim()}api/runs`)).json();
    expect(list).toMatchObject({ root: './outputs', runs: [{ id: 'evals/sums' }, { id: 'train/written' }] });
    view.child.kill('SIGINT');
    expect(await view.ended).toEqual([0, null]);
  });

  it('ends with the shell that npx started it in', async () => {
    const words = ['--conditions=vf-search-source', '--no-warnings', join(import.meta.dirname, '../../src/cli/vf-view.ts'), '--port', '0'];
    const shell = spawn('/bin/sh', ['-c', '"$@"; exit', 'sh', process.execPath, ...words], {
      cwd: root,
      env: { ...BARE_ENVIRONMENT, npm_lifecycle_event: 'npx' },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const lines = createInterface({ input: shell.stdout });
    const [address] = (await once(lines, 'line')) as [string];
    expect((await fetch(`${address}api/runs`)).status).toBe(200);
    const closed = once(shell, 'close');
    shell.kill('SIGKILL');
    // Its output closes when the command behind it has ended, too.
    await closed;
    await expect(fetch(`${address}api/runs`)).rejects.toThrow('fetch failed');
  });

  it('leads to the run that it was given, follows it as it grows, and never writes to its folder', async () => {
    const growing = join(root, 'growing');
    mkdirSync(growing);
    for (const name of ['metadata.json', 'results.jsonl']) writeFileSync(join(growing, name), readFileSync(join(evaluation, name)));
    const total = async (url: string) => ((await (await fetch(`${url}api/rollouts?run=.&set=results`)).json()) as { total: number }).total;
    await using view = startCommand('vf-view', [growing, '--port', '0']);
    await until(() => view.stdout.includes('\n'));
    expect(view.stdout).toMatch(/\/#\/run\?run=\.\n$/);
    const url = view.stdout.replace(/#.*\n/, '');
    expect(await total(url)).toBe(8);
    const line = resultLine({ group: 'new' });
    writeFileSync(join(growing, 'results.jsonl'), line.slice(0, 40), { flag: 'a' });
    expect(await total(url)).toBe(8);
    writeFileSync(join(growing, 'results.jsonl'), `${line.slice(40)}\n`, { flag: 'a' });
    expect(await total(url)).toBe(9);
    expect(readFileSync(join(growing, 'results.jsonl'), 'utf8').endsWith(`${line}\n`)).toBe(true);
  });

  it.each([
    ['a missing folder', ['nowhere'], /The folder nowhere does not exist\. Name/],
    ['a file', ['outputs/evals/sums/results.jsonl'], /results\.jsonl is a file\. Name/],
    ['a folder without runs', ['.empty'], /\.empty holds no run\. Name/],
    ['a folder without a tokenizer', ['outputs', '--tokenizer', 'outputs'], /tokenizer/],
    ['two folders', ['outputs', 'outputs'], /vf-view takes one argument, \[directory\], got 2: outputs outputs/],
    ['an export to a folder', ['outputs', '--export', '.empty'], /\.empty \(--export\) is a directory; name a file, or - for stdout/],
    ['an export into a missing folder', ['outputs', '--export', 'nowhere/x.html'], /The directory nowhere for --export does not exist; create it/],
    ['an export below a file', ['outputs', '--export', 'outputs/evals/sums/metadata.json/x.html'], /metadata\.json for --export does not exist/],
    ['an export to where no file can be', ['outputs', '--export', '/proc/x.html'], /^vf-view: Cannot create \/proc\/x\.html \(--export\): .*\. Name/],
    ['an export that is to be opened', ['outputs', '--export', 'x.html', '--open'], /--export and --open exclude each other; leave one out/],
    ['an export of the lab', ['--lab', '--export', 'x.html'], /--lab and --export exclude each other; leave one out/],
    ['a tokenizer for the lab', ['--lab', '--tokenizer', 'outputs'], /--lab and --tokenizer exclude each other; leave one out/],
  ])('refuses %s in one line', async (_, args, problem) => {
    mkdirSync(join(root, '.empty'), { recursive: true });
    const { code, stdout, stderr } = await ended(args);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(problem);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  it('says that no browser could be started, and goes on; says which port is in use', async () => {
    await using view = startCommand('vf-view', [runs, '--port', '0', '--open'], { env: { PATH: '/nowhere' } });
    await until(() => view.stderr.includes('no browser'));
    expect((await fetch(view.stdout.trim())).status).toBe(200);
    const { code, stderr } = await ended([runs, '--port', new URL(view.stdout.trim()).port]);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^vf-view: Port \d+ on 127\.0\.0\.1 is in use; choose another one.*\n$/)]);
  });
});

describe('vf-view --export', () => {
  it('writes one file with the page, its data and a policy that allows this script and style and nothing else', async () => {
    const { code, stdout } = await ended(['outputs', '--export', 'all.html']);
    expect([code, stdout]).toEqual([0, 'all.html\n']);
    const html = readFileSync(join(root, 'all.html'), 'utf8');
    const [, policy] = /<meta http-equiv="content-security-policy" content="([^"]+)"/.exec(html)!;
    const hash = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
    const [, style] = /<style>([^]*?)<\/style>/.exec(html)!;
    const scripts = [...html.matchAll(/<script([^>]*)>([^]*?)<\/script>/g)];
    expect(scripts.map(([, attributes]) => attributes)).toEqual([' type="application/json" id="vf-view-data"', '']);
    expect(policy).toBe(
      `default-src 'none'; script-src ${hash(scripts[1]![2]!)}; style-src ${hash(style!)}; img-src data:; base-uri 'none'; form-action 'none'`,
    );
    expect(html.indexOf('http-equiv')).toBeLessThan(html.indexOf('<style>'));
    expect(html).not.toMatch(/(src|href)="(?!data:)/);
    const { answers } = JSON.parse(scripts[0]![2]!) as { answers: Record<string, unknown> };
    expect(Object.keys(answers)).toEqual(
      expect.arrayContaining([
        'api/runs',
        'api/run?run=evals%2Fsums',
        'api/rollouts?run=evals%2Fsums&set=results',
        'api/metrics?after=0&run=train%2Fwritten',
        'api/step?run=train%2Fwritten&step=2',
      ]),
    );
  });

  it('replaces a page that it wrote into the folder of a run, and no record', async () => {
    const [page, record] = [join(evaluation, 'run.html'), join(evaluation, 'results.jsonl')];
    const before = readFileSync(record, 'utf8');
    for (const _ of [1, 2]) expect((await ended([evaluation, '--export', page])).code).toBe(0);
    rmSync(page);
    const { code, stdout, stderr } = await ended([evaluation, '--export', record]);
    expect({ code, stdout, stderr, after: readFileSync(record, 'utf8') }).toEqual({
      code: 2,
      stdout: '',
      stderr: expect.stringMatching(/^vf-view: .*results\.jsonl \(--export\) is a file of the run .*sums and was not replaced\. Name .*\n$/),
      after: before,
    });
  });

  it('writes the page to stdout for -', async () => {
    const { code, stdout } = await ended(['outputs', '--export', '-']);
    expect([code, stdout.startsWith('<!doctype html>'), stdout.trimEnd().endsWith('</html>')]).toEqual([0, true, true]);
    expect(existsSync(join(root, '-'))).toBe(false);
  });

  it('lets no text of a model end its element', async () => {
    const hostile = join(root, 'hostile');
    mkdirSync(hostile, { recursive: true });
    const markup = '</script><script>alert(1)</script><!--<script>$& $`';
    writeFileSync(join(hostile, 'metadata.json'), readFileSync(join(evaluation, 'metadata.json')));
    writeFileSync(join(hostile, 'results.jsonl'), `${resultLine({ group: markup, question: markup, response: markup, answer: markup })}\n`);
    expect((await ended([hostile, '--export', 'hostile.html'])).code).toBe(0);
    const html = readFileSync(join(root, 'hostile.html'), 'utf8');
    expect(html).not.toContain('alert(1)</script>');
    const [, data] = /id="vf-view-data">([^]*?)<\/script>/.exec(html)!;
    expect(JSON.stringify(JSON.parse(data!))).toContain(JSON.stringify(markup).slice(1, -1));
  });
});
