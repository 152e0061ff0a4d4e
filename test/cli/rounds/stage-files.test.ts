/** The files of the stages of `vf-rounds`: who may replace them, what a report says of them, and what a kill leaves. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, linkSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, watch, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import type { WireRoundManifest } from '../../../src/schemas/round-manifest.ts';
import { chatServer } from '../../models/chat-server.ts';
import { rowsText, traceText } from '../../rounds/trace-lines.ts';
import { PASS } from '../../rounds/vet-reply.ts';
import { IDS, stagesFolder, TRACE } from './stages-folder.ts';

const canMount = spawnSync('unshare', ['-Urm', 'true']).status === 0;
const STAGES_SCRIPT = join(import.meta.dirname, 'stages-process.ts');
const sha256Of = (content: string) => createHash('sha256').update(content).digest('hex');
const { at, file, rowsOf, rounds, done, world } = stagesFolder();

describe('the files of a stage', () => {
  it('are the same bytes for the same input, in whatever order it is named and its lines stand', async () => {
    const { rows } = world();
    file('one.jsonl', traceText(TRACE.slice(0, 9)));
    file('two.jsonl', traceText(TRACE.slice(9)));
    await done('bucket', '--trace', 'one.jsonl', '--trace', 'two.jsonl', '--rows', rows, '-o', 'a');
    await done('bucket', '--trace', 'two.jsonl', '--trace', 'one.jsonl', '--rows', rows, '-o', 'b');
    for (const name of readdirSync(at('a'))) expect([name, readFileSync(at(`b/${name}`))]).toEqual([name, readFileSync(at(`a/${name}`))]);
    file('one.jsonl', traceText(TRACE.slice(0, 9)).trimEnd().split('\n').toReversed().join('\n'));
    await done('bucket', '--trace', 'one.jsonl', '--trace', 'two.jsonl', '--rows', rows, '-o', 'b');
    for (const name of readdirSync(at('a')).filter((each) => each.endsWith('.jsonl')))
      expect([name, readFileSync(at(`b/${name}`))]).toEqual([name, readFileSync(at(`a/${name}`))]);
  });

  it('are not left out of a report because their manifest cannot be read', async () => {
    const { trace, rows } = world();
    await done('bucket', '--trace', trace, '--rows', rows, '-o', 'out');
    rmSync(at('out/bucket.manifest.json'));
    execFileSync('mkfifo', [at('out/bucket.manifest.json')]);
    for (const place of ['out', 'out/bucket-a.jsonl'])
      expect(await rounds('report', place)).toMatchObject({
        status: 2,
        stderr: expect.stringMatching(/^vf-rounds: \S*out\/bucket\.manifest\.json is a pipe; name a regular file$/m) as string,
      });
  });

  it.each([
    ['is empty', (path: string) => writeFileSync(path, ''), 'is not the manifest of a stage: '],
    ['is filled with zeros', (path: string) => writeFileSync(path, Buffer.alloc(64)), 'is not the manifest of a stage: '],
    ['ends in its first word', (path: string) => writeFileSync(path, '{\n  "schem'), 'is not the manifest of a stage: '],
    ['is a link to nothing', (path: string) => symlinkSync('gone', path), 'leads to a file that does not exist'],
  ])('are named in a report where their manifest %s', async (_, damage, problem) => {
    const { trace, rows } = world();
    await done('bucket', '--trace', trace, '--rows', rows, '-o', 'out');
    rmSync(at('out/bucket.manifest.json'));
    damage(at('out/bucket.manifest.json'));
    for (const place of ['.', 'out', 'out/bucket-a.jsonl']) {
      const { status, stderr } = await rounds('report', place);
      expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringContaining(`out/bucket.manifest.json ${problem}`) as string });
    }
  });

  it('replace nothing that another wrote, and no input', async () => {
    const { trace, rows } = world();
    file('mine.jsonl', 'precious\n');
    const foreign = await rounds('extract', '--trace', trace, '-o', 'mine.jsonl');
    expect(foreign).toMatchObject({
      status: 2,
      stderr: 'vf-rounds: mine.jsonl exists and is not an output of extract; name another file, or remove it\n',
    });
    expect(readFileSync(at('mine.jsonl'), 'utf8')).toBe('precious\n');
    const self = await rounds('focus', '--trace', trace, '--rows', rows, '-o', rows);
    expect(self.stderr).toBe('vf-rounds: rows.jsonl is read as rows, so it cannot be the output; name another file\n');
    const twice = await rounds('bucket', '--trace', trace, '--trace', `./${trace}`, '--rows', rows, '-o', 'r1');
    expect(twice.stderr).toMatch(/is named twice as trace; name it once\n$/);
  });

  it('keep the decisions that somebody filled into their lists: report takes them, and no stage replaces them', { timeout: 120_000 }, async () => {
    const { trace, rows } = world();
    const bucket = ['bucket', '--trace', trace, '--rows', rows, '-o', 'r1'];
    const verify = ['verify', '--trace', trace, '--rows', rows, '-o', 'r1/verified.jsonl'];
    for (const [command, list] of [
      [bucket, 'r1/review.jsonl'],
      [verify, 'r1/verified.jsonl'],
    ] as const) {
      await done(...command);
      const edited = readFileSync(at(list), 'utf8').replace('"exclude":false,"reason":""', '"exclude":true,"reason":"wrong reference"');
      expect(edited).toContain('wrong reference');
      file(list, edited);
      await done('review', '--rows', rows, '--exclude', list, '-o', 'r1/kept.jsonl');
      expect(await done('report', 'r1')).toMatch(new RegExp(`^${command[0]} `, 'm'));
      expect(await rounds(...command)).toMatchObject({
        status: 2,
        stderr: `vf-rounds: ${list} was edited after ${command[0]} wrote it, and ${command[0]} would replace it. Name another output with -o, or delete the file.\n`,
      });
      expect(readFileSync(at(list), 'utf8')).toBe(edited);
      rmSync(at(list));
      await done(...command);
      expect(readFileSync(at(list), 'utf8')).not.toContain('wrong reference');
      // Nobody edited it: the stage was killed between this file and its manifest.
      const interrupted = `r1/${command[0] === 'bucket' ? 'bucket' : 'verified'}.manifest.json`;
      file(interrupted, readFileSync(at(interrupted), 'utf8').replace('"complete": true', '"complete": false'));
      file(list, '');
      await done(...command);
      expect(rowsOf(list)).not.toHaveLength(0);
    }
  });

  it('report how many rows each stage left; a file that has changed since breaks the chain in one line', { timeout: 120_000 }, async () => {
    const { trace, rows } = world();
    await done('bucket', '--trace', trace, '--rows', rows, '-o', 'r1');
    await done('focus', '--trace', trace, '--rows', 'r1/bucket-a.jsonl', '-o', 'r1/round.jsonl');
    const table = await done('report', 'r1/round.jsonl', '--trace', trace);
    expect(table).toMatch(/^bucket +6 +2 bucket-a, 1 bucket-b, 2 bucket-0, 2 review +.*measure ndcg, low 0.1, high 0.7/m);
    expect(table).toMatch(/^focus +2 +1 round /m);
    expect(table).toMatch(/^right without its document +0 \(0 %\)$/m);
    expect(table).toMatch(/^generator +20 +500 +500 +500 +500$/m);
    const { stages, trace: analysis } = JSON.parse(await done('report', 'r1', '--trace', trace, '--json')) as {
      stages: { stage: string }[];
      trace: Record<string, unknown>;
    };
    expect(stages.map(({ stage }) => stage)).toEqual(['bucket', 'focus']);
    expect(analysis).toMatchObject({ prompts: 5, rollouts: 20, wrong_with_golden_pages: 4, zero_search: 0 });
    expect(await done('report', 'r1', '--markdown')).toMatch(/^\| stage \| in \| out \| rule \|\n\| --- \|/);
    file('rows.jsonl', rowsText(IDS.slice(1)));
    const broken = await rounds('report', 'r1/round.jsonl');
    expect(broken.status).toBe(2);
    expect(broken.stderr).toMatch(
      /^vf-rounds: The chain is broken: \S*rows\.jsonl has changed since bucket read it as rows \(SHA-256 \S+ then, \S+ now\); run bucket again\n$/,
    );
  });

  it('are named from the working folder wherever the chain breaks', async () => {
    const { trace, rows } = world();
    mkdirSync(at('deep'));
    await done('bucket', '--trace', trace, '--rows', rows, '-o', 'deep/r1');
    await done('focus', '--trace', trace, '--rows', 'deep/r1/bucket-a.jsonl', '-o', 'round.jsonl');
    const brokenBy = async (name: string) => {
      const whole = readFileSync(at(name), 'utf8');
      file(name, `${whole}\n`);
      const { stderr } = await rounds('report', 'round.jsonl');
      file(name, whole);
      return /^vf-rounds: The chain is broken: (.*) has changed since/.exec(stderr)?.[1];
    };
    for (const name of ['rows.jsonl', 'round.jsonl', 'deep/r1/bucket-a.jsonl', 'deep/r1/bucket-b.jsonl']) expect(await brokenBy(name)).toBe(name);
    rmSync(at('deep/r1/bucket-b.jsonl'));
    expect((await rounds('report', 'round.jsonl')).stderr).toMatch(/^vf-rounds: The file deep\/r1\/bucket-b\.jsonl does not exist/);
  });

  it('report past the manifests of other programs, and name a torn one of a stage in one line', async () => {
    const { trace, rows } = world();
    await done('bucket', '--trace', trace, '--rows', rows, '-o', 'deep/r1');
    const others = { 'app.manifest.json': '{"name": "app", "icons": []}', 'list.manifest.json': '[1]', 'cut.manifest.json': '{"name": "a' };
    for (const [name, content] of Object.entries(others)) for (const place of ['', 'deep/', 'deep/r1/']) file(`${place}${name}`, content);
    mkdirSync(at('deep/folder.manifest.json'));
    const before = await done('report', 'deep/r1/bucket-a.jsonl');
    expect(before).toMatch(/^bucket +6 /m);
    expect(await done('report', 'deep')).toBe(before);
    await done('focus', '--trace', trace, '--rows', 'deep/r1/bucket-a.jsonl', '-o', 'deep/r1/round.jsonl');
    expect((await done('report', 'deep/r1/round.jsonl')).split('\n').map((line) => line.split(' ')[0])).toEqual(['stage', 'bucket', 'focus', '']);
    const own = readFileSync(at('deep/r1/bucket.manifest.json'), 'utf8');
    file('deep/r1/bucket.manifest.json', own.slice(0, own.length / 2));
    for (const named of ['deep', 'deep/r1/round.jsonl']) {
      const { status, stderr } = await rounds('report', named);
      expect(status).toBe(2);
      expect(stderr).toMatch(
        /^vf-rounds: \S*deep\/r1\/bucket\.manifest\.json is not the manifest of a stage: text that is not JSON\. Restore it, or delete [^\n]+\n$/,
      );
    }
  });

  it.runIf(canMount)('do not fit on a full disk, which a stage says in one line with what to do', async () => {
    file('trace.jsonl', traceText([1, 0, 0].map((judge, index) => ({ prompt: 'rare', index, judge, think: 'x'.repeat(50_000) }))));
    mkdirSync(at('small'));
    const steps = `mount -t tmpfs -o size=32k tmpfs small && exec "$@" extract --trace trace.jsonl -o small/rows.jsonl`;
    const words = [process.execPath, '--conditions=vf-search-source', '--no-warnings', join(import.meta.dirname, '../../../src/cli/vf-rounds.ts')];
    const child = spawn('unshare', ['-Urm', 'sh', '-c', steps, 'sh', ...words], { cwd: at(''), stdio: ['ignore', 'ignore', 'pipe'] });
    const [stderr] = await Promise.all([text(child.stderr), once(child, 'close')]);
    expect({ status: child.exitCode, stderr }).toEqual({
      status: 1,
      stderr: 'vf-rounds: Could not write small/rows.jsonl: the disk is full. Free some space, then run the command again.\n',
    });
  });

  /** Kills the stages at every `spacing`-th change of their folder, `limit` times at most, and returns how many stages were done at the kills. */
  async function killStages(spacing: number, limit = Infinity): Promise<Set<number>> {
    world();
    for (const [name, id] of Object.entries({ old: 'lost', new: 'gated' })) file(`${name}-list.jsonl`, `${JSON.stringify({ id, reason: 'x' })}\n`);
    await using server = await chatServer(({ messages }) => {
      const instructions = messages[0]!.content;
      if (instructions.includes('"verdict"')) return JSON.stringify({ verdict: 'GEN_ERROR', reason: 'r' });
      return JSON.stringify(instructions.includes('"pass"') ? PASS : { units: [] });
    });
    const asks = (role: string) => ['--role', `${role}=m@${server.url}/v1`];
    const traced = ['--trace', 'trace.jsonl', '--rows', 'rows.jsonl'];
    /** Other bounds make other files. */
    const stages = (version: 'old' | 'new', [least, most, rate] = version === 'old' ? ['0', '0.9', '1'] : ['0.1', '0.2', '0.5']) =>
      [
        ['bucket', ...traced, '--low', least, '--high', most, '-o', 'out'],
        ['review', '--rows', 'rows.jsonl', '--exclude', `${version}-list.jsonl`, '-o', 'out/reviewed.jsonl'],
        ['focus', ...traced, '--threshold', most, '-o', 'out/focused.jsonl'],
        ['verify', ...traced, '--low', most, '-o', 'out/verified.jsonl', ...asks('vetter')],
        ['extract', '--trace', 'trace.jsonl', '--max-rate', rate, '-o', 'out/extracted.jsonl'],
        ['vet', 'out/extracted.jsonl', '-o', 'out/passed.jsonl', ...asks('vetter')],
        ['rewrite', 'out/passed.jsonl', '-o', 'out/rewritten.jsonl', ...asks('rewriter')],
        ['finalize', 'out/rewritten.jsonl', '-o', 'out/final.jsonl'],
      ] as [string, ...string[]][];
    const run = async (version: 'old' | 'new') => {
      for (const stage of stages(version)) await done(...stage);
    };
    const contents = (of: string) =>
      Object.fromEntries(
        readdirSync(at(of))
          .filter((name) => !/replies|\.tmp$|^\.lock/.test(name))
          .map((name) => [name, readFileSync(at(`${of}/${name}`), 'utf8')]),
      );
    mkdirSync(at('out'));
    await run('old');
    const old = contents('out');
    cpSync(at('out'), at('old'), { recursive: true });
    await run('new');
    const whole = contents('out');
    expect(Object.keys(whole)).toHaveLength(4 + 1 + 2 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 2 + 1 + 1 + 1 + 2 + 1);
    for (const [name, content] of Object.entries(whole)) expect([name, content]).not.toEqual([name, old[name]]);

    const doneAtKills = new Set<number>();
    for (let [change, kills] = [3, 0]; kills < limit; change += spacing, kills++) {
      rmSync(at('out'), { recursive: true });
      mkdirSync(at('out'));
      // What writes into an old file, in place of replacing it, changes its link, too.
      for (const name of Object.keys(old)) linkSync(at(`old/${name}`), at(`out/${name}`));
      const words = ['--conditions=vf-search-source', '--no-warnings', STAGES_SCRIPT, JSON.stringify(stages('new'))];
      const child = spawn(process.execPath, words, { cwd: at('') });
      let seen = 0;
      const watcher = watch(at('out'), () => void (++seen === change && child.kill('SIGKILL')));
      await once(child, 'close');
      watcher.close();
      const left = contents('out');
      const [manifests, others] = [true, false].map((is) => Object.entries(left).filter(([name]) => name.endsWith('.manifest.json') === is));
      for (const [name, content] of others!) expect([old[name], whole[name]]).toContain(content);
      const promised = manifests!
        .map(([, content]) => JSON.parse(content) as WireRoundManifest)
        .flatMap((each) => (each.complete ? each.outputs : []));
      for (const { path, sha256 } of promised) expect([path, sha256Of(left[path]!)]).toEqual([path, sha256]);
      expect(contents('old')).toEqual(old);
      doneAtKills.add(manifests!.filter(([name, content]) => content === whole[name]).length);
      await run('new');
      expect(contents('out')).toEqual(whole);
      if (child.signalCode === null) break;
    }
    return doneAtKills;
  }

  it('are old or new after kill -9, and whole once the stages are run again', { timeout: 240_000 }, async () => {
    expect((await killStages(90, 2)).size).toBe(2);
  });

  it('are so in whatever stage it comes', { tags: 'long', timeout: 240_000 }, async () => {
    expect((await killStages(23)).size).toBeGreaterThan(4);
  });
});
