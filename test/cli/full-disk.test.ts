/** A disk that is full at one moment of a command: a small tmpfs, in a namespace of its own. Skipped where none can be made. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { BARE_ENVIRONMENT } from '../bare-environment.ts';
import { TemporaryFolder } from './eval/temporary-folder.ts';

const ROOT = join(import.meta.dirname, '../..');
const canMount = spawnSync('unshare', ['-Urm', 'true']).status === 0;

/** Fills the disk when rollout `fillAt` is scored, but for `leave` kB, unless `room` exists. Shares of vowels are rewards that differ. */
const ENVIRONMENT = `
import { existsSync, statfsSync, writeFileSync } from 'node:fs';
import { Dataset, Rubric, SingleTurnEnv } from 'vf-search';
const set = new Dataset('words', ['river', 'mayor', 'flag', 'bridge'].map((word) => (
  { exampleId: word, prompt: [{ role: 'user', content: 'Ask about a ' + word + '.' }] })));
export function loadEnvironment({ fillAt = 0, leave = 0 }) {
  let scored = 0;
  function vowels({ modelText }) {
    if (++scored === fillAt && !existsSync('room')) {
      const { bavail, bsize } = statfsSync('disk');
      writeFileSync('disk/balloon', Buffer.alloc(bavail * bsize - leave * 1024));
    }
    return (modelText.match(/[ae]/g)?.length ?? 0) / (1 + modelText.length);
  }
  return new SingleTurnEnv({ id: 'words', train: set, eval: set, rubric: new Rubric({ funcs: [vowels] }) });
}`;

/** Makes the disk, plays the lines there, in which `vf NAME ...` is a command whose output goes to NAME.txt, with its exit code last. */
async function played(folder: TemporaryFolder, sizeKb: number, lines: readonly string[]): Promise<(name: string) => string> {
  writeFileSync(join(folder.path, 'words.mjs'), ENVIRONMENT);
  const script = [
    'set -e',
    'mkdir disk',
    `mount -t tmpfs -o size=${sizeKb}k tmpfs disk`,
    `vf() { name=$1; command=$2; shift 2; code=0; ${process.execPath} --conditions=vf-search-source ${ROOT}/src/cli/vf-$command.ts "$@" > $name.txt 2>&1 || code=$?; echo "exit $code" >> $name.txt; }`,
    ...lines,
  ];
  const env = { ...BARE_ENVIRONMENT, HOME: folder.path, PATH: process.env['PATH'] ?? '' };
  const child = spawn('unshare', ['-Urm', 'sh', '-c', script.join('\n')], { cwd: folder.path, env, stdio: 'ignore' });
  expect(await once(child, 'close')).toEqual([0, null]);
  return (name) => readFileSync(join(folder.path, name), 'utf8');
}

const TRAIN = `words.mjs --plain -m ${ROOT}/test/models/nano-base --embedded -n 4 -r 2 --steps 4 -t 8 --seed 1 --set policy.embedded.threads=1 --set backend.threads=1 --set evaluation.every=0 --set checkpoint.every=1`;
const MADE_ROOM = 'touch room; rm -f disk/balloon';

