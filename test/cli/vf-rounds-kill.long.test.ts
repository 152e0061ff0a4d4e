/**
 * `vf-rounds run` on visual-rag and its nano model, killed in every step after the trainings of a round: the files are those of an unbroken run.
 * @module-tag long
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { chatServer } from '../models/chat-server.ts';
import { PASS } from '../rounds/vet-reply.ts';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';

const ROOT = join(import.meta.dirname, '../..');
const SCRIPT = join(ROOT, 'src/cli/vf-rounds.ts');

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'vf-rounds-kill-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const config = (url: string) => `
rows = "rows.jsonl"
output = "out"
flags = ["--preset", "laptop", "--steps", "1", "-n", "2", "-r", "4", "--set", "evaluation.every=0"]
arguments = { pages = "page-world" }
[bucket]
low = 0
high = 1
[extract]
success = "reward"
threshold = 0
max_rate = 1
top = 1
[vet]
role = "vetter=m@${url}/v1"
[rewrite]
role = "rewriter=m@${url}/v1"
[sft]
flags = ["--set", "sft.epochs=2"]
`;

interface State {
  readonly steps: readonly { readonly key: string; readonly run: string | null }[];
}
const statePath = () => join(folder, 'out/state.json');
const state = () => JSON.parse(readFileSync(statePath(), 'utf8')) as State;

/** The files of all stages after the trainings, and the manifest of the supervised steps, which has the SHA-256 of their adapter. */
function files(): Readonly<Record<string, string>> {
  const data = join(folder, 'out/round-1/sft-data');
  const names = readdirSync(data).filter((name) => !/replies|\.tmp$/.test(name));
  const { run } = state().steps.find(({ key }) => key === '1/sft')!;
  return {
    ...Object.fromEntries(names.map((name) => [name, readFileSync(join(data, name), 'utf8')])),
    sft: readFileSync(join(folder, run!, 'training.manifest.json'), 'utf8'),
  };
}

describe('vf-rounds run', () => {
  it('makes the same files after kill -9 in extract, vet, rewrite, finalize and the supervised steps', { timeout: 600_000 }, async () => {
    let onAsked = (_role: string) => {};
    await using server = await chatServer(({ messages }) => {
      const { units } = JSON.parse(messages.at(-1)!.content) as { units?: { index: number; thinks: string[] }[] };
      onAsked(units === undefined ? 'vet' : 'rewrite');
      if (units === undefined) return JSON.stringify(PASS);
      return JSON.stringify({ units: units.map(({ index, thinks }) => ({ index, thinks: thinks.map(() => 'In other words.') })) });
    });
    const rows = readFileSync(join(ROOT, 'packages/vf-search-models/datasets/page-world/train.jsonl'), 'utf8').split('\n').slice(0, 2);
    writeFileSync(join(folder, 'rows.jsonl'), `${rows.join('\n')}\n`);
    writeFileSync(join(folder, 'rounds.toml'), config(server.url));

    /** Runs until `isDue` says that now is the time for a kill, of the whole group. */
    const run = async (isDue: (stderr: string, role: string | null) => boolean) => {
      const env = { ...BARE_ENVIRONMENT, HOME: folder };
      const args = ['--conditions=vf-search-source', '--no-warnings', SCRIPT, 'run', 'rounds.toml'];
      const child = spawn(process.execPath, args, { cwd: folder, env, detached: true });
      let [stderr, isKilled] = ['', false];
      const look = (role: string | null) => {
        if (isKilled || !isDue(stderr, role)) return;
        isKilled = true;
        process.kill(-child.pid!, 'SIGKILL');
      };
      child.stdout.resume();
      child.stderr.on('data', (chunk) => {
        stderr += String(chunk);
        look(null);
      });
      onAsked = look;
      await once(child, 'close');
      return { status: child.exitCode, signal: child.signalCode, stderr };
    };

    expect(await run(() => false)).toMatchObject({ status: 0 });
    const [whole, { steps }] = [files(), state()];
    const stages = ['1/extract', '1/vet', '1/rewrite', '1/finalize', '1/sft'];
    expect(steps.map(({ key }) => key)).toEqual(['1/phase1', '1/bucket', '1/focused', ...stages]);
    expect(whole['rewritten.jsonl']).toContain('In other words.');

    // Back to the end of the focused training, whose trace has times and so differs between two runs.
    writeFileSync(statePath(), JSON.stringify({ ...state(), steps: steps.slice(0, 3) }));
    for (const name of ['sft-data', 'sft']) rmSync(join(folder, 'out/round-1', name), { recursive: true });
    const kills: Parameters<typeof run>[0][] = [
      // Its files are written, but the step is not recorded.
      (stderr) => stderr.includes('\nvf-rounds extract: '),
      (_, role) => role === 'vet',
      (_, role) => role === 'rewrite',
      (stderr) => stderr.includes('\nvf-rounds finalize: '),
      (stderr) => /^step 1\/\d+ +nll/m.test(stderr),
    ];
    for (const [i, isDue] of kills.entries()) {
      expect(await run(isDue)).toMatchObject({ signal: 'SIGKILL' });
      expect(state().steps.length).toBeLessThanOrEqual(3 + i + 1);
    }
    const { status, stderr } = await run(() => false);
    expect({ status, stderr }).toMatchObject({ status: 0, stderr: expect.stringContaining('(1/finalize) was done before') as string });
    expect(state().steps.map(({ key }) => key)).toEqual(steps.map(({ key }) => key));
    expect(files()).toEqual(whole);
  });
});