describe.runIf(canMount)('a full disk', () => {
  it('is found before the first batch, with exit code 2 and no folder of the run', async () => {
    using folder = new TemporaryFolder();
    const file = await played(folder, 512, [`vf train train ${TRAIN} -o disk`, 'ls disk > left.txt']);
    expect(file('train.txt')).toMatch(
      /The disk of \S+ has \S+ kB free, and the run needs .*Free some space, name another folder \(output_dir\)[^\n]*\nexit 2\n$/,
    );
    expect(file('left.txt')).toBe('');
  });

  it.each([
    ['a file of rollouts', 0, /Could not write \S+\/rollouts\/step-000002\.jsonl: the disk is full\. Free some space and resume the run\./],
    ['an adapter that is to be published', 100, /Could not write \S+\/adapters\/\S+: the disk is full\. Free some space; nothing was left behind/],
    ['a checkpoint', 900, /Cannot write the checkpoint \S+\/step-000002: the disk is full; free some space, or keep fewer checkpoints/],
  ])('in the middle of %s costs a training nothing: -R ends as if there had been room', { tags: 'long' }, async (_, leave, words) => {
    using folder = new TemporaryFolder();
    const fills = (at: number) => `-a '${JSON.stringify({ fillAt: at, leave })}'`;
    const file = await played(folder, 16384, [
      `vf first train ${TRAIN} -o disk/a ${fills(11)}`,
      MADE_ROOM,
      'vf second train -R disk/a/train/* --plain',
      `vf reference train ${TRAIN} -o disk/b ${fills(0)}`,
      'for run in disk/a disk/b; do sha256sum < $(ls -d $run/train/*/checkpoints/step-000004*)/adapter/adapter_model.safetensors; done > weights.txt',
    ]);
    expect(file('first.txt')).toMatch(words);
    expect(file('first.txt')).toMatch(/vf-train\.js -R disk\/a\/train\/[^]*\nexit 1\n$/);
    expect(file('second.txt')).toMatch(/\nexit 0\n$/);
    const [resumed, whole] = file('weights.txt').trimEnd().split('\n');
    expect(resumed).toBe(whole);
  });

  it('in the middle of an evaluation keeps what was played; -R ends as if there had been room', async () => {
    using folder = new TemporaryFolder();
    const evaluate = (out: string, at: number) =>
      `eval words.mjs --plain -p embedded -n -1 -r 6 -c 1 -t 60 --seed 1 -o ${out} -a '{"fillAt": ${at}}'`;
    const file = await played(folder, 16384, [
      `vf first ${evaluate('disk/a', 4)}`,
      MADE_ROOM,
      `vf second ${evaluate('disk/a', 4)} -R`,
      `vf reference ${evaluate('disk/b', 0)}`,
      'for run in disk/a disk/b; do grep -oh \'"reward":[^,]*\' $run/evals/*/*/results.jsonl | sort | sha256sum; done > rewards.txt',
    ]);
    expect(file('first.txt')).toMatch(
      /Could not write \S+: the disk is full\. Free some space and resume the run\. Everything recorded before is kept\.\nexit 1\n$/,
    );
    expect(file('second.txt')).toMatch(/\nrollouts +24 finished, 0 failed[^]*\nexit 0\n$/);
    const [resumed, whole] = file('rewards.txt').trimEnd().split('\n');
    expect(resumed).toBe(whole);
  });

  it('is named by every command that writes a file from others, with the file and exit code 1; the file appears once there is room', async () => {
    using folder = new TemporaryFolder();
    const commands = [
      'export export $RUN -o disk/out.jsonl',
      'score score $RUN --env words.mjs',
      'view view $RUN --export disk/page.html',
      'index index corpus.jsonl -o disk/index',
    ];
    writeFileSync(join(folder.path, 'corpus.jsonl'), `${JSON.stringify({ id: 'a', contents: `"T"\n${'river mayor '.repeat(5000)}` })}\n`);
    const file = await played(folder, 16384, [
      'vf eval eval words.mjs --plain -p embedded -n -1 -r 4 -o disk',
      'RUN=$(ls -d disk/evals/*/*)',
      'head -c $(($(df --output=avail -k disk | tail -1) * 1024)) /dev/zero > disk/balloon',
      ...commands.map((command) => `vf full-${command}`),
      'ls disk > left.txt',
      MADE_ROOM,
      ...commands.slice(-1).map((command) => `vf room-${command}`),
    ]);
    for (const name of ['export', 'score', 'view', 'index']) {
      expect(file(`full-${name}.txt`)).toMatch(
        /^vf-\w+: [^\n]*disk\/[^\n]*the disk is full[^\n]*[Ff]ree some space and run the command again[^\n]*\nexit 1\n$/m,
      );
    }
    expect(file('room-index.txt')).toMatch(/exit 0\n$/);
    expect(file('left.txt')).toBe('balloon\nevals\n');
  });
});
